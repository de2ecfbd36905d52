// One row of a conversation as elements. parts/text.js makes nodes of its text; nothing becomes markup.

import { avatarOf } from '../parts/avatar.js';
import { el } from '../parts/dom.js';
import { badgeOf, countOf, momentOf, timeOf, tintOf } from '../parts/format.js';
import { icon, tick, tickLabel } from '../parts/icons.js';
import { textNodes } from '../parts/text.js';
import { t } from '../parts/words.js';
import { drawPoll, pollOf } from './poll.js';
import { quickReactions, reactionPills } from './reactions.js';
import { whenOf } from './rows.js';
import { dots } from './signs.js';

const EMOJI_ONLY = /^(?:(?:\p{RI}{2}|\p{Extended_Pictographic}(?:[\u{FE0F}\u{1F3FB}-\u{1F3FF}]|\u{200D}\p{Extended_Pictographic})*)\s*){1,3}$/u;

/** Fill `element` with a row of rows.js. `files(message)` draws its files; `on` is { receipts, retry, menu, reply, react, vote, pickReaction, jump(seq), expand }. */
export function drawRow(element, row, drawing) {
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.part : null;
  element.removeAttribute('tabindex');
  if (row.kind === 'message') drawMessage(element, row, drawing);
  else drawLine(element, row);
  if (focused) element.querySelector(`[data-part="${focused}"]`)?.focus({ preventScroll: true });
}

function drawLine(element, { kind, value, start }) {
  element.className = `line ${kind}-line`;
  if (kind === 'start') element.replaceChildren(el('strong', { dir: 'auto' }, start.title), el('p', null, start.text));
  else element.replaceChildren(el('span', { dir: 'auto' }, value));
}

function drawMessage(element, row, { isDirect, ownId, on, files }) {
  const { value: message, isFirst, isLast, isShown } = row;
  const isFailed = message.state === 'failed';
  const isForMe = row.mentions.has(ownId) || row.mentions.has('all') || row.mentions.has('here');
  const claims = { mine: message.mine, first: isFirst, last: isLast, direct: isDirect, failed: isFailed, shown: isShown,
    'for-me': isForMe && !message.mine, streaming: isStreaming(message) };
  const classes = Object.keys(claims).filter((name) => claims[name]).map((name) => `is-${name}`);
  element.className = ['message', ...classes].join(' ');
  element.tabIndex = -1;
  element.dataset.key = message.key;
  if (message.seq !== null) element.dataset.seq = message.seq;
  const poll = pollOf(message);
  const text = poll ? drawPoll(message, poll, (at) => on.vote(message, poll, at)) : textOf(row, ownId);
  const words = el('div.words', null, text, factsOf(row, isDirect, on));
  words.classList.toggle('is-flow', isFlow(row, text)); // the time stands in the last line of the text
  const bubble = el('div.bubble', null, senderOf(row, isDirect), replyLine(row, on), forwardLine(message), quoteOf(row, on), files(message), words, cardOf(message));
  const stack = el('div.bubble-stack', null, bubble, reactionPills(message, on), threadLine(row, on));
  const body = el('div.message-body', null, stack, barOf(message, on));
  if (message.mine || isDirect) element.replaceChildren(body);
  else element.replaceChildren(el('div.message-avatar', null, isLast ? personOf(row.sender) : ''), body);
}

const BLOCKS = 'div, ul, blockquote, button';
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufefc]/u;

/** Whether a text is lines alone, in one direction. */
const isFlow = ({ value, isCut }, text) => !isCut && !text.classList.contains('is-big') && !text.classList.contains('is-waiting')
  && !text.querySelector(BLOCKS) && !RIGHT_TO_LEFT.test(value.text ?? '') && !text.classList.contains('is-empty');

/** Whether a message is being written while it is read. */
const isStreaming = ({ stream, deleted }) => stream === 'streaming' && !deleted;

const personOf = ({ name, url }) => avatarOf({ id: name, name, url, size: 'small' });

