/** Errors of the client, and the meaning of close codes: 40xx is reconnect, 45xx is stop. */
import { OUTBOX_MAX } from './limits.js';

export const CLOSE = { DRAINING: 4001, TOKEN_EXPIRED: 4005, TOO_MANY_REQUESTS: 4013, BAD_TOKEN: 4500 };
export const isStop = (code) => code >= 4500 && code < 4600;

export class TidingsError extends Error {
  constructor(code, message, facts = {}) {
    super(message);
    this.name = 'TidingsError';
    const { temporary = false, retryAfterMs = null, status = null, closeCode = null, reason = null } = facts;
    Object.assign(this, { code, temporary, retryAfterMs, status, closeCode, reason });
  }
}

export const disconnected = (closeCode = null, message = '', reason = null, retryAfterMs = null) => {
  const facts = { temporary: true, closeCode, reason, retryAfterMs };
  return new TidingsError('disconnected', message || 'the connection was lost', facts);
};
export const outboxFull = () =>
  new TidingsError('outbox_full', `${OUTBOX_MAX} messages wait to be sent already`, { temporary: true });
export const closedByUser = () => new TidingsError('closed', 'the client was closed', { temporary: true });
export const timedOut = (message) => new TidingsError('timeout', message, { temporary: true });
