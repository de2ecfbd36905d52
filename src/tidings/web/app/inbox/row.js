// One row of the inbox: who, when, and what was last said, by whom, and how far it came.

import { avatarOf } from '../parts/avatar.js';
import { el } from '../parts/dom.js';
import { badgeOf, numberOf, shortWhen, typingOf } from '../parts/format.js';
import { icon, tick, tickLabel } from '../parts/icons.js';
import { plainOf } from '../parts/text.js';
import { t } from '../parts/words.js';

const UNNAMED = new Set(['channel', 'group']);

export const titleOf = (one) => one.name || (UNNAMED.has(one.kind) ? t(`kind.${one.kind}`) : one.id);

export class Rows {
  /** @param draftOf(conversation) the text that waits in its composer */
  constructor(client, profiles, draftOf) {
    this.client = client;
    this.profiles = profiles;
    this.draftOf = draftOf;
  }

  titleOf(one) {
    const isUnnamed = !one.name && UNNAMED.has(one.kind);
    return (isUnnamed ? this.profiles.titleOf(one) : null) ?? titleOf(one);
  }

  /** Everything that a row shows: a row with the same mark is not drawn again. */
  markOf(one, isCurrent) {
    return [this.titleOf(one), one.avatarUrl, one.lastMessagePreview, one.lastMessageTs, one.unreadCount, one.unreadCapped,
      one.muted, one.pinned, one.archived, isCurrent, this._typistsOf(one).join(), this._isOnline(one), one.mentionCount,
      one.requested, one.invited, this._facts(one).join('\u0002')].join('\u0001');
  }

  draw(one, isCurrent) {
    const name = this.titleOf(one);
    const picture = avatarOf({ id: one.kind === 'direct' ? name : one.id, name, kind: one.kind ?? 'direct', url: one.avatarUrl });
    if (this._isOnline(one)) picture.append(el('span.dot'));
    return [
      picture,
      el('div.row-facts', null,
        el('div.row-line', null,
          el('span.row-name', { dir: 'auto' }, name),
          one.muted ? el('span.row-muted', null, icon('muted'), el('span.quiet', null, t('muted'))) : null,
          this._when(one)),
        el('div.row-line', null, this._preview(one, isCurrent), marksOf(one))),
    ];
  }

  _when(one) {
    const ms = this._waiting(one)?.ts ?? one.lastMessageTs;
    return ms ? el('span.row-when', null, shortWhen(ms, this.client.now())) : null;
  }

  /** The names of the people who type. */
  _typistsOf(one) {
    if (one.typing.length && one.kind !== 'direct') this.profiles.want(one, one.typing);
    return one.typing.map((id) => this.profiles.nameOf(id));
  }

  /** Whether the other side of a direct conversation is here. Without a connection nobody knows. */
  _isOnline(one) {
    if (one.kind !== 'direct' || this.client.state !== 'connected') return false;
    const id = this.profiles.peerOf(one);
    return Boolean(id && this.client.presence(id)?.online);
  }

  /** The own message that has no place in the log yet: it stands for the last one. */
  _waiting(one) {
    return one.unsentCount ? one.messages.findLast((message) => message.seq === null && (!message.threadSeq || message.alsoHere)) : null;
  }

  _facts(one) {
    const waiting = this._waiting(one);
    const { senderId, deleted, files } = one.lastMessage ?? {};
    const said = this.profiles.named(one.lastMessagePreview ?? '');
    return [said, waiting?.text, waiting?.state, senderId && this.profiles.nameOf(senderId), deleted, files, this.draftOf(one),
      one.readAllSeq, one.deliveredAllSeq];
  }

  // --- what was last said ---

  _preview(one, isCurrent) {
    const typists = this._typistsOf(one);
    if (typists.length) return line(el('span.typing-word', { dir: 'auto' }, typingOf(typists, one.kind)));
    if (one.requested) return el('span.row-preview.is-none', null, t('requestRow'));
    if (one.invited) return el('span.row-preview.is-none', null, t('invitationRow'));
    const draft = isCurrent ? '' : this.draftOf(one);
    if (draft) return line(el('span.draft-word', null, t('draft')), plainOf(draft));
    const waiting = this._waiting(one);
    if (waiting) return line(markOf(waiting.state), el('span.row-who', null, t('youSaid')), plainOf(waiting.text ?? ''));
    return this._last(one);
  }

  _last(one) {
    if (!one.lastSeq) return el('span.row-preview.is-none', null, t('noMessages'));
    const { senderId = null, deleted = false, files = 0, seq = one.lastSeq } = one.lastMessage ?? {};
    const who = this._who(one, senderId);
    if (deleted) return el('span.row-preview.is-none', { dir: 'auto' }, ...who, t('deletedRow'));
    const text = this.profiles.named(plainOf(one.lastMessagePreview ?? ''));
    const isMine = senderId !== null && senderId === this.client.userId;
    return line(isMine ? this._tick(one, seq) : '', ...who, files ? fileWord(files, text) : text || '…');
  }

  _who(one, senderId) {
    if (senderId === null) return [];
    if (senderId === this.client.userId) return [el('span.row-who', null, t('youSaid'))];
    if (one.kind === 'direct') return [];
    this.profiles.want(one, [senderId]);
    return [el('span.row-who', null, el('bdi', null, this.profiles.nameOf(senderId)), ': ')];
  }

  /** The state of the own last message, once the server has told how far it came. */
  _tick(one, seq) {
    if (!one.deliveredAllSeq && !one.readAllSeq) return '';
    return markOf(seq <= one.readAllSeq ? 'read' : seq <= one.deliveredAllSeq ? 'delivered' : 'sent');
  }
}

const line = (...parts) => el('span.row-preview', { dir: 'auto' }, ...parts);
const markOf = (state) => el('span.row-tick', { 'data-state': state }, tick(state), el('span.quiet', null, tickLabel(state)));

function fileWord(count, text) {
  if (text.startsWith('🎤')) return text; // a voice message says so itself
  return el('span', null, icon('image'), text || t('filesRow', { count, n: numberOf(count) }));
}

function marksOf(one) {
  const marks = el('span.row-marks');
  if (one.pinned) marks.append(icon('pin'), el('span.quiet', null, t('pinned')));
  if (one.archived) marks.append(icon('archive'), el('span.quiet', null, t('archived')));
  if (one.mentionCount) {
    const said = t('mentionsCount', { count: one.mentionCount, n: numberOf(one.mentionCount) });
    marks.append(el('span.badge.badge-mention', { 'aria-hidden': 'true' }, '@'), el('span.quiet', null, said));
  }
  if (one.unreadCount) {
    const said = t(one.unreadCapped ? 'unreadOrMore' : 'unreadCount', { n: numberOf(one.unreadCount) });
    const badge = badgeOf(one.unreadCount, one.unreadCapped);
    marks.append(el('span.badge', { 'aria-hidden': 'true' }, badge), el('span.quiet', null, said));
  } else if (one.requested || one.invited) marks.append(el('span.badge.badge-dot', { 'aria-hidden': 'true' }));
  return marks;
}
