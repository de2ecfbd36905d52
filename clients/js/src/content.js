/** The fields of a message beside its text: one list, from a send to the row of a screen. */
const EMPTY = {
  data: null, silent: false, replyTo: null, mentions: [], mention: null, ttlS: null, threadSeq: null, alsoHere: false,
};
const NAMES = Object.keys(EMPTY);
const SHOWN = NAMES.filter((name) => name !== 'ttlS');

/** The fields to send and to keep; a field that says nothing is undefined. */
export const said = (from) =>
  Object.fromEntries(NAMES.map((name) => [name, isEmpty(name, from[name]) ? undefined : from[name]]));

/** The fields to show; each has a value. A time to live is only sent: a message has `expiresAt`. */
export const shown = (from) => Object.fromEntries(SHOWN.map((name) => [name, from[name] ?? EMPTY[name]]));

const isEmpty = (name, value) =>
  value === null || value === EMPTY[name] || (Array.isArray(value) && value.length === 0);
