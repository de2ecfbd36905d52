// The text of a message as elements: code, quotes, lists, bold, italic, links and mentions. Everything is built as
// nodes; a string never becomes markup. What is no known form stays as it was written.

import { round } from './controls.js';
import { el } from './dom.js';
import { t } from './words.js';

const END = '[^\\s<>"\'`.,;:!?)\\]}*_~]';
const LINK = `https?:\\/\\/[^\\s<>"'\`]*${END}`;
const WWW = `(?<![\\p{L}\\p{N}.@/-])www\\.[^\\s<>"'\`]*${END}`;
const MAIL = '(?<![\\w.+@/-])[\\w.+-]{1,64}@[\\w-]{1,63}(?:\\.[\\w-]{1,63})*\\.[a-z]{2,24}(?![\\w-])';
export const MENTION = '@(?<mention>[\\w.@|+:=~-]{1,128})';
const FORMS = new RegExp([
  '`(?<code>[^`\\n]+)`',
  `(?<link>${LINK}|${WWW}|${MAIL})`,
  '\\*\\*(?![\\s*])(?<bold>[^*\\n]+?)(?<!\\s)\\*\\*',
  '(?<![\\p{L}\\p{N}*])\\*(?![\\s*])(?<italic>[^*\\n]+?)(?<![\\s])\\*(?![*\\p{L}\\p{N}])',
  '(?<![\\p{L}\\p{N}_])_(?![\\s_])(?<slanted>[^_\\n]+?)(?<!\\s)_(?![\\p{L}\\p{N}_])',
  '~~(?![\\s~])(?<gone>[^~\\n]+?)(?<!\\s)~~',
  MENTION,
].join('|'), 'giu');

/** Nodes of a message's text. `facts`: { query, mentions: Map of id -> name, ownId }. */
export function textNodes(text, facts = {}) {
  return blocksOf(text).flatMap((block) => drawBlock(block, facts));
}

/** Cut a text into blocks: { kind: 'text' | 'code' | 'quote' | 'list', lines, isNumbered }. */
export function blocksOf(text) {
  const blocks = [];
  const lines = text.split('\n');
  for (let at = 0; at < lines.length; at += 1) {
    const fence = /^\s*```\s*([\w+#-]*)\s*$/u.exec(lines[at]);
    const end = fence ? lines.findIndex((line, place) => place > at && /^\s*```\s*$/u.test(line)) : -1;
    if (end > at) {
      blocks.push({ kind: 'code', lines: lines.slice(at + 1, end), language: fence[1] });
      at = end;
    } else addLine(blocks, lines[at]);
  }
  return blocks;
}

const LINE_FORMS = [
  ['quote', /^> ?(.*)$/u],
  ['list', /^\s{0,3}[-*•] (\S.*)$/u],
  ['numbers', /^\s{0,3}(\d{1,4}[.)] \S.*)$/u],
];

function addLine(blocks, line) {
  const form = LINE_FORMS.find(([, pattern]) => pattern.test(line));
  const kind = form ? form[0] : 'text';
  const said = form ? form[1].exec(line)[1] : line;
  const last = blocks.at(-1);
  if (last?.kind === kind) last.lines.push(said);
  else blocks.push({ kind, lines: [said] });
}

function drawBlock({ kind, lines }, facts) {
  if (kind === 'code') return [codeBlock(lines.join('\n'), facts)];
  if (kind === 'text') return inline(lines.join('\n'), facts);
  if (kind === 'quote') return [el('blockquote', null, ...inline(lines.join('\n'), facts))];
  const items = lines.map((line) => el('li', null, ...inline(line, facts)));
  return [el(kind === 'list' ? 'ul.list' : 'ul.list.is-numbered', null, ...items)];
}

function codeBlock(text, { query }) {
  const copy = round(t('copyCode'), 'copy', () => navigator.clipboard?.writeText(text).then(() => told(copy), () => {}));
  copy.classList.add('code-copy');
  copy.tabIndex = -1;
  return el('div.code', null, el('pre', { dir: 'ltr', tabindex: -1 }, el('code', null, ...marked(text, query))), copy);
}

function told(button) {
  button.classList.add('is-done');
  setTimeout(() => button.classList.remove('is-done'), 1500);
}

function inline(text, facts) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(FORMS)) {
    const made = drawForm(found.groups, facts);
    if (made === null) continue;
    parts.push(...marked(text.slice(end, found.index), facts.query), made);
    end = found.index + found[0].length;
  }
  return [...parts, ...marked(text.slice(end), facts.query)];
}

function drawForm({ code, link, bold, italic, slanted, gone, mention }, facts) {
  if (code !== undefined) return el('code', null, ...marked(code, facts.query));
  if (link !== undefined) return linkOf(link, facts.query);
  if (bold !== undefined) return el('strong', null, ...inline(bold, facts));
  if (italic !== undefined) return el('em', null, ...inline(italic, facts));
  if (slanted !== undefined) return el('em', null, ...inline(slanted, facts));
  if (gone !== undefined) return el('s', null, ...inline(gone, facts));
  return mentionOf(mention, facts);
}

/** A mention of a person who is really mentioned; any other word with @ stays text. */
function mentionOf(word, { mentions, ownId }) {
  const id = namedIn(word, mentions);
  if (!id) return null;
  const isMe = id === ownId || id === 'all' || id === 'here';
  return el('span', null, el(isMe ? 'span.mention.is-me' : 'span.mention', { title: id }, `@${mentions.get(id)}`),
    word.slice(id.length));
}

/** The known id with which a word begins: the stop of a sentence is no part of it, nor what follows a colon. */
export function namedIn(word, known) {
  const id = known?.has(word) ? word : word.replace(/[.@|+:=~-]$|[|+:=~][\w.@-]*\w$/u, '');
  return id && id !== word ? namedIn(id, known) : known?.has(id) && id;
}

function linkOf(text, query) {
  const isMail = !/^(?:https?:|www\.)/iu.test(text);
  const address = isMail ? `mailto:${text}` : /^www\./iu.test(text) ? `https://${text}` : text;
  const href = URL.canParse(address) ? new URL(address).href : null;
  if (href === null || !/^(?:https?|mailto):/u.test(href)) return text;
  const facts = { href, target: isMail ? null : '_blank', rel: 'noopener noreferrer nofollow', tabindex: -1 };
  return el('a', facts, ...marked(text, query));
}

/** Cut a text at the places of a search. */
export function marked(text, query = '') {
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

/** A piece of a text without the signs of bold, struck and code. */
export const withoutSigns = (text) => text.replace(/\*\*|~~|`/gu, '');

/** A text in one line, without the signs of its form: for previews and quotes. */
export function plainOf(text) {
  return withoutSigns(text.replace(/```[\w+#-]*\n?/gu, ' ')).replace(/^> ?/gmu, '')
    .replace(/\s+/gu, ' ').trim();
}
