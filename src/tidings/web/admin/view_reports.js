// Reports that wait for a decision, each with its message as it is now. This view alone shows texts, and each look is audited.

import { ask } from '../app/parts/dialogs.js';
import { el } from '../app/parts/dom.js';
import { moment } from './figures.js';
import { button, facts, fill, head, linkTo, pill } from './parts.js';

const DEEDS = {
  dismiss: ['Dismiss', 'plain', 'The report ends, and the message stays.'],
  delete: ['Delete the message', 'danger', 'The message is deleted for everybody, and the report ends.'],
  ban: ['Delete and ban', 'danger', 'The message is deleted, and its sender is banned from the conversation.'],
};

export function show(place, context) {
  const body = el('div.results');
  const load = () => fill(body, () => context.api.look('reports'), ({ reports, next_cursor: more }) => [
    ...reports.map((report) => draw(report, context, load)),
    reports.length ? null : el('p.none', null, 'Nothing waits.'),
    more ? el('p.hint', null, 'More wait behind these.') : null,
  ].filter(Boolean));
  place.replaceChildren(head('Reports', 'Messages that members have reported. Each look at this page is an entry of the audit.',
    button('Look again', 'again', load)), body);
  load();
  return null;
}

function draw(report, context, again) {
  const { message } = report;
  const name = (id) => (context.me.role === 'moderator' ? el('span.id', null, id) : linkTo('users', id));
  const text = message === null || message.deleted ? pill('gone') : el('blockquote.reported', { dir: 'auto' }, message.text ?? '(no text)');
  const decide = (action) => async () => {
    await context.api.send('POST', `admin/reports/${encodeURIComponent(report.report_id)}`, { action });
    again();
  };
  return el('section.card', { 'aria-label': `Report of ${report.by}` },
    text,
    facts({
      From: message?.sender_id ? name(message.sender_id) : null,
      Conversation: context.me.role === 'moderator' ? el('span.id', null, report.conversation_id) : linkTo('conversations', report.conversation_id),
      'Reported by': name(report.by),
      Reason: report.reason || null,
      Reported: moment(report.at),
    }),
    el('div.deeds', null, ...Object.entries(DEEDS).map(([action, [title, kind, says]]) =>
      button(title, null, () => ask(`${title}?`, says, title, decide(action), kind), { kind }))));
}
