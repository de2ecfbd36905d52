// Webhooks: how far each is behind, its last answer, and the conversations that its endpoint refused.

import { el } from '../app/parts/dom.js';
import { ago, count, lasting, moment } from './figures.js';
import { card, deed, facts, head, linkTo, pill, table } from './parts.js';
import { poll } from './poll.js';

const EVERY_MS = 5000;

export function show(place, context) {
  const body = el('div.results');
  const lead = ['Every entry of the log at your own endpoints. ', el('code', null, 'tidings webhook add'), ' makes one.'];
  place.replaceChildren(head('Webhooks', lead), body);
  const look = async (signal) => {
    const { webhooks } = await context.api.read('webhooks', signal);
    const path = (one) => `webhooks/${encodeURIComponent(one.webhook_id)}/state`;
    const states = await Promise.all(webhooks.map((one) => context.api.read(path(one), signal)));
    return webhooks.map((one, at) => ({ ...one, state: states[at] }));
  };
  let drawn = '';
  const draw = (hooks) => {
    const told = JSON.stringify(hooks);
    if (told === drawn) return; // a button keeps its focus
    drawn = told;
    body.replaceChildren(...(hooks.length ? hooks.map((hook) => drawHook(hook, context)) : [el('p.none', null, 'None.')]));
  };
  return poll(EVERY_MS, look, draw, context.heard);
}

function drawHook(hook, context) {
  const { state, webhook_id: id } = hook;
  const path = `webhooks/${encodeURIComponent(id)}`;
  const behind = state.behind_by ? pill(`behind by ${count(state.behind_by)}${state.complete === false ? '+' : ''}`, 'warn') : pill('up to date', 'good');
  const answer = state.last_answer;
  const remove = { title: `Remove the webhook to ${hook.url}?`, text: 'Nothing more is delivered. Its cursors are forgotten.' };
  return el('section.card', { 'aria-label': `Webhook ${id}` },
    el('div.node-head', null, el('h2', null, hook.url), behind),
    facts({
      Id: el('span.id', null, id),
      Kinds: hook.kinds?.join(', ') ?? 'all',
      Conversations: hook.conversation_ids ? count(hook.conversation_ids.length) : 'all',
      'Oldest that waits': state.oldest_at ? lasting(Date.now() - state.oldest_at) : 'none',
      'Last answer': answer ? `${answer.status || 'none'}, ${ago(answer.at)}` : 'none yet',
      Made: moment(hook.created_at),
    }),
    state.paused?.length ? card('Paused', table('Paused', [['Conversation'], ['Stands at', true], ['Action']], state.paused.map((one) => [
      linkTo('conversations', one.conversation_id), count(one.from_seq),
      deed(context, 'Try again', 'plain', { title: 'Deliver again?', text: `From entry ${one.from_seq} of ${one.conversation_id} on.` },
        () => context.api.send('POST', `${path}/replay`, { conversation_id: one.conversation_id, from_seq: one.from_seq }))]))) : null,
    el('div.deeds', null, deed(context, 'Remove', 'danger', remove, () => context.api.send('DELETE', path))));
}
