// The own name and picture, who may write, quiet hours, and the people whom the user has blocked.

import { avatarOf } from '../parts/avatar.js';
import { field, formOf, ownId, personRow } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { t } from '../parts/words.js';

/** The form comes after the profile: a late answer would overwrite what is typed, and an early "Save" what is stored. */
export async function showProfile(client, profiles) {
  const fault = faultLine();
  const dialog = openDialog(t('yourProfile'), fault.line);
  let known = null;
  if (!(await fault.guard(async () => { known = await client.getProfile(client.userId); }))) return;
  const name = el('input', { id: 'profile-name', maxlength: 100, dir: 'auto', autocomplete: 'name', value: known.name ?? '' });
  const picture = el('input', {
    id: 'profile-url', type: 'text', inputmode: 'url', placeholder: 'https://', autocomplete: 'photo', value: known.avatarUrl ?? '',
  });
  const face = el('div');
  const draw = () => face.replaceChildren(avatarOf({ id: client.userId, name: name.value, url: picture.value || null }));
  const chosen = el('input', { type: 'file', accept: 'image/*', hidden: true, tabindex: -1, 'aria-hidden': 'true' });
  chosen.addEventListener('change', () => fault.guard(async () => {
    const profile = await client.putPicture(chosen.files[0]);
    profiles.learn(profile);
    picture.value = profile.avatarUrl ?? '';
    draw();
  }));
  const submit = async () => {
    const asked = { name: name.value.trim() || null, avatarUrl: picture.value.trim() || null };
    const put = async () => {
      if (asked.avatarUrl && !/^(?:https:\/\/|\/v1\/pictures\/)[^\s<>"']+$/u.test(asked.avatarUrl)) throw new Error(t('badPicture'));
      profiles.learn(await client.putProfile(asked));
    };
    if (await fault.guard(put)) dialog.close();
  };
  const upload = el('button.plain', { type: 'button', onclick: () => chosen.click() }, t('choosePicture'));
  const form = formOf(submit, ownId(client.userId), el('div.own-picture', null, face, upload, chosen),
    field('profile-name', t('name'), name, t('nameHint')),
    field('profile-url', t('pictureAddress'), picture), fault.line,
    el('div.dialog-foot', null, el('button.primary', { type: 'submit' }, t('save'))));
  draw();
  dialog.querySelector('.dialog-body').replaceWith(form);
  name.focus();
}

const WHO = ['anybody', 'shared', 'nobody'];
const NIGHT = { days: [1, 2, 3, 4, 5, 6, 7], from: '22:00', to: '07:00' };

/** Who may write, who may add, quiet hours. */
export async function showPreferences(client, profiles) {
  const fault = faultLine();
  const dialog = openDialog(t('preferences'), fault.line);
  const load = () => client.rest('GET', '/v1/preferences');
  let known = null;
  if (!(await fault.guard(async () => { known = await load(); }))) return;
  const write = choice('who-write', t('whoMayWrite'), known.whoMayWrite);
  const add = choice('who-add', t('whoMayAdd'), known.whoMayAdd);
  const quiet = quietFields(known.quiet?.[0], known.quietLets);
  const save = async () => {
    const kept = { time_zone: known.timeZone, quiet: known.quiet, quiet_lets: known.quietLets, badge: known.badge };
    const body = { ...kept, who_may_write: write.select.value, who_may_add: add.select.value, ...quiet.value() };
    if (await fault.guard(() => client.rest('PUT', '/v1/preferences', body))) dialog.close();
  };
  const form = formOf(save, write.element, add.element, quiet.element, blockList(client, profiles, fault), fault.line,
    el('div.dialog-foot', null, el('button.primary', { type: 'submit' }, t('save'))));
  dialog.querySelector('.dialog-body').replaceWith(form);
  write.select.focus();
}

function choice(id, label, value) {
  const options = WHO.map((one) => el('option', { value: one, selected: one === (value ?? 'anybody') }, t(`who.${one}`)));
  const select = el('select', { id }, ...options);
  return { select, element: field(id, label, select) };
}

/** The first period of quiet hours; the page knows one. */
function quietFields(known, lets = 'mentions') {
  const on = el('input', { type: 'checkbox', id: 'quiet', checked: Boolean(known) });
  const from = el('input', { type: 'time', 'aria-label': t('from'), value: known?.from ?? NIGHT.from });
  const to = el('input', { type: 'time', 'aria-label': t('to'), value: known?.to ?? NIGHT.to });
  const mentions = el('input', { type: 'checkbox', id: 'quiet-lets', checked: lets === 'mentions' });
  const times = el('div.quiet-facts', { hidden: !known }, el('div.times', null, from, el('span', null, '–'), to),
    el('label.check', { for: 'quiet-lets' }, mentions, t('quietLets')));
  on.addEventListener('change', () => { times.hidden = !on.checked; });
  const value = () => {
    if (!on.checked) return known ? { quiet: [] } : {};
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const period = { days: known?.days ?? NIGHT.days, from: from.value, to: to.value };
    return { time_zone: zone, quiet: [period], quiet_lets: mentions.checked ? 'mentions' : 'nothing' };
  };
  const element = el('div.field', null, el('label.check', { for: 'quiet' }, on, t('quietHours')), times,
    el('p.hint', null, t('quietHint')));
  return { value, element };
}

function blockList(client, profiles, fault) {
  const list = el('ul.people', { 'aria-label': t('blocked') });
  const place = el('div', { hidden: true }, el('h3.people-title', null, t('blocked')), list);
  const draw = async () => {
    const blocks = await client.blocks();
    place.hidden = !blocks.length;
    list.replaceChildren(...blocks.map(({ userId }) => personRow(profiles.of(userId), {
      action: el('button.plain', { type: 'button', onclick: () => lift(userId) }, t('unblock')),
    })));
  };
  const lift = (userId) => fault.guard(() => client.unblock(userId).then(draw));
  fault.guard(draw);
  return place;
}
