// The start of the page: the session, the connection, the two panes and the address. `#/c/<id>` is a conversation, `#/`
// is the inbox. On a phone these are two screens, elsewhere they stand side by side.

import { localStorageOutbox, memoryStorage, TidingsClient } from '/sdk/tidings.js';

import { TabBadge } from './badge.js';
import { Banner } from './banner.js';
import { el } from './dom.js';
import { InboxPane } from './inbox.js';
import { openMenu } from './menu.js';
import { newConversation, showProfile } from './people.js';
import { Profiles } from './profiles.js';
import { findSessions } from './session.js';
import { chooseSession, signIn } from './signin.js';
import { ThreadPane } from './thread.js';

const RETURNS = new Set([4501, 4502, 4504, 4505]); // the connection stopped but the session is valid: the banner offers a way back
const THEME = 'tidings.theme';

class Page {
  constructor(place, session) {
    this.place = place;
    this.session = session;
    this.client = new TidingsClient({ getToken: ({ reason }) => session.renew(reason), storage: outboxStorage() });
    this.profiles = new Profiles(this.client);
    this.badge = new TabBadge();
    this.banner = new Banner(this.client);
    const acts = { create: () => this.create(), menu: (button) => this.menu(button) };
    this.inbox = new InboxPane(this.client, this.profiles, acts);
    this.thread = new ThreadPane(this.client, this.profiles, { leave: () => this.leave() });
    this.shell = el('main.shell', { 'data-pane': 'inbox' }, this.inbox.element, this.thread.element);
    const skip = el('a.skip', { href: '#thread', onclick: (event) => this.skip(event) }, 'Skip to the conversation');
    const title = el('header.quiet', null, el('h1', null, 'Tidings'));
    place.replaceChildren(skip, title, this.banner.element, this.shell);
    this.listen();
  }

  listen() {
    const count = () => this.badge.show(this.client.inbox.totalUnread);
    this.client.on('unread', count);
    this.client.on('inbox', count);
    addEventListener('hashchange', () => this.route());
    addEventListener('keydown', (event) => this.key(event));
    this.client.on('state', ({ state, error }) => {
      const isOver = state === 'disconnected' && error && error.code !== 'closed' && !RETURNS.has(error.closeCode);
      if (isOver) this.signOut(`Please sign in again: ${error.message}`);
    });
  }

  async start(name) {
    try {
      await this.client.connect();
      if (name) await this.client.putProfile({ name }).catch(() => {}); // the id is shown instead
    } catch {
      return; // the listener of the state handles it
    }
    this.route();
    await this.client.getProfile(this.client.userId).then((one) => this.profiles.learn(one), () => {});
  }

  // --- the address ---

  route() {
    const found = /^#\/c\/(.+)$/u.exec(location.hash);
    const id = found ? decoded(found[1]) : null;
    this.shell.dataset.pane = id ? 'thread' : 'inbox';
    this.inbox.setCurrent(id);
    if (id) this.thread.open(this.client.conversation(id));
    else this.thread.close();
  }

  go(conversation) {
    location.hash = `#/c/${encodeURIComponent(conversation.id)}`;
  }

  leave() {
    const id = this.inbox.currentId;
    location.hash = '#/';
    this.route();
    this.inbox.focus(id);
  }

  // --- the account ---

  create() {
    newConversation(this.client, (conversation) => this.go(conversation));
  }

  menu(button) {
    const isDark = document.documentElement.dataset.theme === 'dark'
      || (!document.documentElement.dataset.theme && matchMedia('(prefers-color-scheme: dark)').matches);
    openMenu(button, 'Account', [
      this.whoAmI(),
      { icon: 'user', label: 'Your profile', run: () => showProfile(this.client, this.profiles) },
      isDark
        ? { icon: 'sun', label: 'Light colours', run: () => setTheme('light') }
        : { icon: 'moon', label: 'Dark colours', run: () => setTheme('dark') },
      this.inbox.isArchive
        ? { icon: 'bubble', label: 'Inbox', run: () => this.inbox.showArchive(false) }
        : { icon: 'archive', label: 'Archived conversations', run: () => this.inbox.showArchive(true) },
      { icon: 'signout', label: 'Sign out', run: () => this.signOut() },
    ]);
  }

  whoAmI() {
    const { id, name } = this.profiles.of(this.client.userId ?? '…');
    return `Signed in as ${name === id ? id : `${name} (${id})`}`;
  }

  /** Sign out. The outbox stays: the same user finds the unsent messages at the next sign-in. */
  async signOut(note = null) {
    if (this.isOver) return;
    this.isOver = true;
    this.session.forget();
    if (note) noteForLater(note);
    await this.client.close();
    location.hash = '';
    location.reload();
  }

  // --- keys ---

  key(event) {
    if (document.querySelector('dialog[open], .menu:popover-open')) return;
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

async function begin() {
  const place = document.getElementById('app');
  const theme = storedTheme();
  if (theme) document.documentElement.dataset.theme = theme;
  const known = await sessionOf(place);
  const { session, name } = known ? { session: known, name: null } : await signIn(place, takeNote());
  const page = new Page(place, session);
  await page.start(name);
}

begin();
