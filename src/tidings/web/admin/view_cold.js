// The cold tier: stored, waiting and damaged segments, and the last run. Opening this view lists all its objects.

import { el } from '../app/parts/dom.js';
import { ago, bytes, count, moment } from './figures.js';
import { button, card, facts, fill, fixedTiles, head, linkTo, pill, table } from './parts.js';

const NAMES = {
  messages: 'Messages moved', segments: 'Segments written', bytes: 'Bytes written', rewrites: 'Segments rewritten', deletions: 'Objects deleted',
  damaged: 'Damaged segments met', missing: 'Missing objects met', failed: 'Passes or conversations failed', reads: 'Segments read', cache_hits: 'Reads from memory',
};

export function show(place, context) {
  const body = el('div.results');
  const load = () => fill(body, async () => {
    const [cold, overview] = await Promise.all([context.api.look('cold'), context.api.look(`overview?since=${Date.now() - 10_000}`)]);
    return { cold, overview };
  }, draw);
  place.replaceChildren(head('Cold tier', 'Old texts, kept as segments in the blobs.', button('Look again', 'again', load)), body);
  load();
  return null;
}

function draw({ cold, overview }) {
  const last = overview.archive_last_at;
  return [
    fixedTiles({
      Segments: count(cold.segments),
      Size: bytes(cold.bytes),
      'Conversations waiting': count(cold.conversations_waiting),
      'To be looked at again': count(cold.rechecks),
      Damaged: count(cold.damaged.length),
    }),
    card('Runs', facts({
      'Last pass of these nodes': last ? `${moment(last)}, ${ago(last)}` : 'none since they began',
      'Archives now': cold.leader ? pill(cold.leader, 'accent') : 'nobody',
    })),
    card('Damaged segments', table('Damaged segments', [['Conversation'], ['Segment']],
      cold.damaged.map((one) => one.split(' ')).map(([id, segment]) => [linkTo('conversations', id), el('code', null, segment)]),
      'None: every segment that was read is whole.')),
    card('Counted since the nodes began', table('Counts', [['What'], ['How many', true]],
      Object.entries(overview.archive).map(([name, value]) => [NAMES[name] ?? name, name === 'bytes' ? bytes(value) : count(value)]))),
  ];
}
