// Small drawings for the views: strokes in the colour of the text, 24 units wide. Beside them, SVG elements in general.

const SVG = 'http://www.w3.org/2000/svg';

const STROKES = {
  overview: ['M4 19V5', 'M4 19h16', 'M7.5 15l3.5-4 3 2.5L19.5 7'],
  nodes: ['M5 4.5h14v6H5zM5 13.5h14v6H5z', 'M8 7.5h.01M8 16.5h.01M11.5 7.5H16M11.5 16.5H16'],
  users: ['M12 11.5a3.8 3.8 0 1 0 0-7.6 3.8 3.8 0 0 0 0 7.6z', 'M4.8 20c.7-3.6 3.4-5.5 7.2-5.5s6.5 1.9 7.2 5.5'],
  conversations: ['M5 5h14a1.5 1.5 0 0 1 1.5 1.5v8.5a1.5 1.5 0 0 1-1.5 1.5h-8L6.5 20v-3.5H5A1.5 1.5 0 0 1 3.5 15V6.5A1.5 1.5 0 0 1 5 5z', 'M8 9h8M8 12.5h5'],
  rejects: ['M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17z', 'M6 6l12 12'],
  audit: ['M6.5 3.5h8l3.5 3.5v13.5h-11.5z', 'M9 11h6M9 14.5h6M9 7.5h3'],
  push: ['M6.5 16.5c-.8 0-1.2-.9-.7-1.5 1-1.3 1.2-2.7 1.2-4.5a5 5 0 0 1 10 0c0 1.8.2 3.2 1.2 4.5.5.6.1 1.5-.7 1.5z', 'M10 19.5a2.1 2.1 0 0 0 4 0'],
  reports: ['M6 21V4', 'M6 4.5h11.5l-2.5 4 2.5 4H6'],
  webhooks: ['M9.5 14.5l5-5', 'M11 7.5l2-2a4 4 0 0 1 5.6 5.6l-2 2', 'M13 16.5l-2 2a4 4 0 0 1-5.6-5.6l2-2'],
  keys: ['M8 11.5a4 4 0 1 1 0 8 4 4 0 0 1 0-8z', 'M11 13L19.5 4.5M16 8l3 3'],
  cold: ['M12 3v18M4.2 7.5l15.6 9M19.8 7.5l-15.6 9', 'M9.5 4.5L12 7l2.5-2.5M9.5 19.5L12 17l2.5 2.5'],
  settings: ['M4 7h9M17 7h3M4 17h3M11 17h9', 'M15 4.8a2.2 2.2 0 1 1 0 4.4 2.2 2.2 0 0 1 0-4.4zM9 14.8a2.2 2.2 0 1 1 0 4.4 2.2 2.2 0 0 1 0-4.4z'],
  doctor: ['M3.5 12.5h4l2-5.5 4 11 2.5-5.5h4.5'],
  out: ['M14 4.5H6.5v15H14', 'M11 12h9.5M17 8.5l3.5 3.5-3.5 3.5'],
  search: ['M11 4.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13z', 'M16 16l4 4'],
  again: ['M19.5 12a7.5 7.5 0 1 1-2.2-5.3', 'M19.5 3.5v4h-4'],
  check: ['M5 12.5l4.5 4.5L19 7.5'],
  warn: ['M12 4l8.5 15h-17z', 'M12 10v4M12 16.5v.01'],
};

/** An element of SVG with its attributes and children. */
export function svg(name, facts = null, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(facts ?? {})) if (value !== null) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function mark(name) {
  const facts = { viewBox: '0 0 24 24', class: 'icon', 'aria-hidden': 'true', focusable: 'false' };
  return svg('svg', facts, ...STROKES[name].map((d) => svg('path', { d })));
}
