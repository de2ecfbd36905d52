/** Uploads: a file is sent in parts that can be sent again, and the server has a file then. */
import { TidingsError } from './errors.js';
import { PART_TRIES_MAX, RETRY_MS, RETRY_MS_MAX } from './limits.js';
import { jitter, sleep } from './runtime.js';

/** The facts of a Blob or File that is not uploaded yet. */
export function factsOf(file) {
  return { name: file.name || 'file', mime: file.type || 'application/octet-stream', bytes: file.size };
}

/** The files that a program gave, as an array: a list of Blobs, a FileList, or nothing. */
export function blobsOf(files) {
  const all = files?.[Symbol.iterator] ? [...files] : files ?? [];
  const isBlob = (one) => typeof one?.slice === 'function' && typeof one.size === 'number';
  const isList = Array.isArray(all) && all.every(isBlob);
  if (!isList) throw new TypeError('files must be a list of Blobs, such as `files: [file]`');
  return all;
}

/** Upload one file. Resolves with the file as the server has it. `path` is that of its conversation. */
export async function upload(rest, path, file, { onProgress, signal } = {}) {
  const { fileId, parts } = await rest.send('POST', `${path}/uploads`, factsOf(file), true);
  for (const part of parts) {
    await sendPart(rest, part, file, signal);
    onProgress?.({ file, sent: part.to, size: file.size });
  }
  const whole = await rest.send('POST', `${path}/uploads/${fileId}/complete`, undefined, true);
  if (signal?.aborted) throw new TidingsError('discarded', 'the upload was ended');
  return whole;
}

async function sendPart(rest, part, file, signal) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await rest.put(part.url, part.headers, file.slice(part.from, part.to), signal);
    } catch (error) {
      if (!error.temporary || tries >= PART_TRIES_MAX) throw error;
      await sleep(jitter(Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** tries)));
    }
  }
}
