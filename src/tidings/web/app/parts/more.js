// The button below a list that loads its next page.

import { el } from './dom.js';
import { t } from './words.js';

/** A second press while a page is under way does nothing: it would load the same page twice. */
export function moreButton(load) {
  let isLoading = false;
  const run = async () => {
    if (isLoading) return;
    isLoading = true;
    await load();
    isLoading = false;
  };
  return el('button.plain', { type: 'button', hidden: true, onclick: run }, t('showMore'));
}
