/** The check of a request that came to an endpoint of a webhook. It needs WebCrypto: Node 18 or newer. */
const AGE_MS_MAX = 300_000; // an older signature may be a request that somebody has recorded

/** Check the header `Tidings-Signature` of a request, and decode its body (a text). Rejects with an Error. */
export async function verifyWebhook(secret, signature, body, options) {
  const { webhook_id: webhookId, conversation_id: conversationId, entries, head } =
    await checked(secret, signature, body, options);
  return { webhookId, conversationId, entries, head };
}

/** The same for a request to the before-send hook. `message` is as on the wire. */
export async function verifyBeforeSend(secret, signature, body, options) {
  const { conversation_id: conversationId, message } = await checked(secret, signature, body, options);
  return { conversationId, message };
}

async function checked(secret, signature, body, { ageMsMax = AGE_MS_MAX, now = Date.now } = {}) {
  const parts = Object.fromEntries(signature.split(',').map((part) => part.split('=')));
  const encoder = new TextEncoder();
  const crypto = globalThis.crypto ?? (await import('node:crypto')).webcrypto;
  const hash = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret), hash, false, ['verify']);
  const mac = Uint8Array.from((parts.v1 ?? '').match(/../g) ?? [], (pair) => parseInt(pair, 16));
  const isOurs = await crypto.subtle.verify('HMAC', key, mac, encoder.encode(`${parts.t}.${body}`));
  if (!isOurs) throw new Error('the signature is not of this secret and body');
  if (!(Math.abs(now() - Number(parts.t)) <= ageMsMax)) throw new Error('the signature is too old');
  return JSON.parse(body);
}
