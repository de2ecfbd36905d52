// The admin page: signing in with an API key, the list of views, and the view that the address names.

import { el, setText } from '../app/parts/dom.js';
import { logo } from '../app/parts/icons.js';
import { Api } from './api.js';
import { mark } from './marks.js';
import { pill, sentenceOf } from './parts.js';
import * as audit from './view_audit.js';
import * as cold from './view_cold.js';
import * as conversations from './view_conversations.js';
import * as doctor from './view_doctor.js';
import * as keys from './view_keys.js';
import * as nodes from './view_nodes.js';
import * as overview from './view_overview.js';
import * as push from './view_push.js';
import * as rejects from './view_rejects.js';
import * as reports from './view_reports.js';
import * as settings from './view_settings.js';
import * as users from './view_users.js';
import * as webhooks from './view_webhooks.js';

const VIEWS = {
  overview: ['Overview', overview],
  nodes: ['Nodes', nodes],
  users: ['Users', users],
  conversations: ['Conversations', conversations],
  reports: ['Reports', reports],
  webhooks: ['Webhooks', webhooks],
  keys: ['Keys', keys],
  rejects: ['Rejects', rejects],
  audit: ['Audit', audit],
  push: ['Push', push],
  cold: ['Cold tier', cold],
  settings: ['Settings', settings],
  doctor: ['Doctor', doctor],
};

const place = document.getElementById('app');

async function start() {
  const kept = Api.given() ?? Api.kept();
  if (kept) {
    try {
      run(kept, await signedIn(kept));
      return;
    } catch (error) {
      if (error.status === 401 || error.status === 403) kept.forget();
      signIn(error.status ? 'That key is not valid any more.' : 'This node does not answer just now.');
      return;
    }
  }
  signIn(null);
}

/** The owner of the key. A moderator's key may do nothing but decide reports, and so does not learn who it is. */
async function signedIn(api) {
  try {
    return await api.look('me');
  } catch (error) {
    if (error.status !== 403) throw error;
    await api.look('reports?limit=1');
    return { name: 'moderator', role: 'moderator', is_dev: false };
  }
}

const ROLES = { admin: ['admin', 'accent'], readonly: ['read only', 'plain'], moderator: ['moderator', 'warn'], bot: ['bot', 'plain'] };

function signIn(note) {
  document.title = 'Sign in · Tidings admin';
  const input = el('input', { id: 'key', name: 'key', type: 'password', required: true, autocomplete: 'off', spellcheck: 'false' });
  const fault = el('p.fault', { role: 'alert' }, note ?? '');
  const submit = async (event) => {
    event.preventDefault();
    fault.textContent = '';
    const api = new Api(input.value.trim());
    try {
      const me = await signedIn(api);
      api.keep();
      run(api, me);
    } catch (error) {
      fault.textContent = error.status === 401 || error.status === 403
        ? 'That is not a valid API key.' : 'This node does not answer just now.';
      input.select();
    }
  };
  const form = el('form', { onsubmit: submit },
    el('div.field', null, el('label', { for: 'key' }, 'API key'), input,
      el('p.hint', null, 'tidings key create --name ops makes one, with the data folder and settings of this node; --role readonly to look only. A clone has the command in .venv/bin.')),
    fault, el('button.primary', { type: 'submit' }, 'Sign in'));
  place.replaceChildren(el('main.entry', null, el('div.entry-card', null, logo(),
    el('div', null, el('h1', null, 'Tidings admin'), el('p.lead', null, 'The key stays in this tab.')), form)));
  input.focus();
}

function run(api, me) {
  const main = el('main.view', { id: 'view' });
  const views = me.role === 'moderator' ? { reports: VIEWS.reports } : VIEWS;
  const first = Object.keys(views)[0];
  const links = Object.entries(views).map(([name, [title]]) => el('a', { href: `#/${name}` }, mark(name), el('span', null, title)));
  const leave = (note) => {
    shown?.stop?.();
    removeEventListener('hashchange', show);
    api.forget();
    signIn(note);
  };
  const side = el('aside.side', null,
    el('a.brand', { href: `#/${first}`, 'aria-label': 'Tidings admin' }, logo(), el('span', null, 'Tidings', el('small', null, 'admin'))),
    el('nav', { 'aria-label': 'Views' }, ...links),
    el('div.whoami', null,
      el('div', null, el('strong', null, me.name), pill(...ROLES[me.role])),
      el('button.quiet-button', { type: 'button', onclick: () => leave(null) }, mark('out'), 'Sign out')));
  const banner = el('p.lost', { role: 'status' });
  place.replaceChildren(el('a.skip', { href: '#view', onclick: (event) => {
    event.preventDefault();
    main.querySelector('h1')?.focus();
  } }, 'Skip to content'), el('div.frame', null, side, el('div.pane', { tabindex: 0 }, banner, main)));
  const context = {
    api,
    me,
    /** Show an error of a polling view, or clear it with null. */
    heard: (error) => {
      if (error?.status === 401) leave('That key is not valid any more.');
      else setText(banner, error ? `${sentenceOf(error)} Trying again…` : '');
    },
  };
  let shown = null;
  let isFirst = true;

  function show() {
    const [, name = '', id = ''] = location.hash.split('/');
    const view = Object.hasOwn(views, name) ? name : first;
    shown?.stop?.();
    for (const link of links) {
      if (link.hash === `#/${view}`) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    document.title = `${views[view][0]} · Tidings admin`;
    main.className = `view view-${view}`;
    shown = views[view][1].show(main, context, decodeURIComponent(id));
    main.parentElement.scrollTop = 0;
    if (!isFirst) main.querySelector('h1')?.focus({ preventScroll: true });
    isFirst = false;
    links.find((link) => link.hasAttribute('aria-current'))?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }
  addEventListener('hashchange', show);
  show();
}

start();
