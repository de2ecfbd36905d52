// The start of the page: the session, the connection, the two panes and the address. `#/c/<id>` is a conversation, `#/`
// is the inbox. On a phone these are two screens, elsewhere they stand side by side.

import { localStorageOutbox, memoryStorage, TidingsClient } from '/sdk/tidings.js';

import { TabBadge } from './badge.js';
import { Banner } from './banner.js';
import { el } from './parts/dom.js';
import { InboxPane } from './inbox/inbox.js';
import { QuickOpen } from './inbox/quick.js';
import { Notifier } from './notify.js';
import { later } from './parts/later.js';
import { openMenu } from './parts/menu.js';
import { chooseWords, has, t } from './parts/words.js';
import { newConversation } from './people/create.js';
import { offerInvite, takeInvite } from './people/invites.js';
import { Profiles } from './people/profiles.js';
import { findSessions, sessionOfName } from './session.js';
import { chooseSession, signIn } from './signin.js';
import { SavedMessages } from './thread/saved.js';
import { ThreadPane } from './thread/thread.js';
import { Drafts } from './writing/drafts.js';

const RETURNS = new Set([4501, 4502, 4504, 4505]); // the connection stopped but the session is valid: the banner offers a way back
const THEME = 'tidings.theme';
const LATER_MS = 30_000; // then the rarely needed parts are loaded: they work without a connection, and after an upgrade
const PROFILE = () => import('./people/profile.js');
const PATIENCE_MS = 1500; // then the page opens without a connection

class Page {
  constructor(place, session) {
    this.place = place;
    this.session = session;
    this.client = new TidingsClient({ getToken: ({ reason }) => session.renew(reason), storage: outboxStorage() });
    this.profiles = new Profiles(this.client);
    this.badge = new TabBadge();
    this.banner = new Banner(this.client);
    this.drafts = new Drafts(this.client);
    this.notifier = new Notifier(this.client, this.profiles, {
      open: (conversation, threadSeq) => this.go(conversation, threadSeq && `t${threadSeq}`),
    });
    const write = (userId) => this.write(userId);
    this.quick = new QuickOpen(this.client, this.profiles, { open: (conversation, seq) => this.go(conversation, seq), write });
    this.inbox = new InboxPane(this.client, this.profiles, {
      create: () => this.create(), menu: (button) => this.menu(button), search: () => this.quick.open(), write,
      draftOf: (conversation) => this.drafts.of(conversation), threads: () => this.threads(),
    });
    this.saved = new SavedMessages(this.client, this.profiles, {
      open: (conversation, seq) => this.go(conversation, seq), changed: () => this.thread.render(),
    });
    const { drafts, saved } = this;
    const sideToggled = (isOpen) => this.showSide(isOpen);
    this.thread = new ThreadPane(this.client, this.profiles, { leave: () => this.leave(), write, sideToggled, drafts, saved });
    drafts.onChange((conversation) => conversation === this.thread.conversation && this.thread.composer.refresh());
    this.shell = el('main.shell', { 'data-pane': 'inbox' }, this.inbox.element, this.thread.element);
    const skip = el('a.skip', { href: '#thread', onclick: (event) => this.skip(event) }, t('skip'));
    const title = el('header.quiet', null, el('h1', null, 'Tidings'));
    place.replaceChildren(skip, title, this.banner.element, this.notifier.element, this.shell);
    this.listen();
  }

  listen() {
    const count = () => this.badge.show(this.client.inbox.totalUnread);
    this.client.on('unread', count);
    this.client.on('inbox', count);
    addEventListener('hashchange', () => this.route());
    this.client.on('state', ({ state }) => state === 'connected' && this.invited());
    addEventListener('keydown', (event) => this.key(event));
    this.client.on('state', ({ state, error }) => {
      const isOver = state === 'disconnected' && error && error.code !== 'closed' && !RETURNS.has(error.closeCode);
      if (isOver) this.signOut(t('signInAgain', { why: this.whyRefused(error) }));
    });
  }

