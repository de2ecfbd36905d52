// The files of a message. A picture has its place before it is there, so nothing jumps. A link to a file lives a minute
// and is asked for when it is needed.

import { el } from '../parts/dom.js';
import { bytesOf } from '../parts/format.js';
import { icon } from '../parts/icons.js';
import { t } from '../parts/words.js';
import { openLightbox } from './lightbox.js';
import { isPicture } from './upload.js';

const KEPT_MAX = 120; // pictures in memory
const WIDTH_PX_MAX = 340;
const HEIGHT_PX_MAX = 320;

export class FileViews {
  constructor(client) {
    this.client = client;
    this._urls = new Map(); // file id -> promise of a URL that stays
  }

  /** A URL that lives a minute. */
  async link(conversation, fileId, isDownload = false) {
    const query = new URLSearchParams({ link: '1', ...(isDownload && { download: '1' }) });
    const path = `/v1/conversations/${encodeURIComponent(conversation.id)}/files/${encodeURIComponent(fileId)}?${query}`;
    return new URL((await this.client.rest('GET', path)).url, location.origin).href;
  }

  /** A URL of a picture that stays as long as the page: its bytes are kept. */
  picture(conversation, fileId) {
    if (!this._urls.has(fileId)) {
      if (this._urls.size >= KEPT_MAX) this._forgetOldest();
      const made = this.link(conversation, fileId).then((url) => this._kept(url));
      made.catch(() => this._urls.delete(fileId)); // the next drawing asks again
      this._urls.set(fileId, made);
    }
    return this._urls.get(fileId);
  }

  async _kept(url) {
    if (new URL(url).origin !== location.origin) return url; // a store of its own answers; its link is used as it is
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return URL.createObjectURL(await answer.blob());
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
    const open = (one) => openLightbox(this, conversation, pictures, pictures.indexOf(one));
    return el('div.files', null, ...files.map((one) =>
      pictures.includes(one) ? this._picture(conversation, one, () => open(one)) : this._file(conversation, one)));
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

export function fitted(width, height) {
  const scale = Math.min(1, WIDTH_PX_MAX / width, HEIGHT_PX_MAX / height);
  return [Math.max(48, Math.round(width * scale)), Math.max(48, Math.round(height * scale))];
}

/** The height that the files of a message take, before they are drawn. */
export function filesHeight(files = []) {
  return (files ?? []).reduce((sum, one) => sum + (one.width && isPicture(one.mime) ? fitted(one.width, one.height)[1] : 56) + 6, 0);
}
