/** Small tools: promises with a deadline, values of the wire, events to listeners. */
import { timedOut } from './errors.js';
import { PREVIEW_CHARS } from './limits.js';

export function deferred() {
  const one = {};
  one.promise = new Promise((resolve, reject) => Object.assign(one, { resolve, reject }));
  one.promise.catch(() => {}); // a rejection that nothing waits for is no error
  return one;
}

export function rejected(error) {
  const one = deferred();
  one.reject(error);
  return one.promise;
}

/** Wait for a promise, or throw a timeout. */
export async function within(ms, asked, message) {
  let timer = null;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(timedOut(message)), ms);
  });
  try {
    return await Promise.race([asked, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The milliseconds of a clock that nobody sets, for durations: the time of day may jump. */
export const steadyMs = () => performance.now();

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const jitter = (ms) => ms * (0.5 + Math.random() / 2);

const OWN = new Set(['data', 'reactions']); // their keys are the application's
const camelKey = (key) => key.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());

/** Copy a value of the wire with camelCase keys. `data`, the keys of reactions and user ids stay as they are. */
export function camel(value) {
  if (Array.isArray(value)) return value.map(camel);
  if (value === null || typeof value !== 'object') return value;
  const copied = ([key, one]) => [camelKey(key), OWN.has(key) ? one : key === 'times' ? byUser(one) : camel(one)];
  return Object.fromEntries(Object.entries(value).map(copied));
}

const byUser = (times) => Object.fromEntries(Object.entries(times).map(([userId, one]) => [userId, camel(one)]));

/** Make an id: the time first, so that ids of one device sort in the order of their making; then 80 random bits. */
export function newId() {
  const tail = Array.from(randomBytes(10), (byte) => byte.toString(16).padStart(2, '0')).join('');
  return Date.now().toString(16).padStart(12, '0') + tail;
}

/** Random bytes. Node 18 has no global crypto unless a flag says so: an id must be unique there, and is no secret. */
function randomBytes(count) {
  const bytes = new Uint8Array(count);
  if (globalThis.crypto?.getRandomValues) return globalThis.crypto.getRandomValues(bytes);
  return bytes.map(() => Math.floor(Math.random() * 256));
}

/** Cut a text as the server cuts the preview of an inbox row. */
export function previewOf(text) {
  return text === null ? null : Array.from(text).slice(0, PREVIEW_CHARS).join('').replace(/\r\n|\r|\n/g, ' ');
}

export class Emitter {
  constructor() {
    this._listeners = new Map();
  }

  on(event, listener) {
    if (!this._listeners.has(event)) this._listeners.set(event, new Set());
    this._listeners.get(event).add(listener);
    return () => this.off(event, listener);
  }

  off(event, listener) {
    this._listeners.get(event)?.delete(listener);
  }

  once(event) {
    return new Promise((resolve) => {
      const off = this.on(event, (value) => (off(), resolve(value)));
    });
  }

  /** Call every listener. A listener that throws does not stop the others. */
  _emit(event, value) {
    for (const listener of [...(this._listeners.get(event) ?? [])]) {
      try {
        listener(value);
      } catch (error) {
        if (event === 'error') console.error(error);
        else this._report(error);
      }
    }
  }

  _report(error) {
    if (this._listeners.get('error')?.size) this._emit('error', { error });
    else console.error(error);
  }
}
