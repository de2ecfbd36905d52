// Files that go with the next message: chosen with the paperclip, pasted or dropped. Each begins to upload at once and
// shows its progress as a ring; the message is sent when all are there.

import { round } from '../parts/controls.js';
import { el } from '../parts/dom.js';
import { bytesOf, isPicture } from '../parts/format.js';
import { icon } from '../parts/icons.js';
import { openMenu } from '../parts/menu.js';
import { t } from '../parts/words.js';
import { lengthOf } from './sounds.js';

const OFFLINE = Object.assign(new Error('not loaded'), { code: 'disconnected' });
const FILES_MAX = 10; // of one message: the server's limit
const RING = 100.5; // the length of the ring's line

export class Attachments {
  /** @param on { changed(), tell(error), conversation(), poll(): where polls are offered } */
  constructor(client, on) {
    this.client = client;
    this.on = on;
    this._all = [];
    this.element = el('ul.attachments', { 'aria-label': t('files'), hidden: true });
    this._input = el('input', { type: 'file', multiple: true, hidden: true, tabindex: -1, 'aria-hidden': 'true', onchange: () => this._chosen() });
    this.button = round(t('attach'), 'clip', () => this._choose(), on.poll ? { 'aria-haspopup': 'menu' } : null);
    this.button.append(this._input);
  }

  /** Stand in a composer: the paperclip with its tools, the files above its text. Pasted files are taken. */
  joinTo(composer) {
    composer.tools.prepend(this.button);
    composer.above.append(this.element);
    composer.field.addEventListener('paste', (event) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (!files.length) return;
      event.preventDefault();
      this.add(files);
    });
    if (globalThis.MediaRecorder && navigator.mediaDevices) {
      composer.offer(round(t('recordVoice'), 'mic', () => this._record(composer)));
    }
  }

  _choose() {
    if (!this.on.poll) return this._input.click();
    return openMenu(this.button, t('attach'), [
      { icon: 'file', label: t('file'), run: () => this._input.click() },
      { icon: 'poll', label: t('poll'), run: () => this.on.poll() },
    ]);
  }

  // --- voice ---

  async _record(composer) {
    if (this._stopVoice) return;
    this._stopVoice = () => {};
    const conversation = this.on.conversation();
    try {
      const { recordVoice } = await import('../writing/voice.js');
      const stop = await recordVoice(composer.element, (...made) => this._recorded(composer, ...made));
      if (conversation === this.on.conversation()) this._stopVoice = stop;
      else stop();
    } catch {
      this._stopVoice = null;
      this.on.tell({ code: 'no_microphone' });
    }
  }

  _recorded(composer, file, seconds, isSent, levels) {
    this._stopVoice = null;
    composer.focus();
    if (!file) return;
    this.add([file]);
    if (isSent) composer.sendAs(`🎤 ${lengthOf(seconds)}`, { voice: { seconds: Math.round(seconds * 10) / 10, levels } });
  }

  /** Send a text with the chosen files through the outbox, when all are uploaded. `refused(error)`: it was not taken. */
  async send(conversation, text, options, refused) {
    try {
      const uploaded = this.isEmpty ? undefined : await this.take();
      conversation.send(text, { ...options, uploaded }).catch((error) => {
        if (error.code === 'outbox_full') refused(error); // otherwise its row shows the outcome
      });
    } catch (error) {
      refused(error);
    }
  }

  get isEmpty() {
    return !this._all.length;
  }

  clear() {
    this._stopVoice?.();
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
    this._all.push(one);
    this._start(one);
  }

  _start(one) {
    const conversation = this.on.conversation();
    one.error = null;
    one.done = this._upload(one, conversation);
    one.done.catch((error) => {
      if (one.stop.signal.aborted) return;
      one.error = error;
      this.on.tell(error);
      this._draw();
    });
  }

  async _upload(one, conversation) {
    const { factsOf, upload } = await import('./upload.js').catch(() => { throw OFFLINE; });
    const facts = await factsOf(one.file);
    const stored = await upload(this.client, conversation, one.file, facts, (share) => this._progress(one, share), one.stop.signal);
    this._progress(one, 1);
    return stored;
  }

  /** Take the files for a message; resolves with them when all are uploaded. One that failed is tried again. */
  async take() {
    const taken = [...this._all];
    for (const one of taken) if (one.error) this._start(one);
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
