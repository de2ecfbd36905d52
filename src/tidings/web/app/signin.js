// The first screen: with --dev a name is enough, otherwise the user enters a token of the team's backend.

import { el } from './dom.js';
import { logo } from './icons.js';
import { devToken, idOf, isDev, Session } from './session.js';

/** Show the screen; resolves with a session. `note` says why the user is here again. */
export function signIn(place, note = null) {
  return new Promise((resolve) => {
    const card = el('div.entry-card', { 'aria-busy': 'true' }, logo(), heading('Tidings', 'One moment'));
    place.replaceChildren(el('main.entry', null, card, links()));
    isDev().then((isOpen) => {
      card.removeAttribute('aria-busy');
      const form = isOpen ? nameForm(resolve) : tokenForm(resolve);
      const lead = isOpen ? 'Pick any name. Open a second tab to be somebody else.' : 'Sign in with your token.';
      card.replaceChildren(logo(), heading('Welcome to Tidings', lead), note ? el('p.note', null, note) : '', form);
      form.querySelector('input, textarea').focus();
    });
  });
}

/** Ask before a link replaces the sign-in of another user; resolves with the session that the user wants. */
export function chooseSession(place, known, given) {
  return new Promise((resolve) => {
    const stay = el('button.primary', { type: 'button', onclick: () => resolve(known) }, `Stay ${known.userId}`);
    const change = el('button.plain', { type: 'button', onclick: () => resolve(given) }, `Sign in as ${given.userId}`);
    const lead = `You are signed in as ${known.userId}. This link signs this tab in as ${given.userId}. `
      + 'Whoever made the link may read what you write there.';
    place.replaceChildren(el('main.entry', null,
      el('div.entry-card', null, logo(), heading('Sign in as somebody else?', lead), stay, change)));
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
    if (!id) throw new Error('At least one letter of a to z, or a digit.');
    const session = new Session(await devToken(id), id);
    return { session, name: name === id ? null : name };
  };
  return formOf(el('div.field', null, el('label', { for: 'name' }, 'Your name'), input), 'Continue', open, resolve);
}

function tokenForm(resolve) {
  const submit = (event) => {
    if (event.key !== 'Enter') return;
    event.preventDefault(); // a token is one line, however many lines show it
    event.target.form.requestSubmit();
  };
  const facts = { id: 'token', name: 'token', required: true, spellcheck: 'false', autocomplete: 'off', onkeydown: submit };
  const input = el('textarea', facts);
  const hint = el('p.hint', null, 'Your own backend makes it, or: tidings token create --user ann');
  const open = async () => ({ session: new Session(input.value.trim()), name: null });
  return formOf(el('div.field', null, el('label', { for: 'token' }, 'Token'), input, hint), 'Sign in', open, resolve);
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

function links() {
  const known = document.getElementById('links').content.cloneNode(true);
  return el('footer.links', { 'aria-label': 'For developers' }, known);
}
