// All checks of doctor, run on demand: problems first, each with its fix; then the contents of the keyspace.

import { el } from '../app/parts/dom.js';
import { bytes, count, moment } from './figures.js';
import { button, card, fill, fixedTiles, head, pill, table } from './parts.js';

const TONES = { wrong: 'bad', advice: 'warn', unknown: 'plain', ok: 'good' };
const WORDS = { wrong: 'wrong', advice: 'worth a look', unknown: 'unknown', ok: 'fine' };

export function show(place, context) {
  const body = el('div.results', { 'aria-live': 'polite' });
  const run = async () => {
    start.disabled = true;
    body.replaceChildren(el('p.none', null, 'Looking at settings, stores, machine and keys. This takes up to a minute.'));
    await fill(body, () => context.api.look('doctor'), draw);
    start.disabled = false;
  };
  const start = button('Examine now', 'doctor', run, { kind: 'primary' });
  place.replaceChildren(head('Doctor', 'Checks settings, stores, machine and keys of the node that answers, and says what to do.', start), body);
  body.append(el('p.none', null, 'Nothing was examined yet. It reads a little of everything, with SCAN only, and changes nothing.'));
  return null;
}

function draw(report) {
  const counts = Object.fromEntries(Object.keys(WORDS).map((level) => [level, report.findings.filter((one) => one.level === level)]));
  return [
    fixedTiles({
      Wrong: count(counts.wrong.length), 'Worth a look': count(counts.advice.length), Unknown: count(counts.unknown.length),
      Fine: count(counts.ok.length),
    }),
    el('p.hint', null, `Examined ${moment(report.at_ms)}.`),
    el('ul.findings', { 'aria-label': 'Findings' }, ...['wrong', 'advice', 'unknown'].flatMap((level) => counts[level]).map(finding)),
    el('details.card', null, el('summary', null, `${counts.ok.length} checks are fine`), el('ul.findings', null, ...counts.ok.map(finding))),
    ...report.keyspace.map(census),
  ];
}

function finding(one) {
  return el(`li.card.finding.finding-${one.level}`, null,
    el('div.node-head', null, pill(WORDS[one.level], TONES[one.level]), el('code', null, one.name), one.where ? el('small', null, one.where) : null),
    el('p', null, one.says),
    one.fix ? el('p.fix', null, el('strong', null, 'Fix'), el('code', null, one.fix)) : null);
}

function census(one) {
  return card(`Keys of ${one.where}`, el('p.hint', null, `${count(one.keys_seen)} of ${count(one.keys_total)} keys looked at.`),
    table('Families of keys', [['Family'], ['Keys', true], ['Memory', true], ['Bytes an entry', true]],
      one.kinds.map((kind) => [kind.family, count(kind.keys), bytes(kind.bytes), count(Math.round(kind.bytes_each ?? 0))]), 'No keys.'));
}
