// The way to /v1/admin. The key is kept for this tab alone and goes out as a header: there is no cookie to ride on.

const KEPT = 'tidings.admin.key';

export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export class Api {
  constructor(key) {
    this.key = key;
  }

  /** The key in the address, as `serve --dev` prints it. It is taken out of the address and kept for this tab. */
  static given() {
    const key = new URLSearchParams(location.hash.slice(1)).get('key');
    if (!key) return null;
    history.replaceState(null, '', location.pathname);
    const api = new Api(key);
    api.keep();
    return api;
  }

  static kept() {
    const key = sessionStorage.getItem(KEPT);
    return key ? new Api(key) : null;
  }

  keep() {
    sessionStorage.setItem(KEPT, this.key);
  }

  forget() {
    sessionStorage.removeItem(KEPT);
  }

  look(path, signal = null) {
    return this.#ask('GET', `/v1/admin/${path}`, signal);
  }

  act(path) {
    return this.#ask('POST', `/v1/admin/${path}`, null);
  }

  revoke(userId) {
    return this.#ask('POST', `/v1/users/${encodeURIComponent(userId)}/revoke`, null);
  }

  async #ask(method, path, signal) {
    const headers = { 'X-Api-Key': this.key };
    const answer = await fetch(path, { method, headers, signal, credentials: 'omit', cache: 'no-store' });
    const body = await answer.json().catch(() => null);
    if (answer.ok) return body;
    const facts = body?.error ?? { code: 'unavailable', message: `The server answered ${answer.status}.` };
    throw new Refusal(answer.status, facts.code, facts.message);
  }
}
