// Pictures over the whole page: arrows go to the next one, Escape closes.

import { round } from '../parts/controls.js';
import { el } from '../parts/dom.js';
import { t } from '../parts/words.js';

/** @param views FileViews; pictures of one message; at: the one to begin with */
export function openLightbox(views, conversation, pictures, at) {
  let place = at;
  const image = el('img', { alt: '' });
  const name = el('p', { dir: 'auto' });
  const step = (by) => show((place + by + pictures.length) % pictures.length);
  const isSeveral = pictures.length > 1;
  const save = async () => {
    const { fileId, name: file } = pictures[place];
    const url = await views.link(conversation, fileId, true).catch(() => null);
    if (url) el('a', { href: url, download: file, rel: 'noopener' }).click();
  };
  const dialog = el('dialog.lightbox', { 'aria-label': t('picture'), onkeydown: (event) => key(event) },
    el('header', null, name, round(t('download'), 'download', save), round(t('close'), 'close', () => dialog.close())),
    isSeveral ? round(t('previousPicture'), 'left', () => step(-1), { 'data-way': 'back' }) : null,
    image,
    isSeveral ? round(t('nextPicture'), 'right', () => step(1), { 'data-way': 'on' }) : null);
  const show = (to) => {
    place = to;
    const file = pictures[place];
    name.textContent = isSeveral ? `${file.name} (${place + 1} / ${pictures.length})` : file.name;
    image.alt = file.name;
    image.removeAttribute('src');
    views.picture(conversation, file.fileId).then((url) => { if (file === pictures[place]) image.src = url; }, () => {});
  };
  const key = (event) => {
    if (isSeveral && event.key === 'ArrowLeft') step(-1);
    else if (isSeveral && event.key === 'ArrowRight') step(1);
  };
  dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  show(at);
}
