// The service worker of the page: it keeps the page itself, so that it opens without a connection. Messages are not kept
// here. The page is asked for first, so that an upgrade shows at once; the kept copy answers when the network does not.

const NAME = 'tidings-page';
const SHELL = '/';

self.addEventListener('install', (event) => {
  event.waitUntil(keepPage().then(() => self.skipWaiting()));
});

self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== 'GET' || url.origin !== self.location.origin) return;
  if (request.mode === 'navigate' && url.pathname === SHELL) event.respondWith(page(event));
  else if (url.pathname.startsWith('/assets/') || url.pathname.startsWith('/web/app/words/')) event.respondWith(asset(request));
});

/** The page of the network, else the kept one. After an upgrade it names other files: they are kept too. */
async function page(event) {
  try {
    const answer = await fetch(event.request);
    if (!answer.ok) return answer;
    await keep(SHELL, answer.clone());
    event.waitUntil(answer.clone().text().then(keepNamed).catch(() => {})); // the next visit tries again
    return answer;
  } catch (error) {
    const kept = await caches.match(SHELL);
    if (kept) return kept;
    throw error;
  }
}

/** A file whose name has its hash never changes, so the kept copy is right. */
async function asset(request) {
  const kept = await caches.match(request);
  if (kept && request.url.includes('/assets/')) return kept;
  try {
    const answer = await fetch(request);
    if (answer.ok) await keep(request, answer.clone());
    return answer;
  } catch (error) {
    if (kept) return kept;
    throw error;
  }
}

async function keep(request, answer) {
  const cache = await caches.open(NAME);
  await cache.put(request, answer);
}

async function keepPage() {
  const answer = await fetch(SHELL);
  if (!answer.ok) return;
  const text = await answer.clone().text();
  await keep(SHELL, answer);
  await keepNamed(text);
}

/** Keep the files that the page names, also those that it loads later, and no others. */
async function keepNamed(text) {
  const names = [...text.matchAll(/(?:href|src|content)="(\/assets\/[^"]+)"/gu)].map(([, name]) => name);
  const cache = await caches.open(NAME);
  const wanted = new Set(names.map((name) => new URL(name, self.location.origin).href));
  for (const old of await cache.keys()) if (old.url.includes('/assets/') && !wanted.has(old.url)) await cache.delete(old);
  await Promise.all(names.map((name) => cache.match(name).then((known) => known ?? cache.add(name))));
}

self.addEventListener('push', (event) => event.waitUntil(notify(read(event.data))));

/** Show a message, unless the user looks at the page: then the page shows it. */
async function notify({ title, body, badge, conversation_id: id, thread_seq: thread }) {
  if (typeof badge === 'number') await self.navigator.setAppBadge?.(badge).catch(() => {});
  if ((await pages()).some((one) => one.visibilityState === 'visible' && one.focused)) return;
  const facts = { body: body ?? '', tag: thread ? `${id}/${thread}` : id, icon: '/web/app/icon-192.png', renotify: id !== undefined, data: { id, thread } };
  await self.registration.showNotification(title ?? 'Tidings', facts);
}

self.addEventListener('notificationclick', (event) => {
  event.notification.close();
  const { id, thread } = event.notification.data ?? {};
  const hash = id ? `#/c/${encodeURIComponent(id)}${thread ? `/t${thread}` : ''}` : '';
  event.waitUntil(show(`/${hash}`));
});

/** The open windows of the page. Other pages of this node show no messages. */
async function pages() {
  const windows = await self.clients.matchAll({ type: 'window' });
  return windows.filter((one) => new URL(one.url).pathname === SHELL);
}

async function show(address) {
  const [open] = await pages();
  if (!open) return self.clients.openWindow(address);
  await open.focus().catch(() => {}); // a browser may forbid it; the conversation is shown all the same
  return open.navigate(address);
}

function read(data) {
  try {
    return data?.json() ?? {};
  } catch {
    return {};
  }
}
