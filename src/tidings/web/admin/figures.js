// Numbers as an operator reads them.

const whole = new Intl.NumberFormat('en');
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const stamp = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dayMonth = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' });

export const NOTHING = '–';

export const count = (value) => (value === null || value === undefined ? NOTHING : whole.format(value));
export const plural = (value, one, many) => `${whole.format(value)} ${value === 1 ? one : many}`;
export const moment = (ms) => (ms ? stamp.format(ms) : NOTHING);
export const timeOf = (ms) => clock.format(ms);
export const dayOf = (text) => dayMonth.format(Date.parse(text));

const rounded = (value, digits) => Math.round(value * 10 ** digits) / 10 ** digits;

/** 0, 0.4, 3.2, 48, 1,234, 12.3K. */
export function rate(value, digits = 1) {
  if (value === null || value === undefined) return NOTHING;
  if (value >= 10_000) return compact.format(value);
  return value >= 10 || value === 0 ? whole.format(Math.round(value)) : String(rounded(value, digits));
}

/** Milliseconds with the significant digits only. */
export function millis(value, digits = 1) {
  if (value === null || value === undefined) return NOTHING;
  if (value >= 1000) return `${Math.round(value / 100) / 10} s`;
  return `${value >= 10 ? Math.round(value) : rounded(value, digits)} ms`;
}

export function bytes(value) {
  let size = value ?? 0;
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (size < 1024) return `${unit === 'B' || size >= 100 ? Math.round(size) : size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
}

/** A duration: 42 s, 5 min, 3 h 20 min, 12 d 4 h. */
export function lasting(ms) {
  const s = Math.max(Math.round(ms / 1000), 0);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

export const ago = (ms) => (ms ? `${lasting(Date.now() - ms)} ago` : 'never');
