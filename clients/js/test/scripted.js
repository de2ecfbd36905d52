/**
 * The other side of a socket, played by the test: it says what no server would say on demand. The frames are those of the
 * protocol; what the real server does is in the other tests.
 */
import { TidingsClient } from '../src/tidings.js';

export const entryOf = (seq, fields = {}) => ({ seq, kind: 'message', message_id: `m${seq}`, sender_id: 'bob', text: `t${seq}`, ts: 1,
  sent_at: Date.now() + 60000, deleted: false, edited_at: null, target_seq: null, member: null, ...fields });

/** Time that the test lets pass: `pass(ms)`. `set(ms)` moves the time of day alone, as a person or a network does. */
export function movedClocks(t) {
  const { now } = Date;
  const steady = performance.now.bind(performance);
  let [passedMs, setMs] = [0, 0];
  Date.now = () => now() + passedMs + setMs;
  performance.now = () => steady() + passedMs;
  t.after(() => {
    Date.now = now;
    delete performance.now; // the one of its class comes back
  });
  return { pass: (ms) => (passedMs += ms), set: (ms) => (setMs += ms) };
}

export class Peer {
  constructor() {
    this.log = []; // what history answers from
    this.sockets = [];
    this.heard = []; // every frame of every socket
    this.hello = { protocol: 1, user_id: 'ann', connection_id: 'x', server_version: '0', store_epoch: 'e1',
      ping_interval_ms: 25000, total_unread: 0, unread_conversations: 0 };
    this.answers = {}; // type -> (frame, socket) => answer without id, undefined for none
    const peer = this;
    this.WebSocket = class {
      constructor() {
        this.readyState = 0;
        peer.sockets.push(this);
        queueMicrotask(() => ((this.readyState = 1), this.onopen?.({})));
      }

      send(text) {
        const frame = JSON.parse(text);
        peer.heard.push(frame);
        queueMicrotask(() => peer._answer(frame, this));
      }

      close() {
        this.readyState = 3;
      }
    };
  }

  get socket() {
    return this.sockets[this.sockets.length - 1];
  }

  client(options = {}) {
    return new TidingsClient({ url: 'http://scripted', token: 'none', WebSocket: this.WebSocket, locks: null, ...options });
  }

  say(frame) {
    this.socket.onmessage({ data: JSON.stringify(frame) });
  }

  entry(seq, fields = {}, conversationId = 'c1') {
    const counts = { unread_count: 1, unread_capped: false, total_unread: 1 };
    this.say({ type: 'message.new', conversation_id: conversationId, message: entryOf(seq, fields), ...counts });
  }

  close(code) {
    const { socket } = this;
    socket.readyState = 3;
    socket.onclose({ code, reason: '' });
  }

  of(type) {
    return this.heard.filter((frame) => frame.type === type);
  }

  _answer(frame, socket) {
    if (socket.readyState !== 1 || frame.id === undefined) return;
    const answer = (this.answers[frame.type] ?? DEFAULTS[frame.type] ?? (() => ({ type: 'ok' })))(frame, this);
    if (answer) socket.onmessage({ data: JSON.stringify({ id: frame.id, ...answer }) });
  }
}

const DEFAULTS = {
  connect: (frame, peer) => ({ type: 'hello', server_time: Date.now(), ...peer.hello }),
  ping: () => ({ type: 'pong' }),
  history(frame, { log }) {
    const limit = Math.min(frame.limit, 100);
    const { after_seq: after, before_seq: before = Infinity } = frame;
    const found = after === undefined
      ? log.filter((entry) => entry.seq < before).slice(-limit)
      : log.filter((entry) => entry.seq > after).slice(0, limit);
    const first = found[0]?.seq;
    const last = found[found.length - 1]?.seq;
    return { type: 'ok', messages: found.reverse(), head: log[log.length - 1]?.seq ?? 0,
      delivered_all_seq: 0, read_all_seq: 0, first_unread_seq: null,
      next_before_seq: log.some((entry) => entry.seq < first) ? first : null,
      next_after_seq: log.some((entry) => entry.seq > last) ? last : null };
  },
};