/** The sender: spoken with every message, visible at the start of a group of messages in a larger conversation. */
function senderOf({ value: message, isFirst, sender }, isDirect) {
  if (message.mine) return el('span.quiet', null, t('youSaid'));
  if (!isFirst || isDirect) return el('span.quiet', null, `${sender.name}: `);
  return el(`span.sender.ink-${tintOf(sender.name)}`, { dir: 'auto', title: sender.id }, sender.name);
}

/** Below a root: how many replies there are, and how many are new. A press opens the thread. */
function threadLine({ thread, value }, on) {
  if (!thread?.replies) return null;
  const { replies, lastSentAt, unreadCount } = thread;
  const unread = unreadCount ? [el('span.badge', { 'aria-hidden': 'true' }, badgeOf(unreadCount)), el('span.quiet', null, t('unreadCount', { n: unreadCount }))] : [];
  return el('button.thread-line', { type: 'button', tabindex: -1, 'data-part': 'thread', onclick: () => on.thread(value.seq) },
    icon('thread'), el('span', null, countOf(replies, 'repliesCount')), el('span.thread-when', null, timeOf(lastSentAt)), ...unread);
}

/** Above a reply that was sent to the conversation too. */
function replyLine({ isReply, value }, on) {
  if (!isReply) return null;
  const open = () => on.thread(value.threadSeq);
  return el('button.in-thread', { type: 'button', tabindex: -1, 'data-part': 'in-thread', onclick: open }, icon('thread'), t('inThread'));
}

/** Above a forwarded message: who wrote it first, in the word of the person who forwarded it. */
function forwardLine({ data, deleted, hidden }) {
  const name = data?.forwarded?.name;
  if (deleted || hidden || typeof name !== 'string' || !name) return null;
  return el('span.forwarded', { title: t('forwardedHint') }, icon('forward'), el('span', { dir: 'auto' }, t('forwardedFrom', { name })));
}

/** The quoted message; a press goes to it. */
function quoteOf({ quote, value }, on) {
  if (!quote || value.deleted) return null;
  const facts = { type: 'button', tabindex: -1, 'data-part': 'quote', onclick: () => on.jump(quote.seq) };
  return el(`button.quote${quote.name ? `.ink-${tintOf(quote.name)}` : ''}`, facts,
    el('strong', { dir: 'auto' }, quote.name), el('span', { dir: 'auto' }, quote.line));
}

function textOf(row, ownId) {
  const { value: message } = row;
  if (message.hidden) return el('div.text.is-gone', null, t('hiddenMessage'));
  if (message.unavailable) return el('div.text.is-gone', null, t('unavailableMessage'));
  if (message.deleted || message.text === null) return el('div.text.is-gone', null, t('deletedMessage'));
  if (message.files?.length && (!message.text || isLength(message))) return el('div.text.is-empty');
  if (!message.text && isStreaming(message)) return el('div.text.is-waiting', null, dots(), el('span.quiet', null, t('writing')));
  const nodes = textNodes(message.text, { query: row.query, mentions: row.mentions, ownId });
  const made = el('div.text', { dir: 'auto' }, ...nodes);
  if (EMOJI_ONLY.test(message.text.trim())) made.classList.add('is-big');
  if (row.isCut) made.classList.add('is-cut');
  return made;
}

/** Whether the text of a voice message says its length and nothing more: the player shows it. */
const isLength = ({ text, data }) => Boolean(data?.voice) && /^🎤 \d{1,2}:\d\d$/u.test(text);

