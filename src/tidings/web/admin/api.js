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

  /** What a server key may read outside of /v1/admin. */
  read(path, signal = null) {
    return this.#ask('GET', `/v1/${path}`, signal);
  }

  act(path) {
    return this.#ask('POST', `/v1/admin/${path}`, null);
  }

  send(method, path, body = null) {
    return this.#ask(method, `/v1/${path}`, null, body);
  }

  /** A file, which the browser saves. */
  async save(path, name) {
    const answer = await this.#fetch('GET', `/v1/${path}`, null, null);
    if (!answer.ok) throw await refusalOf(answer);
    const url = URL.createObjectURL(await answer.blob());
    const link = Object.assign(document.createElement('a'), { href: url, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  }

  revoke(userId) {
    return this.#ask('POST', `/v1/users/${encodeURIComponent(userId)}/revoke`, null);
  }

  async #ask(method, path, signal, body = null) {
    const answer = await this.#fetch(method, path, signal, body);
    if (!answer.ok) throw await refusalOf(answer);
    return answer.json().catch(() => null);
  }

  #fetch(method, path, signal, body) {
    const headers = { 'X-Api-Key': this.key, ...(body ? { 'Content-Type': 'application/json' } : {}) };
    return fetch(path, { method, headers, signal, body: body && JSON.stringify(body), credentials: 'omit', cache: 'no-store' });
  }
}

async function refusalOf(answer) {
  const body = await answer.json().catch(() => null);
  const facts = body?.error ?? { code: 'unavailable', message: `The server answered ${answer.status}.` };
  return new Refusal(answer.status, facts.code, facts.message);
}
