// Upload of one file, in parts: announce, send the parts with progress, complete. A part that fails for now is sent again,
// after a random and growing wait. This module is loaded with the first file.

import { isPicture } from '../parts/format.js';

const TRIES = 6;
const WAIT_MS = 500;

/** Upload a file to a conversation; resolves with the file. `progress(share)` is called with 0 to 1. */
export async function upload(client, conversation, file, facts, progress, signal) {
  const path = `/v1/conversations/${encodeURIComponent(conversation.id)}/uploads`;
  const { fileId, parts } = await client.rest('POST', path, { ...facts });
  const sent = new Map();
  const tell = (part, bytes) => {
    sent.set(part, bytes);
    progress(file.size ? [...sent.values()].reduce((sum, one) => sum + one, 0) / file.size : 1);
  };
  for (const part of parts) await sendPart(file, part, (bytes) => tell(part, bytes), signal);
  return client.rest('POST', `${path}/${encodeURIComponent(fileId)}/complete`);
}

async function sendPart(file, part, tell, signal) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await put(file.slice(part.from, part.to), part, tell, signal);
    } catch (error) {
      if (tries >= TRIES || !error.temporary || signal.aborted) throw error;
      await new Promise((resolve) => setTimeout(resolve, (WAIT_MS * 2 ** tries * (1 + Math.random())) / 2));
    }
  }
}

function put(body, { method, url, headers }, tell, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const fail = () => reject(failureOf(request));
    request.open(method, new URL(url, location.origin));
    for (const [name, value] of Object.entries(headers ?? {})) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded }) => tell(loaded);
    request.onload = () => {
      if (request.status < 200 || request.status >= 300) return fail();
      tell(body.size);
      resolve();
    };
    request.onerror = request.onabort = fail;
    signal.addEventListener('abort', () => request.abort());
    if (signal.aborted) fail();
    else request.send(body);
  });
}

/** The error of a part that was not taken. S3 says 400 where others say 408: the bytes came too slowly. */
function failureOf({ status, responseText }) {
  const temporary = status === 0 || status >= 500 || status === 408 || status === 429 || responseText.includes('RequestTimeout');
  return Object.assign(new Error(`status ${status}`), { code: 'unavailable', temporary });
}

/** What the server wants to know of a file. The size of a picture keeps its place before it is loaded. */
export async function factsOf(file) {
  const facts = { name: nameOf(file), mime: file.type || 'application/octet-stream', bytes: file.size };
  if (!isPicture(facts.mime)) return facts;
  try {
    const picture = await createImageBitmap(file);
    const { width, height } = picture;
    picture.close();
    return { ...facts, width, height };
  } catch {
    return facts; // it is no picture after all
  }
}

function nameOf(file) {
  const name = (file.name || 'file').split(/[/\\]/u).at(-1).replace(/[\p{Cc}\p{Cf}]/gu, '').trim();
  return name.slice(-200) || 'file';
}
