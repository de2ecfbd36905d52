/** Requests to an endpoint of a webhook are checked. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { verifyBeforeSend, verifyWebhook } from 'tidings/webhooks';

const BODY = JSON.stringify({ webhook_id: 'wh_1', conversation_id: 'c1', entries: [{ seq: 1, text: 'hï' }], head: 1 });
const sign = (secret, at, body) => `t=${at},v1=${createHmac('sha256', secret).update(`${at}.${body}`).digest('hex')}`;

test('a signed request is decoded', async () => {
  const request = await verifyWebhook('s', sign('s', 5, BODY), BODY, { now: () => 6 });
  assert.deepEqual(request, { webhookId: 'wh_1', conversationId: 'c1', entries: [{ seq: 1, text: 'hï' }], head: 1 });
});

test('another secret, another body, an old time and nonsense are refused', async () => {
  const good = sign('s', 5, BODY);
  await assert.rejects(verifyWebhook('other', good, BODY, { now: () => 6 }), /not of this secret/);
  await assert.rejects(verifyWebhook('s', good, `${BODY} `, { now: () => 6 }), /not of this secret/);
  await assert.rejects(verifyWebhook('s', good, BODY, { now: () => 400_000 }), /too old/);
  await assert.rejects(verifyWebhook('s', 'nonsense', BODY), /not of this secret/);
});

test('a request to the before-send hook has the message as on the wire', async () => {
  const body = '{"conversation_id":"c1","message":{"kind":"message","message_id":"m1","sender_id":"alice","text":"hi"}}';
  const { conversationId, message } = await verifyBeforeSend('s', sign('s', 5, body), body, { now: () => 6 });
  assert.deepEqual([conversationId, message.message_id], ['c1', 'm1']);
  await assert.rejects(verifyBeforeSend('other', sign('s', 5, body), body, { now: () => 6 }), /not of this secret/);
});
