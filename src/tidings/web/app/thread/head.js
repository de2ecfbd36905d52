// The head of a conversation: its people, whether they are online or typing, and its actions.

import { avatarOf } from '../parts/avatar.js';
import { round } from '../parts/controls.js';
import { el, setText } from '../parts/dom.js';
import { countOf, lastSeenOf, listOf, typingOf } from '../parts/format.js';
import { icon } from '../parts/icons.js';
import { titleOf } from '../inbox/row.js';
import { t } from '../parts/words.js';
import { mutedWord } from './mute.js';
import { TOGETHER_MAX } from '../people/profiles.js';

export class ThreadHead {
  /** @param on { back(), find(), members(), menu(button), changed() } */
  constructor(client, profiles, on) {
    this.client = client;
    this.profiles = profiles;
    this._changed = on.changed;
    this.conversation = null;
    this.details = null;
    this._picture = el('span');
    this._name = el('span.thread-name', { dir: 'auto' });
    this._muteWord = el('span.quiet');
    this._mute = el('span.thread-mute', { hidden: true }, icon('muted'), this._muteWord);
    this._state = el('p.thread-state');
    const who = el('button.thread-who', { type: 'button', onclick: () => on.members() }, this._picture,
      el('div', null, el('h2', null, this._name, this._mute), this._state), el('span.quiet', null, t('members')));
    const more = round(t('conversationMenu'), 'more', () => on.menu(more));
    more.setAttribute('aria-haspopup', 'menu');
    const back = round(t('backToConversations'), 'back', () => on.back());
    back.classList.add('back');
    this.element = el('header.thread-head', null, back, who, round(t('searchMessages'), 'search', () => on.find()), more);
    for (const event of ['online', 'offline']) addEventListener(event, () => this.refresh());
    this._clock = setInterval(() => this.refresh(), 30_000);
  }

  /** Show the known facts at once, and the rest when the server has answered. */
  async use(conversation) {
    this.conversation = conversation;
    this.details = null;
    this._shown = null;
    this.refresh();
    await this.reload();
  }

  async reload() {
    const { conversation } = this;
    if (!conversation) return;
    const turn = (this._turn = {});
    try {
      const details = await conversation.details();
      if (turn !== this._turn || conversation !== this.conversation) return; // a later answer is on its way
      this.details = details;
      this.profiles.setMembers(conversation, this.others());
      this.profiles.want(conversation, this.others().slice(0, TOGETHER_MAX));
      this._changed();
      await this.client.fetchPresence(conversation.id, this.others().slice(0, TOGETHER_MAX));
    } catch {
      // Without a connection the head shows the facts of the inbox; the next connection asks again.
    }
    if (conversation === this.conversation) this.refresh();
  }

  others() {
    return (this.details?.members ?? []).map((one) => one.userId).filter((id) => id !== this.client.userId);
  }

  get kind() {
    return this.conversation?.kind ?? this.details?.kind ?? 'direct';
  }

  get title() {
    if (this.conversation.name) return this.conversation.name;
    const others = this.others().map((id) => this.profiles.nameOf(id));
    if (this.kind === 'direct') return others[0] ?? titleOf(this.conversation);
    return this.details?.name || listOf(others, 3) || titleOf(this.conversation);
  }

  refresh() {
    if (!this.conversation) return;
    const { conversation, title, kind } = this;
    setText(this._name, title);
    this._mute.hidden = !conversation.muted;
    this._mute.title = mutedWord(conversation, this.client.now());
    setText(this._muteWord, this._mute.title);
    const picture = [title, kind, conversation.avatarUrl].join('\u0001');
    if (picture !== this._shown) {
      const id = kind === 'direct' ? title : conversation.id;
      this._picture.replaceChildren(avatarOf({ id, name: title, kind, url: conversation.avatarUrl, size: 'small' }));
      this._shown = picture;
    }
    this._say();
  }

  _say() {
    const [text, name] = this._sentence();
    setText(this._state, text);
    this._state.className = `thread-state${name ? ` ${name}` : ''}`;
  }

  _sentence() {
    const { conversation, kind } = this;
    const typists = conversation.typing.map((id) => this.profiles.nameOf(id));
    if (typists.length) return [typingOf(typists, kind), 'is-typing'];
    const others = this.others();
    if (!this.details) return ['', ''];
    const isConnected = this.client.state === 'connected' && navigator.onLine; // without a connection presence is unknown
    const online = others.filter((id) => isConnected && this.client.presence(id)?.online);
    if (kind === 'direct') {
      if (!isConnected) return ['', ''];
      if (online.length) return [t('online'), 'is-online'];
      return [lastSeenOf(this.client.presence(others[0])?.lastSeen, this.client.now()), ''];
    }
    const isCounted = isConnected && others.length <= TOGETHER_MAX; // of a larger group, only some people are asked about
    const members = countOf(this.details.members.length, 'membersCount');
    return [isCounted && online.length ? t('membersOnline', { members, n: online.length + 1 }) : members, '']; // and the user
  }
}
