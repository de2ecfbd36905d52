// The nodes with a live lease, the load of each, and the button that drains one.

import { el } from '../app/parts/dom.js';
import { bytes, count, lasting, millis, rate } from './figures.js';
import { deed, facts, head, pill } from './parts.js';
import { poll } from './poll.js';

export function show(place, context) {
  const list = el('ul.nodes');
  place.replaceChildren(head('Nodes', 'Every process that serves this installation. Draining one moves its clients to the others.'), list);
  const cards = new Map();
  const draw = (found) => {
    const names = new Set(found.nodes.map((node) => node.node_id));
    for (const [name, one] of cards) if (!names.has(name)) { one.node.remove(); cards.delete(name); }
    for (const node of found.nodes) {
      if (!cards.has(node.node_id)) {
        const made = nodeCard(node, context, () => names.size);
        cards.set(node.node_id, made);
        list.append(made.node);
      }
      cards.get(node.node_id).update(node);
    }
  };
  // Only the newest figures are needed: the last 15 s hold the last sample of each node.
  return poll(2000, (signal) => context.api.look(`overview?since=${Date.now() - 15_000}`, signal), draw, context.heard);
}

function nodeCard(first, context, others) {
  const id = first.node_id;
  const state = el('span');
  const body = el('div');
  const fault = el('p.hint', { role: 'status' });
  const question = {
    title: `Drain ${id}?`,
    text: 'It takes no new connections, tells its clients to come back elsewhere, finishes what is under way and exits, as on SIGTERM. '
      + 'What starts nodes may start it again.',
  };
  const drain = async () => {
    await context.api.act(`nodes/${encodeURIComponent(id)}/drain`);
    fault.textContent = 'Asked to drain.';
  };
  const button = deed(context, 'Drain', 'danger', question, drain);
  button.setAttribute('aria-label', `Drain ${id}`);
  button.addEventListener('click', () => {
    if (others() === 1) document.querySelector('dialog p')?.append(' It is the only node: nobody will be served until one starts.');
  });
  const node = el('li.card.node', { 'data-node': id },
    el('div.node-head', null, el('h2', null, id), state, button), fault, body);
  const update = (facts_) => {
    state.replaceChildren(
      facts_.is_draining ? pill('draining', 'warn') : facts_.figures ? pill('up', 'good') : pill('quiet', 'plain'),
      facts_.is_here ? pill('answers this page', 'accent') : '');
    body.replaceChildren(facts({
      Connections: count(facts_.connections),
      Users: count(facts_.users),
      'Messages / s': rate(facts_.figures?.messages),
      'Deliveries / s': rate(facts_.figures?.deliveries),
      'Ack p99': millis(facts_.figures?.ack.p99_ms),
      CPU: facts_.figures ? `${Math.round(100 * facts_.figures.cpu)} %` : '–',
      Memory: facts_.memory_bytes ? bytes(facts_.memory_bytes) : '–',
      Uptime: facts_.started_at ? lasting(facts_.seen_at - facts_.started_at) : '–',
      Version: facts_.version ?? '–',
    }));
  };
  return { node, update };
}
