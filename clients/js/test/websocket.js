/**
 * A WebSocket for Node without one: the browser's interface as far as the client uses it, over node:net (RFC 6455).
 * Text frames only, no extensions. For tests.
 */
import { createHash, randomBytes } from 'node:crypto';
import net from 'node:net';

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const [TEXT, CLOSE, PING, PONG] = [1, 8, 9, 10];

export class NodeWebSocket {
  constructor(url) {
    const { hostname, port, pathname } = new URL(url);
    Object.assign(this, { readyState: 0, onopen: null, onmessage: null, onclose: null, onerror: null });
    this._key = randomBytes(16).toString('base64');
    this._bytes = Buffer.alloc(0);
    this._socket = net.connect(Number(port), hostname);
    this._socket.setNoDelay(true);
    this._socket.on('connect', () => this._socket.write(
      `GET ${pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
      `Sec-WebSocket-Key: ${this._key}\r\nSec-WebSocket-Version: 13\r\n\r\n`));
    this._socket.on('data', (data) => this._take(data));
    this._socket.on('error', () => {});
    this._socket.on('close', () => this._end(1006, ''));
  }

  send(text) {
    if (this.readyState !== 1) throw new Error('not open');
    this._frame(TEXT, Buffer.from(text));
  }

  close(code = 1000, reason = '') {
    if (this.readyState === 1) this._frame(CLOSE, Buffer.concat([uint16(code), Buffer.from(reason)]));
    this.readyState = Math.max(this.readyState, 2);
    this._socket.end();
    setTimeout(() => this._socket.destroy(), 200).unref();
  }

  _take(data) {
    this._bytes = Buffer.concat([this._bytes, data]);
    if (this.readyState === 0 && !this._opened()) return;
    for (let frame; this.readyState < 3 && (frame = this._next()); ) this._heard(...frame);
  }

  _opened() {
    const end = this._bytes.indexOf('\r\n\r\n');
    if (end < 0) return false;
    const head = this._bytes.subarray(0, end).toString('latin1');
    this._bytes = this._bytes.subarray(end + 4);
    const accept = createHash('sha1').update(this._key + GUID).digest('base64');
    if (!head.startsWith('HTTP/1.1 101') || !head.includes(accept)) {
      this._socket.destroy();
      return false;
    }
    this.readyState = 1;
    this.onopen?.({});
    return true;
  }

  _next() {
    const bytes = this._bytes;
    if (bytes.length < 2) return null;
    let size = bytes[1] & 0x7f;
    let at = 2;
    if (size === 126) {
      if (bytes.length < 4) return null;
      size = bytes.readUInt16BE(2);
      at = 4;
    } else if (size === 127) {
      if (bytes.length < 10) return null;
      size = Number(bytes.readBigUInt64BE(2));
      at = 10;
    }
    if (bytes.length < at + size) return null;
    this._bytes = bytes.subarray(at + size);
    return [bytes[0] & 0x0f, bytes.subarray(at, at + size)];
  }

  _heard(kind, payload) {
    if (kind === TEXT) this.onmessage?.({ data: payload.toString('utf8') });
    else if (kind === PING) this._frame(PONG, payload);
    else if (kind === CLOSE) {
      const code = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
      if (this.readyState === 1) this._frame(CLOSE, payload.subarray(0, 2));
      this._end(code, payload.subarray(2).toString('utf8'));
      this._socket.end();
    }
  }

  _frame(kind, payload) {
    const size = payload.length;
    const head = size < 126 ? Buffer.from([0x80 | kind, 0x80 | size])
      : size < 65536 ? Buffer.concat([Buffer.from([0x80 | kind, 0xfe]), uint16(size)])
        : Buffer.concat([Buffer.from([0x80 | kind, 0xff, 0, 0, 0, 0]), uint16(size >>> 16), uint16(size & 0xffff)]);
    const mask = randomBytes(4);
    const masked = Buffer.from(payload, 0);
    for (let at = 0; at < size; at += 1) masked[at] = payload[at] ^ mask[at & 3];
    if (!this._socket.destroyed) this._socket.write(Buffer.concat([head, mask, masked]));
  }

  _end(code, reason) {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.onclose?.({ code, reason });
  }
}

function uint16(value) {
  return Buffer.from([value >> 8, value & 0xff]);
}
