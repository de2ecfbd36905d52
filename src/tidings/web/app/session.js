// The session of this tab. A token comes from the address (`#token=`), from a page of the same origin that left one in
// localStorage (`tidings.token`), or from the sign-in of this page. The choice of the tab wins over the shared one. With
// --dev nothing is shared, so that two tabs can be two people. A token of the address is not shared either: anybody can
// write a link, so it signs in no other tab, and it replaces another user's sign-in only when the user agrees.

import { t } from './parts/words.js';

const SHARED = 'tidings.token';
const OWN = 'tidings.session';

/** Read a stored value, or null. Storage may be forbidden; then a session lasts as long as the page. */
function read(storage, key) {
  try {
    return globalThis[storage].getItem(key);
  } catch {
    return null;
  }
}

function write(storage, key, value) {
  try {
    if (value === null) globalThis[storage].removeItem(key);
    else globalThis[storage].setItem(key, value);
  } catch {
    // Storage is forbidden or full: the session ends with the page.
  }
}

export class Session {
  /** @param token a user's token; devUser: with --dev, the user for whom the server gives tokens; isOfTab: not shared */
  constructor(token, devUser = null, isOfTab = false) {
    this.token = token;
    this.devUser = devUser;
    this.isOfTab = isOfTab;
  }

  get userId() {
    return claimsOf(this.token).sub ?? null;
  }

  /** Whether the token's own time is over. The server decides; this only explains its refusal. */
  get isExpired() {
    const { exp } = claimsOf(this.token);
    return typeof exp === 'number' && exp * 1000 < Date.now();
  }

  keep() {
    write('sessionStorage', OWN, JSON.stringify({ token: this.token, devUser: this.devUser, isOfTab: this.isOfTab }));
    if (this.devUser === null && !this.isOfTab) write('localStorage', SHARED, this.token);
  }

  forget() {
    write('sessionStorage', OWN, null);
    const shared = read('localStorage', SHARED);
    if (!this.isOfTab || (shared && userOf(shared) === this.userId)) write('localStorage', SHARED, null);
  }

  /** Return the token to the client, or a newer one when this one was refused or is about to expire. */
  async renew(reason) {
    if (reason === 'start') return this.token;
    if (this.devUser !== null) this.token = await devToken(this.devUser);
    else if (!this._isReplaced() && reason === 'refused') throw permanent(this.isExpired ? t('reason.expired') : t('reason.refused'));
    this.keep();
    return this.token;
  }

  /** Whether another page of this origin has left a newer token. */
  _isReplaced() {
    const shared = read('localStorage', SHARED);
    if (!shared || shared === this.token || (this.isOfTab && userOf(shared) !== this.userId)) return false;
    this.token = shared;
    return true;
  }
}

/** The session of the storage (`known`) and of the address (`given`), each null when there is none. */
export function findSessions() {
  const token = tokenInAddress();
  const shared = read('localStorage', SHARED);
  const known = stored(read('sessionStorage', OWN)) ?? (shared ? new Session(shared) : null);
  return { known, given: token ? new Session(token, null, true) : null };
}

/** The claims of a token, as the token says; none of a damaged one. The server decides whether they are true. */
function claimsOf(token) {
  try {
    return JSON.parse(atob(token.split('.')[1].replace(/-/gu, '+').replace(/_/gu, '/'))) ?? {};
  } catch {
    return {};
  }
}

const userOf = (token) => claimsOf(token).sub ?? null;

function stored(text) {
  try {
    const { token, devUser, isOfTab } = JSON.parse(text ?? 'null') ?? {};
    return token ? new Session(token, devUser ?? null, isOfTab ?? false) : null;
  } catch {
    return null;
  }
}

/** Remove the token from the address at once: it must not stay in the history, nor be copied with a link. */
function tokenInAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get('token');
  if (found) history.replaceState(null, '', location.pathname + location.search);
  return found;
}

/** With --dev, `/?as=alice` signs this tab in as alice. Null without the word, or where the server gives no tokens. */
export async function sessionOfName() {
  const name = new URLSearchParams(location.search).get('as');
  if (!name || !idOf(name) || !(await isDev())) return null;
  const session = new Session(await devToken(idOf(name)), idOf(name));
  history.replaceState(null, '', location.pathname + location.hash);
  session.keep();
  return { session, name: name === session.devUser ? null : name };
}

/** Whether this server gives tokens away (--dev). The path does not exist otherwise. */
export async function isDev() {
  try {
    return (await fetch('/v1/dev/token', { method: 'OPTIONS' })).ok;
  } catch {
    return false;
  }
}

export async function devToken(userId) {
  const answer = await fetch('/v1/dev/token', { method: 'POST', body: JSON.stringify({ user_id: userId, welcome: true }) });
  const body = await answer.json();
  if (!answer.ok) throw permanent(body.error?.message ?? t('noToken'));
  return body.token;
}

function permanent(message) {
  return Object.assign(new Error(message), { permanent: true });
}

/** Make a user id from a name: ids allow few characters. Empty when no character is left. */
export function idOf(name) {
  return name.trim().normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()
    .replace(/\s+/gu, '.').replace(/[^a-z0-9_.@-]/gu, '').slice(0, 128);
}
