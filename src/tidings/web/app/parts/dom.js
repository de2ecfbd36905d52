// Elements from plain values. Children are nodes or text, never markup: the text of a message, a name or a preview
// stays text.

/** `el('button.primary', { type: 'button', onclick: run }, 'Send')`: a tag with classes, properties, children. */
export function el(tag, props, ...children) {
  const [name, ...classes] = tag.split('.');
  const made = document.createElement(name);
  if (classes.length) made.className = classes.join(' ');
  for (const [key, value] of Object.entries(props ?? {})) set(made, key, value);
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== false) made.append(child);
  return made;
}

function set(made, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
  else if (key === 'value' || key === 'hidden' || key === 'disabled') made[key] = value;
  else made.setAttribute(key, value === true ? '' : value);
}

/** Change the DOM only where the text differs: a screen reader and the layout notice every write. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** Call `run` at most once per frame, however often it is requested. Hidden tabs have no frames, so a timer helps. */
export function perFrame(run) {
  let isDue = false;
  const once = () => {
    if (!isDue) return;
    isDue = false;
    run();
  };
  return () => {
    if (isDue) return;
    isDue = true;
    if (document.visibilityState === 'visible') requestAnimationFrame(once);
    else setTimeout(once, 50);
  };
}

export const isReducedMotion = () => matchMedia('(prefers-reduced-motion: reduce)').matches;
