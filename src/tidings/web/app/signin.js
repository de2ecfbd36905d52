// The first screen. With --dev a name is enough. Otherwise the team's own login signs people in (`login_url`); where the
// operator has named none, the user enters a token of the team's backend.

import { el } from './parts/dom.js';
import { logo } from './parts/icons.js';
import { t } from './parts/words.js';
import { devToken, idOf, isDev, Session } from './session.js';

/** Show the screen; resolves with a session. `note` says why the user is here again. */
export function signIn(place, note = null) {
  return new Promise((resolve) => {
    const card = el('div.entry-card', { 'aria-busy': 'true' }, logo(), heading('Tidings', t('oneMoment')));
    const screen = el('main.entry', null, card);
    place.replaceChildren(screen);
    isDev().then((isOpen) => {
      card.removeAttribute('aria-busy');
      const [lead, form] = wayIn(isOpen, resolve);
      card.replaceChildren(logo(), heading(t('welcome'), lead), note ? el('p.note', { role: 'status' }, note) : '', form);
      if (isOpen) screen.append(links());
      form.querySelector('input, textarea, a')?.focus();
    });
  });
}

function wayIn(isOpen, resolve) {
  if (isOpen) return [t('pickName'), nameForm(resolve)];
  const url = loginUrl();
  if (url === null) return [t('signInWithToken'), tokenForm(resolve)];
  return [t('signInToGoOn'), el('form', null, el('a.primary.as-button', { href: url }, t('signIn')))];
}

/** The address of the team's login; it gets the present address, to come back to. */
function loginUrl() {
  const given = document.querySelector('meta[name="login-url"]')?.content;
  if (!given || !URL.canParse(given, location.href)) return null;
  const url = new URL(given, location.href);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return null;
  url.searchParams.set('return_to', location.href);
  return url.href;
}

/** Ask before a link replaces the sign-in of another user; resolves with the session that the user wants. */
export function chooseSession(place, known, given) {
  return new Promise((resolve) => {
    const stay = el('button.primary', { type: 'button', onclick: () => resolve(known) }, t('stayAs', { id: known.userId }));
    const change = el('button.plain', { type: 'button', onclick: () => resolve(given) }, t('signInAs', { id: given.userId }));
    const lead = t('otherSession', { known: known.userId, given: given.userId });
    place.replaceChildren(el('main.entry', null,
      el('div.entry-card', null, logo(), heading(t('signInAsOther'), lead), stay, change)));
    stay.focus();
  });
}

function heading(title, lead) {
  return el('div', null, el('h1', null, title), el('p.lead', null, lead));
}

function nameForm(resolve) {
  const input = el('input', { id: 'name', name: 'name', autocomplete: 'username', maxlength: 64, required: true });
  const open = async () => {
    const name = input.value.trim();
    const id = idOf(name);
    if (!id) throw new Error(t('nameNeedsLetter'));
    const session = new Session(await devToken(id), id);
    return { session, name: name === id ? null : name };
  };
  return formOf(el('div.field', null, el('label', { for: 'name' }, t('yourName')), input), t('continue'), open, resolve);
}

function tokenForm(resolve) {
  const submit = (event) => {
    if (event.key !== 'Enter') return;
    event.preventDefault(); // a token is one line, however many lines show it
    event.target.form.requestSubmit();
  };
  const facts = { id: 'token', name: 'token', required: true, spellcheck: 'false', autocomplete: 'off', onkeydown: submit };
  const input = el('textarea', facts);
  const hint = el('p.hint', null, t('tokenHint'));
  const open = async () => ({ session: new Session(input.value.trim()), name: null });
  return formOf(el('div.field', null, el('label', { for: 'token' }, t('token')), input, hint), t('signIn'), open, resolve);
}

function formOf(field, action, open, resolve) {
  const fault = el('p.fault', { role: 'alert' });
  const button = el('button.primary', { type: 'submit' }, action);
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const entry = await open();
      entry.session.keep();
      resolve(entry);
    } catch (error) {
      fault.textContent = error.message;
      button.disabled = false;
    }
  };
  return el('form', { onsubmit: submit }, field, fault, button);
}

/** For developers, who are the only ones to see this screen with --dev. */
function links() {
  const known = document.getElementById('links').content.cloneNode(true);
  return el('footer.links', { 'aria-label': t('forDevelopers') }, known);
}
