// The invite links of a conversation: made and taken back by who may add members.

import { round } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { dayMonthOf, shortWhen, timeOf } from '../parts/format.js';
import { t } from '../parts/words.js';

const DAY_S = 86_400;
const LIVES = [['day', DAY_S], ['week', 7 * DAY_S], ['forever', null]];

/** The links of a conversation that still work, and a new one. */
export async function showInvites(client, conversation, profiles) {
  const fault = faultLine();
  const path = `/v1/conversations/${encodeURIComponent(conversation.id)}/invites`;
  const made = el('div.invite-made', { hidden: true, 'aria-live': 'polite' });
  const list = el('ul.people', { 'aria-label': t('inviteLinks') });
  const lives = LIVES.map(([name, life_s]) => el('option', { value: String(life_s ?? ''), selected: name === 'week' }, t(`lives.${name}`)));
  const life = el('select', { id: 'invite-life' }, ...lives);
  const make = () => fault.guard(async () => {
    const expiresS = life.value ? Number(life.value) : undefined;
    const { url } = await client.rules.invite(conversation.id, { expiresS });
    showMade(made, new URL(url, location.origin).href);
    await draw();
  });
  const draw = async () => {
    const { invites } = await client.rest('GET', path);
    list.replaceChildren(...invites.map(row));
  };
  const row = ({ inviteId, by, createdAt, expiresAt, usesLeft }) => {
    const ends = expiresAt ? t('inviteUntil', { when: `${dayMonthOf(expiresAt)}, ${timeOf(expiresAt)}` }) : t('lives.forever');
    const rest = usesLeft === undefined ? [] : [t('usesLeft', { count: usesLeft, n: usesLeft })];
    const who = by === client.userId ? t('youName') : profiles.nameOf(by);
    const withdraw = () => fault.guard(() => client.rest('DELETE', `${path}/${encodeURIComponent(inviteId)}`).then(draw));
    return el('li.person', null,
      el('div.who', null, el('strong', { dir: 'auto' }, t('inviteBy', { name: who, when: shortWhen(createdAt, client.now()) })), el('span', null, [ends, ...rest].join(' · '))),
      round(t('withdraw'), 'trash', withdraw));
  };
  openDialog(t('inviteLinks'), el('p.hint', null, t('inviteHint')),
    el('div.one-line', null, el('div.field', null, el('label', { for: 'invite-life' }, t('inviteLife')), life),
      el('button.primary', { type: 'button', onclick: make }, t('makeInvite'))),
    made, fault.line, list);
  life.focus();
  await fault.guard(draw);
}

function showMade(place, url) {
  const field = el('input', { readonly: true, value: url, 'aria-label': t('inviteLink'), onfocus: () => field.select() });
  const copy = round(t('copyLink'), 'copy', () => navigator.clipboard?.writeText(url).then(() => copy.classList.add('is-done'), () => {}));
  place.replaceChildren(el('div.field', null, el('div.copy-line', null, field, copy), el('p.hint', null, t('shownOnce'))));
  place.hidden = false;
  field.focus();
  field.scrollLeft = 0;
}