  /** Why a token was refused: as the server says it, else as the token says it of itself. */
  whyRefused({ reason, message }) {
    if (reason && has(`reason.${reason}`)) return t(`reason.${reason}`);
    return this.session.isExpired ? t('reason.expired') : message;
  }

  async start(name) {
    const connecting = this.client.connect().then(() => true, () => false); // the listener of the state handles a refusal
    await Promise.race([connecting, new Promise((resolve) => setTimeout(resolve, PATIENCE_MS))]);
    this.route(); // without a connection too: what is written is kept and sent later
    setTimeout(() => PROFILE().catch(() => {}), LATER_MS); // one of them brings all
    if (!(await connecting)) return;
    if (name) await this.client.putProfile({ name }).then((one) => this.profiles.learn(one), () => {}); // else the id is shown
    await this.client.getProfile(this.client.userId).then((one) => this.profiles.learn(one), () => {});
  }

  /** A link with an invite is answered once there is a connection. */
  invited() {
    offerInvite(this.client, (conversation) => this.go(conversation));
  }

  // --- the address ---

  route() {
    takeInvite();
    if (this.client.state === 'connected') this.invited();
    const found = /^#\/c\/([^/]+)(?:\/(t?)(\d+))?$/u.exec(location.hash);
    const id = found ? decoded(found[1]) : null;
    const seq = found?.[3] ? Number(found[3]) : null;
    this.shell.dataset.pane = id ? 'thread' : 'inbox';
    this.inbox.setCurrent(id);
    if (id) this.show(this.client.conversation(id), seq, Boolean(found[2]));
    else this.thread.close();
  }

  /** Show a conversation, at one of its messages or with one of its threads, where the address names one. */
  async show(conversation, seq, isThread) {
    await this.thread.open(conversation);
    if (seq === null || conversation !== this.thread.conversation) return;
    history.replaceState(null, '', `#/c/${encodeURIComponent(conversation.id)}`); // the same jump can be asked for again
    if (isThread) this.thread.openThread(seq);
    else this.thread.reading.jumpToSeq(seq);
  }

  threads() {
    const open = (conversation, seq) => this.go(conversation, `t${seq}`);
    this.part(() => import('./thread/threadlist.js'), ({ showThreads }) => showThreads(this.client, this.profiles, open));
  }

  /** `place` is the seq of a message, or that of a thread's root with a `t` before it. */
  go(conversation, place = null) {
    location.hash = `#/c/${encodeURIComponent(conversation.id)}${place === null ? '' : `/${place}`}`;
  }

  async write(userId) {
    try {
      this.go(await this.client.direct(userId));
    } catch (error) {
      this.thread.tell(error);
    }
  }

  leave() {
    const id = this.inbox.currentId;
    location.hash = '#/';
    this.route();
    this.inbox.focus(id);
  }

  /** A thread stands in the page only while it is open. */
  showSide(isOpen) {
    this.shell.dataset.side = isOpen ? 'open' : 'closed';
    if (isOpen) this.shell.append(this.thread.side.element);
    else this.thread.side.element.remove();
  }

  // --- the account ---

  create() {
    newConversation(this.client, this.profiles, (conversation) => this.go(conversation));
  }

  menu(button) {
    const isDark = document.documentElement.dataset.theme === 'dark'
      || (!document.documentElement.dataset.theme && matchMedia('(prefers-color-scheme: dark)').matches);
    openMenu(button, t('account'), [
      this.whoAmI(),
      { icon: 'user', label: t('yourProfile'), run: () => this.part(PROFILE, ({ showProfile }) => showProfile(this.client, this.profiles)) },
      { icon: 'gear', label: t('preferences'), run: () => this.part(PROFILE, ({ showPreferences }) => showPreferences(this.client, this.profiles)) },
      { icon: 'hash', label: t('publicConversations'), run: () => this.directory() },
      { icon: 'bookmark', label: t('savedMessages'), run: () => this.savedMessages() },
      this.notifier.menuItem(),
      isDark
        ? { icon: 'sun', label: t('lightColours'), run: () => setTheme('light') }
        : { icon: 'moon', label: t('darkColours'), run: () => setTheme('dark') },
      this.inbox.isArchive
        ? { icon: 'bubble', label: t('inbox'), run: () => this.inbox.showArchive(false) }
        : { icon: 'archive', label: t('archivedConversations'), run: () => this.inbox.showArchive(true) },
      { icon: 'signout', label: t('signOut'), run: () => this.signOut() },
    ]);
  }

