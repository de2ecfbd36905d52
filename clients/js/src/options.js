/** The options of a client, checked: a mistake is one line at once, not an attempt that fails again and again. */
import { memoryStorage } from './storage.js';

const NO_WEBSOCKET = 'This runtime has no WebSocket (Node 22 and later have one). Run `npm install ws`, then '
  + "`import { WebSocket } from 'ws'` and `new TidingsClient({ …, WebSocket })`.";

export function checked({ url = globalThis.location?.origin, ...options }) {
  const { token, getToken, storage = memoryStorage() } = options;
  const WebSocket = options.WebSocket ?? globalThis.WebSocket;
  const made = { ...options, url: addressOf(url), storage, WebSocket };
  if (!token && !getToken) throw new TypeError('token or getToken says who is here');
  if (token && typeof token !== 'string') throw new TypeError('token must be a string: a function is getToken');
  if (getToken && typeof getToken !== 'function') throw new TypeError('getToken must be a function; a string is token');
  if (!WebSocket) throw new TypeError(NO_WEBSOCKET);
  return made;
}

/** The address of the server without a slash at its end. An error does not repeat it: it may hold a password. */
function addressOf(url) {
  if (!url) throw new TypeError('url says where the server is');
  let found;
  try {
    found = new URL(url);
  } catch {
    found = null;
  }
  const isPlain = /^https?:$/.test(found?.protocol) && !found.username && !found.password;
  if (!isPlain) throw new TypeError('url must be http://host:port or https://host, without a name and a password');
  return found.origin + found.pathname.replace(/\/+$/, '');
}
