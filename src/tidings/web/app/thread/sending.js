// Writing in a conversation: text, files, answers, mentions and edits, and the count-down of a message that waits.

import { later } from '../parts/later.js';
import { t } from '../parts/words.js';
import { Attachments, listenToDrops } from '../files/attach.js';
import { Composer } from '../writing/composer.js';
import { mentionsIn } from '../writing/suggest.js';
import { lineOf } from './quotes.js';
import { isHere } from './replies.js';

export class Sending {
  /** @param thread { client, profiles, conversation, head, reading, render(), tell(error) } */
  constructor(thread) {
    this.thread = thread;
    this.attachments = new Attachments(thread.client, {
      changed: () => this.composer?.refit(), tell: (error) => thread.tell(error), conversation: () => thread.conversation,
      poll: () => this._poll(),
    });
    this.composer = new Composer({
      send: (...said) => this._send(...said), edit: (message, text) => this._edit(message, text),
      editLast: () => this._editLast(), typed: () => thread.conversation.keystroke(), lineOf,
      people: () => thread.head.others().map((id) => thread.profiles.of(id)), isGroup: () => thread.head.kind !== 'direct',
      hasFiles: () => !this.attachments.isEmpty,
    });
    this.attachments.joinTo(this.composer);
  }

  /** Take files that are dropped on an element. */
  listen(element) {
    listenToDrops(element, (files) => this.thread.conversation && this.attachments.add(files));
  }

  use(drafts) {
    this.composer.use(drafts);
  }

  close() {
    clearInterval(this._clock);
    this.composer.escape();
    this.attachments.clear();
  }

  reply(message) {
    this.composer.answer(message, message.mine ? t('you') : this.thread.profiles.nameOf(message.senderId));
  }

  async _send(text, replyTo, data) {
    const { thread } = this;
    const { conversation, head, reading } = thread;
    thread.tell(null);
    const options = { replyTo, data, ...mentionsIn(text, head.others(), head.kind !== 'direct') };
    await this.attachments.send(conversation, text, options, (error) => this._giveBack(data ? '' : text, error));
    if (conversation !== thread.conversation) return;
    reading.divider = null;
    await reading.jumpToNow();
  }

  /** A poll is a message by itself: files that wait stay where they are. */
  async _poll() {
    const { thread } = this;
    const part = await later(() => import('./newpoll.js'), (error) => thread.tell(error));
    part?.newPoll(async (text, data) => {
      thread.conversation.send(text, { data }).catch((error) => error.code === 'outbox_full' && thread.tell(error));
      await thread.reading.jumpToNow();
    });
  }

  _giveBack(text, error) {
    if (text) this.composer.giveBack(text);
    this.thread.tell(error);
  }

  _edit(message, text) {
    const { thread } = this;
    thread.conversation.edit(message.seq, text).catch((error) => thread.tell(error));
  }

  _editLast() {
    const isEditable = (one) => one.mine && one.seq !== null && !one.deleted && one.kind === 'message' && isHere(one);
    const last = this.thread.conversation.messages.findLast(isEditable);
    if (last) this.composer.edit(last);
  }

  /** Seconds until the limiter lets the next message through; null when nothing waits for it. */
  waits_s() {
    const { retryAt } = this.thread.conversation;
    const rest_s = retryAt === null ? 0 : Math.ceil((retryAt - Date.now()) / 1000);
    return rest_s > 1 ? rest_s : null; // a shorter wait is over before it is read
  }

  countDown() {
    clearInterval(this._clock);
    this.thread.render();
    if (this.thread.conversation.retryAt === null) return;
    this._clock = setInterval(() => this.thread.render(), 1000);
  }
}