  savedMessages() {
    this.part(() => import('./thread/savedlist.js'), ({ showSaved }) => showSaved(this.saved));
  }

  directory() {
    this.part(() => import('./people/directory.js'), ({ showDirectory }) => showDirectory(this.client, (one) => this.go(one)));
  }

  /** Load a part that is rarely needed, and run it. */
  async part(load, run) {
    const part = await later(load, (error) => this.thread.tell(error));
    if (part) run(part);
  }

  whoAmI() {
    const { id, name } = this.profiles.of(this.client.userId ?? '…');
    return t('signedInAs', { who: name === id ? id : `${name} (${id})` });
  }

  /** Sign out. The outbox stays: the same user finds the unsent messages at the next sign-in. */
  async signOut(note = null) {
    if (this.isOver) return;
    this.isOver = true;
    this.session.forget();
    if (note) noteForLater(note);
    await Promise.race([this.notifier.endPush(), new Promise((resolve) => setTimeout(resolve, PATIENCE_MS))]);
    await this.client.close();
    location.hash = '';
    location.reload();
  }

  // --- keys ---

  key(event) {
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      this.quick.open();
    }
    if (document.querySelector('dialog[open], :popover-open')) return;
    if (event.altKey && (event.key === 'ArrowUp' || event.key === 'ArrowDown')) {
      const next = this.inbox.beside(event.key === 'ArrowUp' ? -1 : 1);
      if (next) this.go(next);
      event.preventDefault();
    } else if (event.key === 'Escape' && this.inbox.currentId && !this.thread.escape()) this.leave();
  }

  skip(event) {
    event.preventDefault();
    if (this.inbox.currentId) this.thread.composer.focus();
    else this.thread.element.focus();
  }
}

/** Make the storage of the outbox. Where storage is forbidden, unsent messages last as long as the page. */
function outboxStorage() {
  try {
    return localStorageOutbox();
  } catch {
    return memoryStorage();
  }
}

/** Decode a part of the address; null for a damaged one. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem(THEME, name);
  } catch {
    // Storage is forbidden: the value lasts as long as the page.
  }
}

function storedTheme() {
  try {
    return localStorage.getItem(THEME);
  } catch {
    return null;
  }
}

const NOTE = 'tidings.note';

function noteForLater(note) {
  try {
    sessionStorage.setItem(NOTE, note);
  } catch {
    // The sign-in screen works without it.
  }
}

function takeNote() {
  try {
    const note = sessionStorage.getItem(NOTE);
    sessionStorage.removeItem(NOTE);
    return note;
  } catch {
    return null;
  }
}

/** The session to begin with, or null. A link never replaces another user's sign-in without a question. */
async function sessionOf(place) {
  const { known, given } = findSessions();
  if (!given) return known;
  const isOther = known !== null && known.userId !== given.userId;
  const session = isOther ? await chooseSession(place, known, given) : given;
  session.keep();
  return session;
}

/** The session: of the name in the address (--dev), of a token, or of the sign-in. */
async function entry(place) {
  const named = await sessionOfName().catch(() => null);
  if (named) return named;
  const known = await sessionOf(place);
  return known ? { session: known, name: null } : signIn(place, takeNote());
}

async function begin() {
  const place = document.getElementById('app');
  const theme = storedTheme();
  if (theme) document.documentElement.dataset.theme = theme;
  await chooseWords();
  takeInvite();
  const { session, name } = await entry(place);
  const page = new Page(place, session);
  await page.start(name);
}

/** Keep the page for times without a connection. The page works without it. The one policy allows this one address. */
function keepPage() {
  const address = '/worker.js';
  const policy = globalThis.trustedTypes?.createPolicy('tidings-worker', { createScriptURL: () => address });
  navigator.serviceWorker?.register(policy?.createScriptURL(address) ?? address).catch(() => {});
}

keepPage();
begin();
