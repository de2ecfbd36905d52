// The two pills over a conversation: one leads to the first unread message, the other to the newest one.

import { pill } from '../parts/controls.js';
import { el, setText } from '../parts/dom.js';
import { badgeOf, countOf, unreadOf } from '../parts/format.js';
import { t } from '../parts/words.js';

export class Pills {
  /** @param on { unread(), now() } */
  constructor(on) {
    this._unreadText = el('span');
    this._nowText = el('span');
    this.unread = pill('pill-unread', 'up', this._unreadText, () => on.unread());
    this.now = pill('pill-now', 'down', this._nowText, () => on.now());
  }

  hide() {
    this.unread.hidden = this.now.hidden = true;
  }

  /** `divider` is null unless unread messages lie above. `isNow`: the newest message is in view. */
  show(divider, isNow, { unreadCount, unreadCapped }) {
    this.unread.hidden = !divider;
    if (divider) setText(this._unreadText, unreadOf(divider));
    this.now.hidden = isNow;
    const count = unreadCount ?? 0;
    setText(this._nowText, count ? t('newCount', { n: badgeOf(count, unreadCapped) }) : '');
    const label = t('jumpNewestCount', { said: countOf(count, 'newMessages') });
    this.now.setAttribute('aria-label', count ? label : t('jumpNewest'));
  }
}
