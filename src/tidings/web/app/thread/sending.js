// Writing in a conversation: text, files, answers, mentions and edits, and the count-down of a message that waits.

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
    });
    this.composer = new Composer({
      send: (text, replyTo) => this._send(text, replyTo), edit: (message, text) => this._edit(message, text),
      editLast: () => this._editLast(), typed: () => thread.conversation.keystroke(), lineOf,
      people: () => thread.head.others().map((id) => thread.profiles.of(id)), isGroup: () => thread.head.kind !== 'direct',
      hasFiles: () => !this.attachments.isEmpty,
    });
    this.composer.tools.prepend(this.attachments.button);
    this.composer.above.append(this.attachments.element);
    this.composer.field.addEventListener('paste', (event) => this._paste(event));
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

  _paste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    this.attachments.add(files);
  }

  async _send(text, replyTo) {
    const { thread } = this;
    const { conversation, head, reading } = thread;
    thread.tell(null);
    const options = { replyTo, ...mentionsIn(text, head.others(), head.kind !== 'direct') };
    if (!this.attachments.isEmpty) await this._sendFiles(conversation, text, options);
    else {
      conversation.send(text, options).catch((error) => {
        if (error.code === 'outbox_full') this._giveBack(text, error); // otherwise its row shows the outcome
      });
    }
    if (conversation !== thread.conversation) return;
    reading.divider = null;
    await reading.jumpToNow();
  }

  /** Send a message with files: not before all are uploaded, so it needs a connection and no outbox. */
  async _sendFiles(conversation, text, { replyTo, mentions, mention }) {
    try {
      const files = (await this.attachments.take()).map((one) => one.fileId);
      const body = { message_id: crypto.randomUUID(), text, files, reply_to: replyTo, mentions, mention };
      await this.thread.client.rest('POST', `/v1/conversations/${encodeURIComponent(conversation.id)}/messages`, body);
    } catch (error) {
      this._giveBack(text, error);
    }
  }

  _giveBack(text, error) {
    this.composer.giveBack(text);
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
