// One row of a conversation as elements. Text is inserted as text. Only a web address becomes a link; nothing else is
// interpreted.

import { avatarOf } from './avatar.js';
import { el } from './dom.js';
import { momentOf, timeOf, tintOf } from './format.js';
import { icon, tick, TICK_LABELS } from './icons.js';
import { whenOf } from './rows.js';

const LINK = /https?:\/\/[^\s<>"'`]+[^\s<>"'`.,;:!?)\]}]/giu;
const EMOJI_ONLY = /^(?:\p{Extended_Pictographic}[\u{FE0F}\u{200D}\u{1F3FB}-\u{1F3FF}]*){1,3}$/u;

/** Fill `element` with a row of rows.js. `on` is { receipts(message), retry(message), menu(button, message) }. */
export function drawRow(element, row, { isDirect, on }) {
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.part : null;
  element.removeAttribute('tabindex');
  if (row.kind === 'message') drawMessage(element, row, isDirect, on);
  else drawLine(element, row);
  if (focused) element.querySelector(`[data-part="${focused}"]`)?.focus({ preventScroll: true });
}

function drawLine(element, { kind, value, start }) {
  element.className = `line ${kind}-line`;
  if (kind === 'start') element.replaceChildren(el('strong', { dir: 'auto' }, start.title), el('p', null, start.text));
  else element.replaceChildren(el('span', { dir: 'auto' }, value));
}

function drawMessage(element, row, isDirect, on) {
  const { value: message, isFirst, isLast, isShown } = row;
  const isFailed = message.state === 'failed';
  const claims = { mine: message.mine, first: isFirst, last: isLast, direct: isDirect, failed: isFailed, shown: isShown };
  const classes = Object.keys(claims).filter((name) => claims[name]).map((name) => `is-${name}`);
  element.className = ['message', ...classes].join(' ');
  element.tabIndex = -1;
  element.dataset.key = message.key;
  if (message.seq !== null) element.dataset.seq = message.seq;
  const words = el('div.words', null, textOf(row), factsOf(row, isDirect, on)); // the time stands beside a short text
  const bubble = el('div.bubble', null, senderOf(row, isDirect), words);
  const body = el('div.message-body', null, bubble, moreOf(message, on));
  if (message.mine || isDirect) element.replaceChildren(body);
  else element.replaceChildren(el('div.message-avatar', null, isLast ? personOf(row.sender) : ''), body);
}

const personOf = ({ name, url }) => avatarOf({ id: name, name, url, size: 'small' });

/** The sender: spoken with every message, visible at the start of a group of messages in a larger conversation. */
function senderOf({ value: message, isFirst, sender }, isDirect) {
  if (message.mine) return el('span.quiet', null, 'You: ');
  if (!isFirst || isDirect) return el('span.quiet', null, `${sender.name}: `);
  return el(`span.sender.ink-${tintOf(sender.name)}`, { dir: 'auto', title: sender.id }, sender.name);
}

function textOf({ value: message, query }) {
  if (message.unavailable) return el('div.text.is-gone', null, 'This message cannot be read at the moment');
  if (message.deleted || message.text === null) return el('div.text.is-gone', null, 'This message was deleted');
  const made = el('div.text', { dir: 'auto' }, ...partsOf(message.text, query));
  if (EMOJI_ONLY.test(message.text.trim())) made.classList.add('is-big');
  return made;
}

/** Cut the text into plain pieces, links and search matches. */
export function partsOf(text, query = '') {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(LINK)) {
    parts.push(...marked(text.slice(end, found.index), query), linkOf(found[0], query));
    end = found.index + found[0].length;
  }
  return [...parts, ...marked(text.slice(end), query)];
}

function linkOf(address, query) {
  const href = URL.canParse(address) ? new URL(address).href : null;
  if (href === null || !/^https?:/u.test(href)) return address;
  const facts = { href, target: '_blank', rel: 'noopener noreferrer nofollow', tabindex: -1 };
  return el('a', facts, ...marked(address, query));
}

function marked(text, query) {
  if (!query) return text ? [text] : [];
  const parts = [];
  const low = text.toLocaleLowerCase();
  let end = 0;
  for (let at = low.indexOf(query); at >= 0; at = low.indexOf(query, end)) {
    parts.push(text.slice(end, at), el('mark', null, text.slice(at, at + query.length)));
    end = at + query.length;
  }
  return [...parts, text.slice(end)].filter((part) => part !== '');
}

function factsOf(row, isDirect, on) {
  const { value: message } = row;
  const when = whenOf(message);
  const facts = el('div.facts', null,
    message.editedAt && !message.deleted ? el('span', null, 'edited') : null,
    el('time', { datetime: new Date(when).toISOString(), title: momentOf(when) }, timeOf(when)));
  if (message.state) facts.append(ticksOf(row, isDirect, on));
  if (message.state === 'failed') {
    const retry = { type: 'button', 'data-part': 'retry', onclick: () => on.retry(message) };
    facts.append(el('button.retry', retry, 'Retry'));
  }
  return facts;
}

/** The state by shape, colour and word. A press shows the receipts of each member, once the server has the message. */
function ticksOf({ value: message, isWorded }, isDirect, on) {
  const { state } = message;
  const label = labelOf(message, isDirect);
  const isSeen = isWorded || state === 'failed';
  const word = el(isSeen ? 'span.tick-word' : 'span.quiet', null, TICK_LABELS[state]);
  if (message.seq === null) return el('span.ticks', { title: label, 'data-state': state }, tick(state), word);
  return el('button.ticks', {
    type: 'button', tabindex: -1, title: label, 'aria-label': `${label}. Who has read it`, 'data-state': state,
    'data-part': 'ticks', onclick: () => on.receipts(message),
  }, tick(state), word);
}

function labelOf({ state, error }, isDirect) {
  const label = TICK_LABELS[state];
  if (state === 'failed' && error) return `${label}: ${error.message}`;
  if (isDirect || (state !== 'delivered' && state !== 'read')) return label;
  return `${label} ${state === 'read' ? 'by' : 'to'} everyone`;
}

function moreOf(message, on) {
  const made = el('button.round.message-more', {
    type: 'button', tabindex: -1, 'aria-label': 'Message menu', 'aria-haspopup': 'menu', 'data-part': 'more',
    onclick: () => on.menu(made, message),
  }, icon('more'));
  return made;
}
