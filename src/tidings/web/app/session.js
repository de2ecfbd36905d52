// Who is signed in, in this tab. A token comes from the address (`#token=`), from a page of the same origin that left
// one in localStorage (`tidings.token`), or from this page's own sign-in. The tab's own choice wins over what other
// tabs share; with --dev it is not shared at all, so that two tabs are two people.

const SHARED = 'tidings.token';
const OWN = 'tidings.session';

/** What is stored, or null; storage may be forbidden altogether, and then a session lasts as long as the page. */
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
    // Forbidden or full: the session then ends with the page.
  }
}

export class Session {
  /** @param token a user's token; devUser: whose tokens may be had for the asking, with --dev */
  constructor(token, devUser = null) {
    this.token = token;
    this.devUser = devUser;
  }

  keep() {
    write('sessionStorage', OWN, JSON.stringify({ token: this.token, devUser: this.devUser }));
    if (this.devUser === null) write('localStorage', SHARED, this.token);
  }

  /** For the client: the token, or a newer one when this one is refused or about to expire. */
  async renew(reason) {
    if (reason === 'start') return this.token;
    if (this.devUser !== null) this.token = await devToken(this.devUser);
    else if (!this._isReplaced() && reason === 'refused') throw permanent('The token was refused, or has expired.');
    this.keep();
    return this.token;
  }

  /** Whether the page that embeds this one has left a newer token. */
  _isReplaced() {
    const shared = read('localStorage', SHARED);
    if (!shared || shared === this.token) return false;
    this.token = shared;
    return true;
  }
}

/** The session that the address or the storage knows of; null: somebody has to sign in. */
export function findSession() {
  const given = tokenInAddress();
  if (given) {
    const session = new Session(given);
    session.keep();
    return session;
  }
  const shared = read('localStorage', SHARED);
  return stored(read('sessionStorage', OWN)) ?? (shared ? new Session(shared) : null);
}

function stored(text) {
  try {
    const { token, devUser } = JSON.parse(text ?? 'null') ?? {};
    return token ? new Session(token, devUser ?? null) : null;
  } catch {
    return null;
  }
}

/** Taken out of the address at once: it must not stay in the history, nor be copied along with a link. */
function tokenInAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get('token');
  if (found) history.replaceState(null, '', location.pathname + location.search);
  return found;
}

export function forgetSession() {
  write('sessionStorage', OWN, null);
  write('localStorage', SHARED, null);
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
  const answer = await fetch('/v1/dev/token', { method: 'POST', body: JSON.stringify({ user_id: userId }) });
  const body = await answer.json();
  if (!answer.ok) throw permanent(body.error?.message ?? 'No token was given.');
  return body.token;
}

function permanent(message) {
  return Object.assign(new Error(message), { permanent: true });
}

/** A user id that a name may become: ids have few signs, names have all of them. Empty: nothing is left of it. */
export function idOf(name) {
  return name.trim().normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()
    .replace(/\s+/gu, '.').replace(/[^a-z0-9_.@-]/gu, '').slice(0, 128);
}
