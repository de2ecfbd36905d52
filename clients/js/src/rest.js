/** REST requests: the answer in camelCase, a refusal as a TidingsError. */
import { TidingsError } from './errors.js';
import { PART_BYTES_PER_MS, PART_MS, RETRY_MS } from './limits.js';
import { camel, jitter, sleep, steadyMs } from './runtime.js';

export class Rest {
  constructor(url, tokens, fetch, requestMs) {
    this._url = url;
    this._tokens = tokens;
    this._fetch = fetch;
    this._requestMs = requestMs;
  }

  /** Send a request; a Blob goes as it is. It is repeated after a temporary failure only where that changes nothing. */
  async send(method, path, body, isIdempotent = false) {
    const deadline = steadyMs() + this._requestMs;
    for (let tries = 0, isRefused = false; ; tries += 1) {
      try {
        return await this._once(method, path, body, deadline);
      } catch (error) {
        if (error.status === 401 && this._tokens.isRenewable && !isRefused) {
          isRefused = true;
          await this._tokens.fetch('refused');
          continue;
        }
        const waitMs = error.retryAfterMs ?? jitter(RETRY_MS * 2 ** tries);
        if (!isIdempotent || !error.temporary || steadyMs() + waitMs > deadline) throw error;
        await sleep(waitMs);
      }
    }
  }

  /** Send bytes to the URL of an upload: of this server where it has no host, else of the store. */
  async put(url, headers, body, signal) {
    const abort = new AbortController();
    const stop = () => abort.abort();
    const timer = setTimeout(stop, PART_MS + body.size / PART_BYTES_PER_MS);
    timer.unref?.(); // in Node the request keeps the program alive, and not its timer
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop);
    try {
      const answer = await this._fetch(this.absolute(url), { method: 'PUT', headers, body, signal: abort.signal });
      const text = await answer.text();
      if (!answer.ok) throw errorOf(answer.status, text);
    } catch (error) {
      if (error instanceof TidingsError) throw error;
      const code = signal?.aborted ? 'discarded' : 'disconnected';
      throw new TidingsError(code, `PUT: ${error.message}`, { temporary: !signal?.aborted });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
  }

  absolute(url) {
    return url.startsWith('/') ? this._url + url : url;
  }

  async _once(method, path, body, deadline) {
    const token = await this._tokens.fresh();
    const isRaw = body instanceof Blob;
    const sent = body === undefined || isRaw ? body : JSON.stringify(body);
    const type = isRaw ? body.type || 'application/octet-stream' : 'application/json';
    const headers = { authorization: `Bearer ${token.value}`, ...(sent && { 'content-type': type }) };
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), Math.max(1, deadline - steadyMs()));
    try {
      const answer = await this._fetch(this._url + path, { method, headers, body: sent, signal: abort.signal });
      const text = await answer.text();
      if (answer.ok) return text ? camel(JSON.parse(text)) : undefined;
      throw errorOf(answer.status, text);
    } catch (error) {
      if (error instanceof TidingsError) throw error;
      const code = abort.signal.aborted ? 'timeout' : 'disconnected';
      throw new TidingsError(code, `${method} ${path}: ${error.message}`, { temporary: true });
    } finally {
      clearTimeout(timer);
    }
  }
}

function errorOf(status, text) {
  try {
    const { error, draft } = JSON.parse(text);
    const { code, message, temporary, retry_after_ms: retryAfterMs, reason } = error;
    const made = new TidingsError(code, message, { temporary, retryAfterMs, status, reason });
    return draft ? Object.assign(made, { draft }) : made;
  } catch {
    // A proxy between the client and the server answered, or a store. S3 says 400 where others say 408.
    const temporary = status >= 500 || status === 408 || status === 429 || text.includes('RequestTimeout');
    return new TidingsError(temporary ? 'unavailable' : 'bad_request', `status ${status}`, { temporary, status });
  }
}
