// Numbers, times, names and colours as people read them. Pure functions; the browser's own locale decides.

import { t } from './words.js';

const DAY_MS = 86_400_000;
const COUNT_SHOWN_MAX = 999;

const clock = new Intl.DateTimeFormat(undefined, { hour: 'numeric', minute: '2-digit' });
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
export const dayMonthOf = (ms) => dayMonth.format(ms);
export const numberOf = (count) => number.format(count);

/** A text whose form depends on a count: `countOf(3, 'members')` is "3 members". */
export const countOf = (count, key) => t(key, { count, n: numberOf(count) });

/** 1 to 999, then 999+. */
export const badgeOf = (count, isCapped = false) =>
  isCapped || count > COUNT_SHOWN_MAX ? `${COUNT_SHOWN_MAX}+` : String(count);

/** The text of the pill that leads to the oldest unread message. */
export function unreadOf({ count, isCapped }) {
  return count ? t('unreadJump', { n: badgeOf(count, isCapped) }) : t('unreadJumpUncounted');
}

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
  if (days === 1) return t('yesterday');
  if (days < 7) return weekday.format(ms);
  return days < 300 ? dayMonth.format(ms) : date.format(ms);
}

/** For the line between two days. */
export function dayOf(ms, now_ms) {
  const days = daysBetween(ms, now_ms);
  if (days <= 0) return t('today');
  if (days === 1) return t('yesterday');
  if (days < 7) return weekdayLong.format(ms);
  return days < 300 ? dayLong.format(ms) : dateLong.format(ms);
}

export function lastSeenOf(ms, now_ms) {
  if (!ms) return t('offline');
  const days = daysBetween(ms, now_ms);
  const time = clock.format(ms);
  if (days <= 0) return t('lastSeen', { when: time });
  if (days === 1) return t('lastSeenYesterday', { when: time });
  return t('lastSeen', { when: days < 300 ? dayMonth.format(ms) : date.format(ms) });
}

/** "Ann", "Ann and Bob", "Ann, Bob and 3 others". */
export function listOf(names, most = 2) {
  if (names.length <= 1) return names[0] ?? '';
  if (names.length <= most) return t('listAnd', { first: names.slice(0, -1).join(', '), last: names.at(-1) });
  const more = names.length - most;
  return t('listMore', { first: names.slice(0, most).join(', '), count: more, n: more });
}

/** Name the people who type. A direct conversation needs no name. */
export function typingOf(names, kind) {
  if (!names.length || kind === 'direct') return names.length ? t('typing') : '';
  return t('typingNames', { names: listOf([...names]), count: names.length });
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

const UNITS = ['B', 'KB', 'MB', 'GB'];

/** "3.4 MB". */
export function bytesOf(bytes) {
  let unit = 0;
  let rest = bytes;
  for (; rest >= 1000 && unit < UNITS.length - 1; unit += 1) rest /= 1000;
  return `${number.format(unit && rest < 10 ? Math.round(rest * 10) / 10 : Math.round(rest))} ${UNITS[unit]}`;
}

/** Fold case and accents, so that "Zoë" is found by "zoe". */
export const folded = (text) => text.normalize('NFKD').replace(/\p{M}/gu, '').toLocaleLowerCase();

export const isPicture = (mime) => /^image\/(?:png|jpeg|gif|webp|avif|bmp)$/u.test(mime);
