// The words of the page. Every text has a key in one table per language: words/en.js, words/de.js and so on. English is
// always there; another table is loaded when the browser asks for its language. A key that a table lacks is English.

import { EN } from '../words/en.js';

export const LANGUAGES = ['de', 'es', 'fr', 'it', 'pt'];
const RIGHT = /^(ar|fa|he|ur)\b/u;

let table = EN;
let rules = new Intl.PluralRules('en');
export const locale = { tag: undefined }; // undefined: the browser's own

/** The text of a key. `{name}` in it stands for a fact. A text with forms is chosen by the fact `count`. */
export function t(key, facts = null) {
  let text = table[key] ?? EN[key] ?? key;
  if (typeof text === 'object') text = text[rules.select(facts.count)] ?? text.other;
  return facts ? text.replace(/\{(\w+)\}/gu, (whole, name) => facts[name] ?? whole) : text;
}

export const has = (key) => key in EN;

/** The first language of the browser that the page speaks. */
export function chosenLanguage(wanted) {
  for (const tag of wanted) {
    const language = tag.toLowerCase().split('-')[0];
    if (language === 'en' || LANGUAGES.includes(language)) return language;
  }
  return 'en';
}

/** Load the table of the browser's language. Without it, or without a connection, the page speaks English. */
export async function chooseWords() {
  const language = chosenLanguage(navigator.languages ?? [navigator.language]);
  if (language !== 'en') {
    try {
      table = (await import(`/web/app/words/${language}.js`)).default;
      rules = new Intl.PluralRules(language);
    } catch {
      return;
    }
  }
  document.documentElement.lang = language;
  if (RIGHT.test(language)) document.documentElement.dir = 'rtl';
}