/** The card of a link, from the data that the sending application added. The server and the page fetch nothing. */
function cardOf({ data, deleted }) {
  const link = data?.link;
  if (deleted || typeof link?.url !== 'string' || !/^https?:\/\//u.test(link.url) || !URL.canParse(link.url)) return null;
  const said = (value) => (typeof value === 'string' ? value : '');
  const facts = { href: link.url, target: '_blank', rel: 'noopener noreferrer nofollow', tabindex: -1 };
  return el('a.card', facts, el('span.card-site', null, new URL(link.url).hostname),
    el('strong', { dir: 'auto' }, said(link.title) || link.url), el('span', { dir: 'auto' }, said(link.text)));
}

function factsOf(row, isDirect, on) {
  const { value: message } = row;
  const when = whenOf(message);
  const facts = el('div.facts', null,
    row.isCut ? el('button.more-text', { type: 'button', 'data-part': 'expand', tabindex: -1, onclick: () => on.expand(message) },
      t('readMore')) : null,
    message.pinned && !message.deleted ? signOf('pin', t('pinned')) : null,
    row.isSaved && !message.deleted ? signOf('bookmark', t('saved')) : null,
    message.stream === 'interrupted' && !message.deleted ? el('span', null, t('interrupted')) : null,
    message.editedAt && !message.deleted ? el('span', null, t('edited')) : null,
    el('time', { datetime: new Date(when).toISOString(), title: momentOf(when) }, timeOf(when)));
  if (message.state) facts.append(ticksOf(row, isDirect, on));
  if (message.state === 'failed') {
    const retry = { type: 'button', 'data-part': 'retry', onclick: () => on.retry(message) };
    facts.append(el('button.retry', retry, t('retry')));
  }
  return facts;
}

const signOf = (name, label) => el('span.pin-mark', { title: label }, icon(name), el('span.quiet', null, label));

/** The state by shape, colour and word. A press shows the receipts of each member, once the server has the message. */
function ticksOf({ value: message, isWorded, waits_s }, isDirect, on) {
  const { state } = message;
  const label = labelOf(message, isDirect);
  const isSeen = isWorded || state === 'failed' || waits_s !== null;
  const said = waits_s === null ? tickLabel(state) : t('sendsAgain', { n: waits_s });
  const word = el(isSeen ? 'span.tick-word' : 'span.quiet', null, said);
  if (message.seq === null) return el('span.ticks', { title: label, 'data-state': state }, tick(state), word);
  return el('button.ticks', {
    type: 'button', tabindex: -1, title: label, 'aria-label': `${label}. ${t('whoHasRead')}`, 'data-state': state,
    'data-part': 'ticks', onclick: () => on.receipts(message),
  }, tick(state), word);
}

function labelOf({ state, error }, isDirect) {
  const label = tickLabel(state);
  if (state === 'failed' && error) return `${label}: ${error.message}`;
  if (isDirect || (state !== 'delivered' && state !== 'read')) return label;
  return t(`tick.${state}All`);
}

/** The buttons beside a message. */
function barOf(message, on) {
  const more = el('button.round.message-more', {
    type: 'button', tabindex: -1, 'aria-label': t('messageMenu'), title: t('messageMenu'), 'aria-haspopup': 'menu',
    'data-part': 'more', onclick: () => on.menu(more, message),
  }, icon('more'));
  const isWhole = message.seq !== null && !message.deleted && message.kind === 'message';
  const reply = isWhole ? el('button.round.message-reply', {
    type: 'button', tabindex: -1, 'aria-label': t('reply'), title: t('reply'), 'data-part': 'reply',
    onclick: () => on.reply(message),
  }, icon('reply')) : null;
  const react = isWhole && on.mayReact() ? el('button.round.message-react', {
    type: 'button', tabindex: -1, 'aria-label': t('react'), title: t('react'), 'data-part': 'react', 'aria-haspopup': 'dialog',
    onclick: () => on.pickReaction(react, message),
  }, icon('smile')) : null;
  const thread = isWhole && !message.threadSeq ? el('button.round.message-thread', {
    type: 'button', tabindex: -1, 'aria-label': t('replyInThread'), title: t('replyInThread'), 'data-part': 'open-thread',
    onclick: () => on.thread(message.seq),
  }, icon('thread')) : null;
  return el('div.message-bar', null, ...(react ? quickReactions(message, on) : []), react, reply, thread, more);
}
