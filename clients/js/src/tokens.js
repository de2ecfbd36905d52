/** The token of the user: read, renewed before it expires, and replaced when the server refuses it. */
import { RETRY_MS, TIMER_MS_MAX, TOKEN_AGAIN_MS, TOKEN_LEAD_MS, TOKEN_MARGIN_MS, TOKEN_MS } from './limits.js';
import { jitter, within } from './runtime.js';

/** Read the claims of a token. The server verifies them; the client does not. */
function claimsOf(token) {
  try {
    const part = token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/');
    const bytes = Uint8Array.from(atob(part), (char) => char.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return {};
  }
}

function read(value, isFresh) {
  const { sub, exp } = claimsOf(value);
  const userId = typeof sub === 'string' ? sub : null;
  return { value, isFresh, userId, expiresAt: typeof exp === 'number' ? exp * 1000 : Infinity };
}

export class Tokens {
  constructor(client, token, getToken) {
    this._client = client;
    this._getToken = getToken ?? null;
    this._token = token ? read(token, false) : null;
    this._fetching = null; // the promise of getToken, until it is settled
    this._timer = null;
  }

  get isRenewable() {
    return this._getToken !== null;
  }

  /** Return a token for a connect or a request; renew it first when it is about to expire. */
  async fresh() {
    const token = this._token;
    if (token) token.isFresh = false;
    const isGood = token && token.expiresAt - this._client.now() > TOKEN_MARGIN_MS;
    if (isGood || !this._getToken) return token;
    return this.fetch(token ? 'expiring' : this._client.hello ? 'refused' : 'start');
  }

  /** Ask getToken. Callers at the same time share one call. */
  fetch(reason) {
    this._fetching ??= this._ask(reason).finally(() => (this._fetching = null));
    return this._fetching;
  }

  /** Drop a refused token. True when another may be better: the refused one did not come from getToken just now. */
  refuse() {
    if (!this._getToken) return false;
    const wasFresh = this._token?.isFresh;
    this._token = null;
    return !wasFresh;
  }

  /** Renew the token of a connection before it expires. */
  refreshLater(link, leastMs = 0) {
    this.stop();
    if (!this._getToken || !this._token || this._token.expiresAt === Infinity) return;
    const leftMs = this._token.expiresAt - this._client.now();
    const waitMs = Math.max(leastMs, leftMs - Math.min(TOKEN_LEAD_MS, leftMs / 4));
    const next = waitMs > TIMER_MS_MAX ? () => this.refreshLater(link) : () => this._refresh(link);
    this._timer = setTimeout(next, Math.min(waitMs, TIMER_MS_MAX));
  }

  stop() {
    clearTimeout(this._timer);
  }

  async _ask(reason) {
    const value = await within(TOKEN_MS, this._getToken({ reason }), 'getToken gave no answer in time');
    if (typeof value !== 'string') throw Object.assign(new TypeError('getToken gave no token'), { permanent: true });
    this._token = read(value, true);
    return this._token;
  }

  async _refresh(link) {
    try {
      const { value } = await this.fetch('expiring');
      await link.request('auth.refresh', { token: value });
      if (this._client._link === link) this.refreshLater(link, TOKEN_AGAIN_MS);
    } catch (error) {
      this._client._report(error); // there is time for another attempt until the old token expires
      if (this._client._link === link) this._timer = setTimeout(() => this._refresh(link), jitter(RETRY_MS * 4));
    }
  }
}
