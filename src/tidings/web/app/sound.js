// A short sound for a message that nobody looks at. The browser makes it, so no file is loaded.

const TONES = [[659, 0], [880, 0.11]]; // Hz, and when it begins in seconds
const LENGTH_S = 0.22;
const LOUDNESS = 0.06;

let context = null;

/** Play it. A browser that allows no sound before the first click stays silent. */
export function chime() {
  if (typeof AudioContext === 'undefined') return;
  context ??= new AudioContext();
  if (context.state === 'suspended') context.resume().catch(() => {});
  for (const [pitch, at] of TONES) play(pitch, context.currentTime + at);
}

function play(pitch, from) {
  const tone = context.createOscillator();
  const volume = context.createGain();
  tone.frequency.value = pitch;
  volume.gain.setValueAtTime(LOUDNESS, from);
  volume.gain.exponentialRampToValueAtTime(0.0001, from + LENGTH_S);
  tone.connect(volume).connect(context.destination);
  tone.start(from);
  tone.stop(from + LENGTH_S);
}
