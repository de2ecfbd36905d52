// Sounds in messages: play and pause, the place in it, its length. One plays at a time, also while its row is drawn
// again or is out of view.

import { el } from '../parts/dom.js';
import { icon } from '../parts/icons.js';
import { t } from '../parts/words.js';

const STEPS = 1000; // of the line that shows the place

export const isSound = (mime) => /^audio\/[\w.+-]+$/u.test(mime);

/** "1:05" of seconds. */
export function lengthOf(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
}

export class Sounds {
  constructor() {
    this._audio = new Audio();
    this._id = null;
    for (const event of ['timeupdate', 'play', 'pause', 'ended', 'loadedmetadata']) this._audio.addEventListener(event, () => this._tell());
  }

  /** `load()` resolves with the address of the sound. `seconds` is its length and `levels` how loud it is along the way,
   *  where the sender said so. */
  draw({ fileId, name }, { seconds, levels }, load) {
    const play = el('button.round.sound-play', { type: 'button', tabindex: -1, 'data-part': `play-${fileId}`, onclick: () => this._toggle(fileId, load, made) });
    const place = el('input', { type: 'range', min: 0, max: STEPS, value: 0, tabindex: -1, 'aria-label': t('soundPlace'), 'data-part': `place-${fileId}`, oninput: () => this._seek(fileId, made) });
    const made = el('div.sound', { 'data-sound': fileId, 'data-seconds': seconds ?? 0, role: 'group', 'aria-label': name }, play, place, el('span.sound-time'), waveOf(levels));
    this._show(made);
    return made;
  }

  async _toggle(id, load, element) {
    const audio = this._audio;
    if (this._id === id && !audio.paused) return audio.pause();
    try {
      if (this._id !== id) await this._load(id, load, element);
      if (this._id === id) await audio.play();
    } catch {
      if (this._id === id) this._id = null; // the next press tries again
      element.classList.add('is-missing');
    }
    return this._tell();
  }

  async _load(id, load, element) {
    this._audio.pause();
    this._id = id;
    const url = await load();
    if (this._id !== id) return; // another one was pressed meanwhile
    const share = this._shareOf(element);
    this._audio.src = url;
    if (share) this._audio.currentTime = share * this._secondsOf(element);
  }

  _seek(id, element) {
    if (this._id === id) this._audio.currentTime = this._shareOf(element) * this._secondsOf(element);
    this._show(element);
  }

  _shareOf(element) {
    return Number(element.children[1].value) / STEPS;
  }

  /** The length: as the sound says it, else as its sender did. A recording of a browser does not say it. */
  _secondsOf(element) {
    const isKnown = this._id === element.dataset.sound && Number.isFinite(this._audio.duration);
    return isKnown ? this._audio.duration : Number(element.dataset.seconds);
  }

  _tell() {
    for (const one of document.querySelectorAll('.sound')) this._show(one);
  }

  _show(element) {
    const [play, place, time, wave] = element.children;
    const { currentTime, ended, paused } = this._audio;
    const isActive = this._id === element.dataset.sound;
    const seconds = this._secondsOf(element);
    if (isActive) place.value = ended || !seconds ? 0 : Math.round((STEPS * currentTime) / seconds);
    const past = this._shareOf(element) * (wave?.childElementCount ?? 0);
    if (wave) [...wave.children].forEach((bar, at) => bar.classList.toggle('is-past', at < past));
    const text = lengthOf(this._shareOf(element) * seconds || seconds);
    place.setAttribute('aria-valuetext', text);
    time.textContent = text;
    const name = isActive && !paused && !ended ? 'pause' : 'play';
    if (play.title === t(name)) return;
    play.replaceChildren(icon(name));
    play.title = t(name);
    play.setAttribute('aria-label', t(name));
  }
}

/** A bar for each level, a digit each; null for anything else. The line of the place lies over them. */
function waveOf(levels) {
  if (typeof levels !== 'string' || !/^\d{8,64}$/u.test(levels)) return null;
  return el('span.sound-wave', { 'aria-hidden': 'true' }, ...[...levels].map((level) => {
    const bar = el('i');
    bar.style.height = `${12 + (88 * level) / 9}%`;
    return bar;
  }));
}
