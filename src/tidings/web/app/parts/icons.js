// Small drawings as SVG elements, usually 24 units wide, drawn with strokes in the colour of the text.

import { t } from './words.js';

const SVG = 'http://www.w3.org/2000/svg';

const STROKES = {
  back: ['M15 5l-7 7 7 7'],
  plus: ['M12 5v14M5 12h14'],
  search: ['M11 4.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13z', 'M16 16l4 4'],
  send: ['M12 19V5.5', 'M6 11l6-6 6 6'],
  down: ['M6 9.5l6 6 6-6'],
  up: ['M6 14.5l6-6 6 6'],
  close: ['M6 6l12 12M18 6L6 18'],
  more: ['M12 5.5v.01M12 12v.01M12 18.5v.01'],
  people: [
    'M9 11.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7z',
    'M2.8 19.5c.5-3.2 2.9-5 6.2-5s5.7 1.8 6.2 5',
    'M16 4.8a3.3 3.3 0 0 1 0 6.4',
    'M18 14.9c1.8.7 2.9 2.3 3.2 4.6',
  ],
  bell: [
    'M6.5 16.5c-.8 0-1.2-.9-.7-1.5 1-1.3 1.2-2.7 1.2-4.5a5 5 0 0 1 10 0c0 1.8.2 3.2 1.2 4.5.5.6.1 1.5-.7 1.5z',
    'M10 19.5a2.1 2.1 0 0 0 4 0',
  ],
  muted: [
    'M6.5 16.5c-.8 0-1.2-.9-.7-1.5 1-1.3 1.2-2.7 1.2-4.5 0-.9.2-1.7.6-2.4',
    'M9.4 6.2A5 5 0 0 1 17 10.5c0 1.5.1 2.7.7 3.8M15.5 16.5H10',
    'M10 19.5a2.1 2.1 0 0 0 4 0',
    'M4 4l16 16',
  ],
  pin: ['M9 4h6l-.8 5.5 3 3.5H6.8l3-3.5z', 'M12 13v7'],
  unread: [
    'M4 7.5A2.5 2.5 0 0 1 6.5 5H13M4 7.5v9A2.5 2.5 0 0 0 6.5 19h11a2.5 2.5 0 0 0 2.5-2.5V11',
    'M4.5 8l7.5 5 3-2',
    'M18.5 4.5a2 2 0 1 1 0 4 2 2 0 0 1 0-4z',
  ],
  leave: ['M14 5H7.5A1.5 1.5 0 0 0 6 6.5v11A1.5 1.5 0 0 0 7.5 19H14', 'M11 12h9M17 9l3 3-3 3'],
  archive: ['M4 5h16v4H4z', 'M5.5 9v8.5A1.5 1.5 0 0 0 7 19h10a1.5 1.5 0 0 0 1.5-1.5V9', 'M10 12.5h4'],
  trash: ['M5 7h14M10 4h4M7 7l.8 12h8.4L17 7'],
  pencil: ['M5 19l.8-3.8L16 5l3 3L8.8 18.2z'],
  user: ['M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8z', 'M4.8 20c.6-3.7 3.3-5.5 7.2-5.5s6.6 1.8 7.2 5.5'],
  hash: ['M9.5 4.5L8 19.5M16 4.5l-1.5 15M5 9.5h14.5M4.5 14.5H19'],
  signout: ['M10 5H6.5A1.5 1.5 0 0 0 5 6.5v11A1.5 1.5 0 0 0 6.5 19H10', 'M9 12h11M17 9l3 3-3 3'],
  cloud: ['M7 18.5a4 4 0 0 1-.6-7.95 5.5 5.5 0 0 1 10.7-1A4.5 4.5 0 0 1 16.5 18.5z', 'M4 4l16 16'],
  moon: ['M19 14.5A7.5 7.5 0 0 1 9.5 5a7.5 7.5 0 1 0 9.5 9.5z'],
  sun: [
    'M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8z',
    'M12 3v1.5M12 19.5V21M3 12h1.5M19.5 12H21',
    'M5.6 5.6l1.1 1.1M17.3 17.3l1.1 1.1M18.4 5.6l-1.1 1.1M6.7 17.3l-1.1 1.1',
  ],
  copy: ['M9 8.5h9.5v11H9z', 'M6 15.5H5.5v-11H15V5'],
  reply: ['M9.5 7L4.5 12l5 5', 'M5 12h9a5.5 5.5 0 0 1 5.5 5.5v1'],
  thread: ['M5 5.5h14v9.5h-7l-4 4v-4H5z', 'M8.5 9h7M8.5 11.8h4.5'],
  smile: ['M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17z', 'M8.5 14c.8 1.4 2 2.1 3.5 2.1s2.7-.7 3.5-2.1', 'M9 9.6v.01M15 9.6v.01'],
  clip: ['M19 11.5l-7.2 7.2a4.4 4.4 0 0 1-6.2-6.2l7.6-7.6a3 3 0 0 1 4.2 4.2l-7.5 7.5a1.5 1.5 0 0 1-2.1-2.1l6.7-6.7'],
  star: ['M12 4l2.4 5.1 5.6.7-4.1 3.8 1.1 5.5-5-2.8-5 2.8 1.1-5.5L4 9.8l5.6-.7z'],
  bookmark: ['M7 4.5h10v15l-5-3.8-5 3.8z'],
  at: ['M12 8.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7z', 'M15.5 8.8v4.4c0 3 4.5 2.6 4.5-1.2a8 8 0 1 0-3.2 6.4'],
  file: ['M7 4h7l4 4v12H7z', 'M13.5 4v4.5H18'],
  download: ['M12 5v10M7.5 11l4.5 4.5 4.5-4.5', 'M5 19.5h14'],
  list: ['M9 6.5h11M9 12h11M9 17.5h11', 'M4.5 6.5v.01M4.5 12v.01M4.5 17.5v.01'],
  forward: ['M14.5 7l5 5-5 5', 'M19 12h-9a5.5 5.5 0 0 0-5.5 5.5v1'],
  mic: ['M12 4a2.7 2.7 0 0 1 2.7 2.7v4.6a2.7 2.7 0 0 1-5.4 0V6.7A2.7 2.7 0 0 1 12 4z', 'M6.5 11.3a5.5 5.5 0 0 0 11 0M12 16.8V20'],
  play: ['M8.5 5.5l10 6.5-10 6.5z'],
  pause: ['M9 6v12M15 6v12'],
  poll: ['M6 19v-6M12 19V5M18 19v-9'],
  link: ['M10 14a4 4 0 0 0 5.7 0l3-3A4 4 0 0 0 13 5.3l-1 1', 'M14 10a4 4 0 0 0-5.7 0l-3 3A4 4 0 0 0 11 18.7l1-1'],
  flag: ['M6 20V4.5h11l-2 3.8 2 3.7H6'],
  gear: ['M12 9a3 3 0 1 1 0 6 3 3 0 0 1 0-6z', 'M12 3.5l1 2.3 2.4-.7 1.2 2-1.5 2 .9 2 2.5.6v2l-2.5.6-.9 2 1.5 2-1.2 2-2.4-.7-1 2.3h-2l-1-2.3-2.4.7-1.2-2 1.5-2-.9-2-2.5-.6v-2l2.5-.6.9-2-1.5-2 1.2-2 2.4.7 1-2.3z'],
  clock: ['M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16z', 'M12 8v4.3l2.8 1.7'],
  image: ['M4.5 5.5h15v13h-15z', 'M5 16l4.2-4.2 3.3 3.2 2.5-2.4 4 4', 'M15.5 9.2v.01'],
  block: ['M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16z', 'M6.5 6.5l11 11'],
  left: ['M15 5l-7 7 7 7'],
  right: ['M9 5l7 7-7 7'],
  compose: ['M4.5 19.5h15', 'M6 15.5l.7-3L15.5 4l2.5 2.5L9 15z'],
  check: ['M5 12.5l4.5 4.5L19 7.5'],
  bubble: [
    'M5 5h14a2 2 0 0 1 2 2v9a2 2 0 0 1-2 2h-8l-5 3.5V18H5a2 2 0 0 1-2-2V7a2 2 0 0 1 2-2z',
  ],
};

