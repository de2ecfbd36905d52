// The rows of a conversation, made from its messages: days, the line before the first unread message, messages in groups
// of one sender, changes of members. Pure: the same messages give the same rows.

import { countOf, dayOf, isSameDay, listOf } from '../parts/format.js';
import { t } from '../parts/words.js';
import { pollHeight, pollOf } from './poll.js';
import { lineOf } from './quotes.js';
import { filesHeight } from '../files/show.js';

const GROUP_MS = 5 * 60_000; // one sender's messages closer than this are one group
export const UNREAD_KEY = 'unread-line';

const LINES_MAX = 20; // a longer text is cut, with a button that shows all of it
const CHARS_MAX = 1500;

/** The time of a message. One that waits has the time of its sender's clock, an imported one that of its first life. */
export const whenOf = ({ imported, ts, sentAt }) => (imported ? ts ?? sentAt : sentAt ?? ts) ?? 0;

/** Whether a text is too long to be shown in full at once. */
export const isLong = (text) => text !== null && text !== undefined
  && (text.length > CHARS_MAX || (text.length > LINES_MAX && text.split('\n', LINES_MAX + 1).length > LINES_MAX));

/**
 * @param view { messages, divider: { seq, count } | null, hasOlder, start: { title, text }, isDirect, query,
 *   shownKey, now_ms, ownId, personOf(id), named(text), quoteOf(seq), isSaved(seq), threadOf(message), isSide, wholeKeys, waits_s }
 * @returns rows { key, kind, value, mark } for a VirtualList
 */
export function rowsOf(view) {
  const { messages } = view;
  const rows = [];
  if (!view.hasOlder) rows.push(startRow(view.start));
  view.firstWaiting = messages.find((one) => one.state === 'sending');
  const lastMine = messages.findLast((one) => one.mine && one.kind === 'message' && one.state !== 'failed');
  const isCut = view.hasOlder && (messages[0]?.seq ?? 0) > (view.divider?.seq ?? 0); // its place is not loaded
  let isDivided = view.divider === null || isCut;
  for (let place = 0; place < messages.length; place += 1) {
    const one = messages[place];
    const before = messages[place - 1] ?? null;
    const isNewDay = before === null || !isSameDay(whenOf(before), whenOf(one));
    if (isNewDay) rows.push(dayRow(whenOf(one), view.now_ms));
    const isFirstUnread = !isDivided && one.seq !== null && one.seq >= view.divider.seq;
    if (isFirstUnread) {
      rows.push(dividerRow(view.divider.count));
      isDivided = true;
    }
    const isBroken = isNewDay || isFirstUnread;
    const after = messages[place + 1] ?? null;
    rows.push(one.kind === 'member' ? noteRow(one, view) : messageRow(one, before, after, isBroken, lastMine, view));
  }
  return rows;
}

/** The other people in the messages: senders, and members who joined or left. */
export function peopleIn(messages) {
  const ids = new Set();
  for (const { mine, senderId, member, mentions } of messages) {
    if (!mine) ids.add(senderId);
    for (const id of mentions ?? []) ids.add(id);
    for (const id of member?.userIds ?? []) ids.add(id);
  }
  return ids;
}

/** The text above the first message. */
export function startOf({ title, kind }) {
  return { title, text: t(`begin.${kind}`, { title }) };
}

function startRow(start) {
  return { key: 'start', kind: 'start', value: null, start, mark: start.title + start.text, isLoose: true };
}

function dayRow(ms, now_ms) {
  const text = dayOf(ms, now_ms);
  return { key: `day-${new Date(ms).toDateString()}`, kind: 'day', value: text, mark: text, isLoose: true };
}

function dividerRow(count) {
  const text = count ? countOf(count, 'newMessages') : t('newMessagesLabel');
  return { key: UNREAD_KEY, kind: 'unread', value: text, mark: text, isLoose: true };
}

function noteRow(message, view) {
  const text = noteOf(message, (id) => (id === view.ownId ? t('youIn') : view.personOf(id).name));
  return { key: message.key, kind: 'note', value: text, mark: '' };
}

