// Record a voice message: a bar in place of the composer shows the time; it is sent, or thrown away.

import { round } from '../parts/controls.js';
import { el } from '../parts/dom.js';
import { icon } from '../parts/icons.js';
import { t } from '../parts/words.js';
import { lengthOf } from '../files/sounds.js';

const SECONDS_MAX = 15 * 60;
const BITS_PER_SECOND = 32_000;
const LEVELS = 40;
const LEVEL_MS = 50;
const SILENCE = 0.01; // a room without a voice
const ENDINGS = { 'audio/webm': 'webm', 'audio/mp4': 'm4a', 'audio/ogg': 'ogg' };

/** Listen how loud a stream is. `end()` returns it as LEVELS digits, the loudest is 9. */
function meterOf(stream) {
  const context = new AudioContext();
  const analyser = new AnalyserNode(context, { fftSize: 2048 });
  context.createMediaStreamSource(stream).connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  const peaks = [];
  const clock = setInterval(() => {
    analyser.getFloatTimeDomainData(samples);
    peaks.push(samples.reduce((most, one) => Math.max(most, Math.abs(one)), 0));
  }, LEVEL_MS);
  const end = () => {
    clearInterval(clock);
    context.close();
    const loudest = peaks.reduce((most, one) => Math.max(most, one), SILENCE);
    const levelAt = (at) => peaks[Math.floor((at * peaks.length) / LEVELS)] ?? 0;
    return Array.from({ length: LEVELS }, (_, at) => Math.round((9 * levelAt(at)) / loudest)).join('');
  };
  return { end };
}

/**
 * Begin to record in the place of a composer. Resolves with what ends it, once the microphone is open.
 * @param done(file, seconds, isSent, levels) gets the recording, or null where it was thrown away. It is neither where the
 *   microphone went away: the recording is kept, and not sent
 */
export async function recordVoice(place, done) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const recorder = new MediaRecorder(stream, { audioBitsPerSecond: BITS_PER_SECOND });
  const meter = meterOf(stream);
  const pieces = [];
  const begun_ms = performance.now();
  let seconds = 0;
  let wish = null; // 'sent' or 'thrown'
  const time = el('span.recording-time', { role: 'timer' }, lengthOf(0));
  const send = el('button.send', { type: 'button', 'aria-label': t('sendVoice'), title: t('sendVoice'), onclick: () => end(true) }, icon('send'));
  const bar = el('div.recording', { role: 'group', 'aria-label': t('recording'), onkeydown: (event) => key(event) },
    round(t('discard'), 'trash', () => end(false)), el('span.recording-dot', { 'aria-hidden': 'true' }), time,
    el('span.recording-word', null, t('recording')), send);
  const tick = () => {
    seconds = Math.min(SECONDS_MAX, (performance.now() - begun_ms) / 1000);
    time.textContent = lengthOf(seconds);
    if (seconds >= SECONDS_MAX && recorder.state === 'recording') recorder.pause(); // it waits to be sent
  };
  const clock = setInterval(tick, 250);
  const end = (isSent) => {
    if (recorder.state === 'inactive') return;
    tick();
    wish = isSent ? 'sent' : 'thrown';
    recorder.stop();
  };
  const key = (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    end(false);
  };
  recorder.addEventListener('dataavailable', ({ data }) => pieces.push(data));
  recorder.addEventListener('stop', () => {
    clearInterval(clock);
    const levels = meter.end();
    for (const track of stream.getTracks()) track.stop();
    bar.remove();
    place.classList.remove('is-recording');
    const type = recorder.mimeType.split(';')[0] || 'audio/webm';
    done(wish === 'thrown' ? null : new File(pieces, `voice.${ENDINGS[type] ?? 'audio'}`, { type }), seconds, wish === 'sent', levels);
  });
  place.classList.add('is-recording');
  place.append(bar);
  recorder.start();
  send.focus();
  return () => end(false);
}
