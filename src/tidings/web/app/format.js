// Numbers, times, names and colours as people read them. Pure functions; the browser's own locale decides.

const DAY_MS = 86_400_000;
const COUNT_SHOWN_MAX = 999;

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: 'short' });
const weekdayLong = new Intl.DateTimeFormat(undefined, { weekday: 'long' });
const dayMonth = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const date = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' });
const dayLong = new Intl.DateTimeFormat(undefined, { weekday: 'long', day: 'numeric', month: 'long' });
const dateLong = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'long', year: 'numeric' });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'short' });
const number = new Intl.NumberFormat();

export const timeOf = (ms) => clock.format(ms);
export const momentOf = (ms) => full.format(ms);
export const numberOf = (count) => number.format(count);

/** 1 to 999, then 999+. */
export const badgeOf = (count, isCapped = false) =>
  isCapped || count > COUNT_SHOWN_MAX ? `${COUNT_SHOWN_MAX}+` : String(count);

/** The text of the pill that leads to the oldest unread message. */
export function unreadOf({ count, isCapped }) {
  return count ? `${badgeOf(count, isCapped)} unread, jump to the oldest` : 'Unread, jump to the oldest';
}

export const plural = (count, one, many) => `${numberOf(count)} ${count === 1 ? one : many}`;

const midnight = (ms) => {
  const day = new Date(ms);
  day.setHours(0, 0, 0, 0);
  return day.getTime();
};

/** Whole days between the days of two moments. Rounding absorbs the hour of summer time. */
export const daysBetween = (earlier_ms, later_ms) => Math.round((midnight(later_ms) - midnight(earlier_ms)) / DAY_MS);

export const isSameDay = (a_ms, b_ms) => midnight(a_ms) === midnight(b_ms);

/** For the inbox: the time today, "Yesterday", a weekday, then the date. */
export function shortWhen(ms, now_ms) {
  const days = daysBetween(ms, now_ms);
  if (days <= 0) return clock.format(ms);
  if (days === 1) return 'Yesterday';
  if (days < 7) return weekday.format(ms);
  return days < 300 ? dayMonth.format(ms) : date.format(ms);
}

/** For the line between two days. */
export function dayOf(ms, now_ms) {
  const days = daysBetween(ms, now_ms);
  if (days <= 0) return 'Today';
  if (days === 1) return 'Yesterday';
  if (days < 7) return weekdayLong.format(ms);
  return days < 300 ? dayLong.format(ms) : dateLong.format(ms);
}

export function lastSeenOf(ms, now_ms) {
  if (!ms) return 'offline';
  const days = daysBetween(ms, now_ms);
  if (days <= 0) return `last seen ${clock.format(ms)}`;
  if (days === 1) return `last seen yesterday ${clock.format(ms)}`;
  return `last seen ${days < 300 ? dayMonth.format(ms) : date.format(ms)}`;
}

/** "Ann", "Ann and Bob", "Ann, Bob and 3 others". */
export function listOf(names, most = 2) {
  if (names.length <= 1) return names[0] ?? '';
  if (names.length <= most) return `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
  const more = names.length - most;
  return `${names.slice(0, most).join(', ')} and ${more} ${more === 1 ? 'other' : 'others'}`;
}

/** Name the people who type. A direct conversation needs no name. */
export function typingOf(names, kind) {
  if (!names.length || kind === 'direct') return names.length ? 'typing …' : '';
  return `${listOf([...names])} ${names.length > 1 ? 'are' : 'is'} typing …`;
}

/** Two letters at most, the first of the first and of the last word; a letter may be several code units. */
export function initialsOf(name) {
  const words = name.split(/[\s._@-]+/u).filter(Boolean);
  const first = (word) => [...word].find((sign) => /[\p{L}\p{N}]/u.test(sign)) ?? '';
  const picked = words.length > 1 ? [words[0], words.at(-1)] : words;
  return picked.map(first).join('').toLocaleUpperCase() || '?';
}

const TINTS = 8;

/** A colour of the avatar palette, always the same for the same id. */
export function tintOf(id) {
  let hash = 7;
  for (const sign of id) hash = (Math.imul(hash, 31) + sign.codePointAt(0)) >>> 0;
  return hash % TINTS;
}