function messageRow(one, before, after, isBroken, lastMine, view) {
  const isFirst = isBroken || !isOneGroup(before, one);
  const isLast = after === null || !isOneGroup(one, after);
  const isWorded = one === lastMine;
  const isShown = one.key === view.shownKey;
  const query = view.query && one.text?.toLocaleLowerCase().includes(view.query) ? view.query : '';
  const sender = view.personOf(one.senderId);
  const isCut = isLong(one.text) && !view.wholeKeys.has(one.key) && !query;
  const quote = one.replyTo ? quoteOf(one.replyTo, view) : null;
  const mentions = mentionsOf(one, view);
  const waits_s = one.state === 'sending' && one === view.firstWaiting ? view.waits_s : null;
  const who = one.mine ? '' : `${sender.name}\u0001${sender.url ?? ''}`;
  const isSaved = view.isSaved(one.seq);
  const thread = view.threadOf(one);
  const isReply = Boolean(one.threadSeq) && !view.isSide;
  const claims = [isFirst, isLast, isWorded, isShown, view.isDirect, isCut, isSaved, isReply].map(Number).join('');
  const mark = [claims, query, who, quote?.mark, [...mentions.values()], waits_s, Object.values(thread ?? {})].join('\u0001');
  const claim = { isFirst, isLast, isWorded, isShown, isCut, isSaved, isReply, thread };
  return { key: one.key, kind: 'message', value: one, mark, ...claim, query, sender, quote, mentions, waits_s };
}

/** The quoted message as a row shows it. */
function quoteOf(seq, view) {
  const message = view.quoteOf(seq);
  const name = !message ? '' : message.senderId === view.ownId ? t('youName') : view.personOf(message.senderId).name;
  const line = message ? view.named(lineOf(message)) : t('quoteLoading');
  return { seq, line, name, mark: `${seq} ${name} ${line}` };
}

/** The names of the people who are mentioned, by id. */
function mentionsOf({ mentions = [], mention = null }, view) {
  const names = new Map((mentions ?? []).map((id) => [id, view.personOf(id).name]));
  if (mention) names.set(mention, mention);
  return names;
}

function isOneGroup(one, other) {
  return one !== null && one.kind === 'message' && other.kind === 'message' && one.senderId === other.senderId
    && isSameDay(whenOf(one), whenOf(other)) && Math.abs(whenOf(other) - whenOf(one)) < GROUP_MS;
}

/** A change of members as a sentence. `nameOf` returns "you" for the user. */
export function noteOf({ member, senderId }, nameOf) {
  const people = listOf(member.userIds.map(nameOf), 3);
  const isAlone = member.userIds.length === 1 && member.userIds[0] === senderId;
  const said = sentence(member, people, isAlone ? null : nameOf(senderId));
  return said.charAt(0) === t('youIn').charAt(0) && said.startsWith(`${t('youIn')} `) ? capital(said) : said;
}

const capital = (text) => text.charAt(0).toLocaleUpperCase() + text.slice(1);

function sentence({ action, userIds, role }, people, by) {
  if (action === 'added') return by === null ? t('note.joined', { people }) : t('note.added', { by, people });
  if (action === 'left') return t('note.left', { people });
  if (action === 'removed') return t('note.removed', { by, people });
  const isYou = people === t('youIn');
  const form = isYou ? 'note.roleYou' : 'note.role';
  return t(form, { people, count: userIds.length, role: t(`roleIs.${role}`) });
}

/** A guess at a row's height, good enough that the scroll bar does not jump. */
export function heightOf(row, width_px) {
  if (row.kind !== 'message') return row.kind === 'start' ? 130 : row.kind === 'note' ? 38 : 46;
  const signs = Math.max(12, Math.floor(Math.min(width_px - 80, 520) / 7.4));
  const poll = pollOf(row.value);
  const text = poll ? '' : row.value.text ?? '';
  let lines = 0;
  for (const line of text.split('\n')) lines += Math.max(1, Math.ceil(line.length / signs));
  if (row.isCut) lines = Math.min(lines, LINES_MAX) + 2;
  return 38 + lines * 21.3 + (row.isFirst ? 10 : 0) + (row.quote ? 46 : 0)
    + (Object.keys(row.value.reactions ?? {}).length ? 32 : 0) + filesHeight(row.value.files) + pollHeight(poll);
}