export function icon(name) {
  const drawing = svg(24, 24, `icon icon-${name}`);
  for (const path of STROKES[name]) drawing.append(part('path', { d: path }));
  return drawing;
}

function svg(width, height, name) {
  const drawing = document.createElementNS(SVG, 'svg');
  const facts = { viewBox: `0 0 ${width} ${height}`, class: name, 'aria-hidden': 'true', focusable: 'false' };
  for (const [key, value] of Object.entries(facts)) drawing.setAttribute(key, value);
  return drawing;
}

function part(name, facts) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(facts)) made.setAttribute(key, value);
  return made;
}

// The five states of a message differ in shape before they differ in colour: a clock, one tick, two ticks, two ticks
// on a filled plate, an exclamation mark on a disc.
const TICKS = {
  sending: () => [part('circle', { cx: 10, cy: 8, r: 5.2 }), part('path', { d: 'M10 5v3.2l2.2 1.3' })],
  sent: () => [part('path', { d: 'M5.5 8.4l3 3 6-6.6' })],
  delivered: () => [part('path', { d: 'M2.5 8.4l3 3 6-6.6' }), part('path', { d: 'M9.6 10.6l.9.8 6-6.6' })],
  read: () => [
    part('rect', { x: 0.5, y: 1.5, width: 19, height: 13, rx: 6.5, class: 'plate' }),
    part('path', { d: 'M4 8.2l2.3 2.3 4.7-5.1', class: 'cut' }),
    part('path', { d: 'M9.7 9.9l.7.6 4.7-5.1', class: 'cut' }),
  ],
  failed: () => [
    part('circle', { cx: 10, cy: 8, r: 6.5, class: 'plate' }),
    part('path', { d: 'M10 4.8v3.8M10 11.2v.01', class: 'cut' }),
  ],
};

export const tickLabel = (state) => t(`tick.${state}`);

export function tick(state) {
  const drawing = svg(20, 16, `tick tick-${state}`);
  drawing.append(...TICKS[state]());
  return drawing;
}

/** The mark of the page: two ticks that fly. */
export function logo() {
  const drawing = svg(40, 40, 'logo');
  drawing.append(
    part('rect', { width: 40, height: 40, rx: 11, class: 'logo-plate' }),
    part('path', { d: 'M7.5 21l6.3 6.3L27 12.5', class: 'logo-far' }),
    part('path', { d: 'M17.8 25.4l1.9 1.9L33 12.5', class: 'logo-near' }),
  );
  return drawing;
}
