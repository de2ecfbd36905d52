// Notifications of this browser. The page asks for them after the first answer to the user, in a line with a button,
// never at the start. A message notifies when the page is not in view and the conversation is not muted, unless
// another device of the user reads it at once. A reply notifies those who follow its thread. Where the browser takes push, the service worker shows it instead.

import { el } from './parts/dom.js';
import { icon } from './parts/icons.js';
import { plainOf } from './parts/text.js';
import { t } from './parts/words.js';
import { chime } from './sound.js';

const CHOICE = 'tidings.notify'; // 'on', 'off', or nothing: not asked yet
const LATE_MS = 15_000; // an older message was missed while the page was away; the badge tells it
const WAIT_MS = 1200; // another device that looks marks it as read within this time

export class Notifier {
  /** @param on { open(conversation, threadSeq) } */
  constructor(client, profiles, on) {
    this.client = client;
    this.profiles = profiles;
    this.on = on;
    this.element = el('section.ask', { 'aria-label': t('notifications'), hidden: true });
    this.push = null; // loaded where notifications are wanted, or not wanted any more
    this._unreadThreads = new Set(); // `placeOf` of each
    client.on('thread', ({ conversation, threadSeq, unreadCount }) => this._counted(placeOf(conversation, threadSeq), unreadCount));
    client.on('state', ({ state }) => state === 'connected' && this.isOn && this._push((push) => push.begin()));
    client.on('message', ({ conversation, message }) => this._came(conversation, message));
  }

  get isOn() {
    return choice() === 'on' && isPossible() && Notification.permission === 'granted';
  }

  menuItem() {
    if (!isPossible() || Notification.permission === 'denied') return null;
    return this.isOn
      ? { icon: 'muted', label: t('notifyOff'), run: () => this.turnOff() }
      : { icon: 'bell', label: t('notifyOn'), run: () => this.turnOn() };
  }

  async turnOn() {
    this.element.hidden = true;
    const answer = await Notification.requestPermission();
    choose(answer === 'granted' ? 'on' : 'off');
    if (this.isOn) await this._push((push) => push.begin());
  }

  async turnOff() {
    choose('off');
    await this.endPush();
  }

  endPush() {
    return this._push((push) => push.end());
  }

  /** Without the script the tab notifies by itself; the next start tries again. */
  async _push(run) {
    const part = await import('./push.js').catch(() => null);
    if (part) await run((this.push ??= new part.PushTarget(this.client)));
  }

  _came(conversation, message) {
    if (message.mine) this._isWriting = true;
    if (message.mine || message.kind !== 'message' || message.silent || message.hidden) return;
    if (this.client.now() - (message.sentAt ?? 0) > LATE_MS) return;
    if (choice() === null && this._isWriting) this._offer(); // an answer: now a person knows what it is good for
    const isLooking = document.visibilityState === 'visible' && document.hasFocus();
    if (!this.isOn || this.push?.isOn || isLooking || conversation.muted || conversation.requested || conversation.invited) return;
    setTimeout(() => this._show(conversation, message), WAIT_MS);
  }

  /** Only those who follow a thread are told of its count. */
  _counted(place, unreadCount) {
    if (unreadCount) this._unreadThreads.add(place);
    else this._unreadThreads.delete(place);
  }

  /** Show it, unless another device has read it meanwhile. */
  _show(conversation, message) {
    const threadSeq = message.alsoHere ? null : message.threadSeq; // a reply in its thread alone
    const place = placeOf(conversation, threadSeq);
    const isUnread = threadSeq ? this._unreadThreads.has(place) : conversation.readSeq < message.seq && conversation.unreadCount;
    if (!isUnread) return;
    const name = this.profiles.nameOf(message.senderId);
    const title = conversation.kind === 'direct' ? name : `${name} · ${conversation.name ?? t('kind.group')}`;
    const body = plainOf(message.text ?? '').slice(0, 140) || t('newMessagesLabel');
    chime(); // one sound: the system's own is silent
    const facts = { body, tag: place, renotify: true, silent: true, icon: '/web/app/icon-192.png' };
    const shown = new Notification(title, facts);
    shown.onclick = () => {
      window.focus();
      this.on.open(conversation, threadSeq);
      shown.close();
    };
  }

  /** Ask in a line of the page; the browser's own question follows only on a click. */
  _offer() {
    if (!isPossible() || Notification.permission !== 'default' || !this.element.hidden || this._isOffered) return;
    this._isOffered = true;
    const no = () => {
      choose('off');
      this.element.hidden = true;
    };
    this.element.replaceChildren(el('div.ask-line', null, icon('bell'), el('span', null, t('notifyAsk')),
      el('button', { type: 'button', onclick: () => this.turnOn() }, t('notifyYes')),
      el('button', { type: 'button', onclick: no }, t('notifyNo'))));
    this.element.hidden = false;
  }
}

const placeOf = ({ id }, threadSeq) => (threadSeq ? `${id}/${threadSeq}` : id);

const isPossible = () => 'Notification' in window && isSecureContext;

function choice() {
  try {
    return localStorage.getItem(CHOICE);
  } catch {
    return 'off';
  }
}

function choose(value) {
  try {
    localStorage.setItem(CHOICE, value);
  } catch {
    // Storage is forbidden: nothing is shown, nothing is asked again.
  }
}
