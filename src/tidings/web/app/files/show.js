// The files of a message. A picture has its place before it is there, so nothing jumps. A link to a file lives a minute
// and is asked for when it is needed.

import { el } from '../parts/dom.js';
import { bytesOf, isPicture } from '../parts/format.js';
import { icon } from '../parts/icons.js';
import { t } from '../parts/words.js';
import { isSound, Sounds } from './sounds.js';

const KEPT_MAX = 120; // pictures in memory
const LINK_MS = 50_000; // a link of a store of its own lives a minute
const WIDTH_PX_MAX = 340;
const HEIGHT_PX_MAX = 320;

export class FileViews {
  constructor(client) {
    this.client = client;
    this._urls = new Map(); // file id -> promise of a URL that stays
    this._sounds = new Sounds();
  }

  /** A URL that lives a minute. */
  async link(conversation, fileId, isDownload = false) {
    const query = new URLSearchParams({ link: '1', ...(isDownload && { download: '1' }) });
    const path = `/v1/conversations/${encodeURIComponent(conversation.id)}/files/${encodeURIComponent(fileId)}?${query}`;
    return new URL((await this.client.rest('GET', path)).url, location.origin).href;
  }

  /** A URL of a picture or sound. Where this server has it, its bytes are kept as long as the page. */
  picture(conversation, fileId) {
    if (!this._urls.has(fileId)) {
      if (this._urls.size >= KEPT_MAX) this._forgetOldest();
      const made = this.link(conversation, fileId).then((url) => this._kept(url));
      const forget = () => this._urls.delete(fileId); // the next drawing asks again
      made.then((url) => !url.startsWith('blob:') && setTimeout(forget, LINK_MS), forget);
      this._urls.set(fileId, made);
    }
    return this._urls.get(fileId);
  }

  async _kept(url) {
    if (new URL(url).origin !== location.origin) return url; // a store of its own answers; its link is used as it is
    return URL.createObjectURL(await read(url));
  }

  /** The bytes of a file. */
  async blob(conversation, fileId) {
    return read(await this.link(conversation, fileId));
  }

  _forgetOldest() {
    const [id, made] = this._urls.entries().next().value;
    this._urls.delete(id);
    made.then((url) => url.startsWith('blob:') && URL.revokeObjectURL(url), () => {});
  }

  /** The files of a message as elements; null where it has none. */
  draw(conversation, message) {
    const files = message.files ?? [];
    if (!files.length || message.deleted) return null;
    const pictures = files.filter((one) => isPicture(one.mime) && one.width);
    const open = async (one) => {
      const { openLightbox } = await import('./lightbox.js');
      openLightbox(this, conversation, pictures, pictures.indexOf(one));
    };
    return el('div.files', null, ...files.map((one) => {
      if (pictures.includes(one)) return this._picture(conversation, one, () => open(one));
      return isSound(one.mime) && one.fileId ? this._sound(conversation, one, message) : this._file(conversation, one);
    }));
  }

  _sound(conversation, file, { data }) {
    const { seconds: said, levels } = data?.voice ?? {};
    const seconds = Number(said);
    return this._sounds.draw(file, { seconds: seconds > 0 && seconds < 1e5 ? seconds : null, levels }, () => this.picture(conversation, file.fileId));
  }

  _picture(conversation, file, open) {
    const [width, height] = fitted(file.width, file.height);
    const image = el('img', { alt: file.name, width, height, loading: 'lazy', decoding: 'async' });
    const place = el('button.picture', { type: 'button', tabindex: -1, 'data-part': `file-${file.fileId}`, 'aria-label': t('openPicture', { name: file.name }), onclick: open }, image);
    place.style.aspectRatio = `${width} / ${height}`;
    place.style.width = `${width}px`;
    this.picture(conversation, file.fileId).then((url) => { image.src = url; }, () => place.classList.add('is-missing'));
    return place;
  }

  _file(conversation, file) {
    const save = async () => {
      const url = await this.link(conversation, file.fileId, true).catch(() => null);
      if (url) el('a', { href: url, download: file.name, rel: 'noopener' }).click();
    };
    return el('button.file', { type: 'button', tabindex: -1, 'data-part': `file-${file.fileId}`, onclick: save }, icon('file'),
      el('span.file-facts', null, el('strong', { dir: 'auto' }, file.name), el('span', null, bytesOf(file.bytes))), icon('download'));
  }
}

async function read(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw Object.assign(new Error(`status ${answer.status}`), { code: 'unavailable' });
  return answer.blob();
}

export function fitted(width, height) {
  const scale = Math.min(1, WIDTH_PX_MAX / width, HEIGHT_PX_MAX / height);
  return [Math.max(48, Math.round(width * scale)), Math.max(48, Math.round(height * scale))];
}

/** The height that the files of a message take, before they are drawn. */
export function filesHeight(files = []) {
  return (files ?? []).reduce((sum, one) => sum + (one.width && isPicture(one.mime) ? fitted(one.width, one.height)[1] : 56) + 6, 0);
}
