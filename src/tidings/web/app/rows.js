// The rows of a conversation, made from its messages: days, the line before the first unread message, messages in groups
// of one sender, changes of members. Pure: the same messages give the same rows.

import { dayOf, isSameDay, listOf, plural } from './format.js';

const GROUP_MS = 5 * 60_000; // one sender's messages closer than this are one group
export const UNREAD_KEY = 'unread-line';

/** The time of a message. A message that waits has the time of its sender's clock. */
export const whenOf = (message) => message.sentAt ?? message.ts ?? 0;

/**
 * @param view { messages, divider: { seq, count } | null, hasOlder, start: { title, text }, isDirect, query,
 *   shownKey, now_ms, ownId, personOf(id) }
 * @returns rows { key, kind, value, mark } for a VirtualList
 */
export function rowsOf(view) {
  const { messages } = view;
  const rows = [];
  if (!view.hasOlder) rows.push(startRow(view.start));
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
  for (const { mine, senderId, member } of messages) {
    if (!mine) ids.add(senderId);
    for (const id of member?.userIds ?? []) ids.add(id);
  }
  return ids;
}

/** The text above the first message. */
export function startOf({ title, kind }) {
  const text = kind === 'direct' ? `This is where your conversation with ${title} begins.`
    : `This is where the ${kind} begins. Everybody in it sees what is written here.`;
  return { title, text };
}

function startRow(start) {
  return { key: 'start', kind: 'start', value: null, start, mark: start.title + start.text, isLoose: true };
}

function dayRow(ms, now_ms) {
  const text = dayOf(ms, now_ms);
  return { key: `day-${new Date(ms).toDateString()}`, kind: 'day', value: text, mark: text, isLoose: true };
}

function dividerRow(count) {
  const text = count ? plural(count, 'new message', 'new messages') : 'New messages';
  return { key: UNREAD_KEY, kind: 'unread', value: text, mark: text, isLoose: true };
}

function noteRow(message, view) {
  const text = noteOf(message, (id) => (id === view.ownId ? 'you' : view.personOf(id).name));
  return { key: message.key, kind: 'note', value: text, mark: '' };
}

function messageRow(one, before, after, isBroken, lastMine, view) {
  const isFirst = isBroken || !isOneGroup(before, one);
  const isLast = after === null || !isOneGroup(one, after);
  const isWorded = one === lastMine;
  const isShown = one.key === view.shownKey;
  const query = view.query && one.text?.toLocaleLowerCase().includes(view.query) ? view.query : '';
  const sender = view.personOf(one.senderId);
  const who = one.mine ? '' : `${sender.name}\u0001${sender.url ?? ''}`;
  const mark = `${+isFirst}${+isLast}${+isWorded}${+isShown}${+view.isDirect}${query}\u0001${who}`;
  return { key: one.key, kind: 'message', value: one, mark, isFirst, isLast, isWorded, isShown, query, sender };
}

function isOneGroup(one, other) {
  return one !== null && one.kind === 'message' && other.kind === 'message' && one.senderId === other.senderId
    && isSameDay(whenOf(one), whenOf(other)) && Math.abs(whenOf(other) - whenOf(one)) < GROUP_MS;
}

/** A change of members as a sentence. `nameOf` returns "you" for the user. */
export function noteOf({ member, senderId }, nameOf) {
  const people = listOf(member.userIds.map(nameOf), 3);
  const isAlone = member.userIds.length === 1 && member.userIds[0] === senderId;
  const by = nameOf(senderId);
  return sentence(member, people, isAlone ? null : by).replace(/^you\b/u, 'You');
}

function sentence({ action, userIds, role }, people, by) {
  if (action === 'added') return by === null ? `${people} joined` : `${by} added ${people}`;
  if (action === 'left') return `${people} left`;
  if (action === 'removed') return `${by} removed ${people}`;
  const article = role === 'member' || userIds.length > 1 ? '' : 'an ';
  return `${people} ${userIds.length > 1 || people === 'you' ? 'are' : 'is'} now ${article}${role}`;
}

/** A guess at a row's height, good enough that the scroll bar does not jump. */
export function heightOf(row, width_px) {
  if (row.kind !== 'message') return row.kind === 'start' ? 130 : row.kind === 'note' ? 38 : 46;
  const signs = Math.max(12, Math.floor(Math.min(width_px - 80, 520) / 7.4));
  const text = row.value.text ?? '';
  let lines = 0;
  for (const line of text.split('\n')) lines += Math.max(1, Math.ceil(line.length / signs));
  return 38 + lines * 21.3 + (row.isFirst ? 10 : 0);
}
