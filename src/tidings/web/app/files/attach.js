// Files that go with the next message: chosen with the paperclip, pasted or dropped. Each begins to upload at once and
// shows its progress as a ring; the message is sent when all are there.

import { round } from '../parts/controls.js';
import { el } from '../parts/dom.js';
import { bytesOf } from '../parts/format.js';
import { icon } from '../parts/icons.js';
import { t } from '../parts/words.js';
import { factsOf, isPicture, upload } from './upload.js';

const FILES_MAX = 10; // of one message: the server's limit
const RING = 100.5; // the length of the ring's line

export class Attachments {
  /** @param on { changed(), tell(error), conversation() } */
  constructor(client, on) {
    this.client = client;
    this.on = on;
    this._all = [];
    this.element = el('ul.attachments', { 'aria-label': t('files'), hidden: true });
    this._input = el('input', { type: 'file', multiple: true, hidden: true, tabindex: -1, 'aria-hidden': 'true', onchange: () => this._chosen() });
    this.button = round(t('attach'), 'clip', () => this._input.click());
    this.button.append(this._input);
  }

  get isEmpty() {
    return !this._all.length;
  }

  clear() {
    for (const one of this._all) if (!one.isTaken) this._end(one); // a message that was sent waits for its files
    this._all = [];
    this._draw();
  }

  _chosen() {
    this.add([...this._input.files]);
    this._input.value = '';
  }

  add(files) {
    for (const file of files.slice(0, FILES_MAX - this._all.length)) this._begin(file);
    this._draw();
  }

  _begin(file) {
    const one = { file, share: 0, error: null, stop: new AbortController(), url: isPicture(file.type) ? URL.createObjectURL(file) : null };
    const conversation = this.on.conversation();
    one.done = factsOf(file)
      .then((facts) => upload(this.client, conversation, file, facts, (share) => this._progress(one, share), one.stop.signal))
      .then((stored) => {
        one.share = 1;
        this._progress(one, 1);
        return stored;
      });
    one.done.catch((error) => {
      if (one.stop.signal.aborted) return;
      one.error = error;
      this.on.tell(error);
      this._draw();
    });
    this._all.push(one);
  }

  /** Take the files for a message; resolves with them when all are uploaded. A failed one throws. */
  async take() {
    const taken = [...this._all];
    for (const one of taken) one.isTaken = true;
    const stored = await Promise.all(taken.map((one) => one.done));
    for (const one of taken) if (one.url) URL.revokeObjectURL(one.url);
    this._all = this._all.filter((one) => !taken.includes(one));
    this._draw();
    return stored;
  }

  _end(one) {
    one.stop.abort();
    if (one.url) URL.revokeObjectURL(one.url);
  }

  _drop(one) {
    this._end(one);
    this._all = this._all.filter((other) => other !== one);
    this._draw();
  }

  _progress(one, share) {
    one.share = share;
    const ring = one.element?.querySelector('.ring');
    if (!ring) return;
    ring.toggleAttribute('hidden', share >= 1);
    ring.querySelector('.ring-line').style.strokeDashoffset = String(RING * (1 - share));
  }

  _draw() {
    this.element.hidden = !this._all.length;
    this.element.replaceChildren(...this._all.map((one) => this._item(one)));
    this.on.changed();
  }

  _item(one) {
    const picture = one.url ? el('img', { src: one.url, alt: '' }) : icon('file');
    one.element = el(one.error ? 'li.attachment.is-failed' : 'li.attachment', { title: one.file.name },
      el('div.attachment-picture', null, picture, ringOf()),
      el('div.attachment-facts', null, el('strong', { dir: 'auto' }, one.file.name), el('span', null, one.error ? t('uploadFailed') : bytesOf(one.file.size))),
      round(t('removeName', { name: one.file.name }), 'close', () => this._drop(one)));
    this._progress(one, one.share);
    return one.element;
  }
}

const SVG = 'http://www.w3.org/2000/svg';

function ringOf() {
  const ring = document.createElementNS(SVG, 'svg');
  ring.setAttribute('viewBox', '0 0 36 36');
  ring.setAttribute('class', 'ring');
  ring.setAttribute('aria-hidden', 'true');
  for (const name of ['ring-ground', 'ring-line']) {
    const circle = document.createElementNS(SVG, 'circle');
    for (const [key, value] of Object.entries({ cx: 18, cy: 18, r: 16, class: name })) circle.setAttribute(key, value);
    ring.append(circle);
  }
  return ring;
}

/** Files that are dropped on an element. `take(files)` gets them. */
export function listenToDrops(element, take) {
  const cover = el('div.drop', { hidden: true, 'aria-hidden': 'true' }, icon('clip'), t('dropHere'));
  element.append(cover);
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes('Files');
  element.addEventListener('dragenter', (event) => { cover.hidden = !hasFiles(event); });
  element.addEventListener('dragover', (event) => hasFiles(event) && event.preventDefault());
  cover.addEventListener('dragleave', () => { cover.hidden = true; });
  element.addEventListener('drop', (event) => {
    cover.hidden = true;
    if (!hasFiles(event)) return;
    event.preventDefault();
    take([...event.dataTransfer.files]);
  });
}
