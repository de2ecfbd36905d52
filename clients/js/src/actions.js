/** The actions of a user in a conversation that go over REST. Conversation extends it. */
import { newId } from './runtime.js';

export class Actions {
  async edit(seq, text, { data } = {}) {
    await this._client._rest.send('PATCH', `${this._path}/messages/${seq}`, { text, data, message_id: newId() }, true);
  }

  async delete(seq) {
    await this._client._rest.send('DELETE', `${this._path}/messages/${seq}`, { message_id: newId() }, true);
  }

  /** React to a message; the same reaction twice is once. Resolves with its reactions then. */
  async react(seq, key, on = true) {
    const answer = await this._client._ask('reaction', { conversation_id: this.id, seq, key, on });
    return answer.reactions ?? {};
  }

  unreact(seq, key) {
    return this.react(seq, key, false);
  }

  /** List who reacted to a message: key -> user ids. */
  async reactions(seq) {
    const found = {};
    for (let cursor = null; ; ) {
      const query = cursor === null ? '' : `?${new URLSearchParams({ cursor })}`;
      const path = `${this._path}/messages/${seq}/reactions${query}`;
      const page = await this._client._rest.send('GET', path, undefined, true);
      for (const { key, user_ids: userIds } of page.reactions) (found[key] ??= []).push(...userIds);
      cursor = page.nextCursor;
      if (cursor === null) return found;
    }
  }

  /** Pin a message for everybody, or take the pin away. */
  async pinMessage(seq, on = true) {
    await this._client._rest.send(on ? 'PUT' : 'DELETE', `${this._path}/messages/${seq}/pin`, undefined, true);
  }

  /** The pinned messages, the latest pinned first. */
  async pins() {
    return (await this._client._rest.send('GET', `${this._path}/pins`, undefined, true)).pins;
  }

  /** Keep a text that is not sent yet, on all devices; '' removes it. Where another device was first, the error has the
   *  newer draft, and so has the conversation. */
  async putDraft(text) {
    const body = { text, version: this.draft?.version ?? 0 };
    try {
      this._takeDraft(await this._client._rest.send('PUT', `/v1/drafts/${encodeURIComponent(this.id)}`, body, true));
    } catch (error) {
      if (error.draft) this._takeDraft(error.draft);
      throw error;
    }
    return this.draft;
  }

  /** Say why the unread count is what it is, reason by reason. */
  explainUnread() {
    const path = `/v1/unread/explain?conversation_id=${encodeURIComponent(this.id)}`;
    return this._client._rest.send('GET', path, undefined, true);
  }

  /** Take a draft, unless a newer one is known. */
  _takeDraft({ text, version }) {
    if (version <= this._draftVersion) return false;
    this._draftVersion = version;
    this.draft = text ? { text, version } : null;
    this._client.inbox._keep(this, { draft: this.draft });
    return true;
  }

  /** The files of the conversation, newest first. */
  files({ kind, limit, cursor } = {}) {
    const query = queryOf({ kind, limit, cursor });
    return this._client._rest.send('GET', `${this._path}/files${query}`, undefined, true);
  }

  /** A URL of a file that lives a minute and needs no token: for an image, a video, or a link to save it. */
  async fileUrl(fileId, { download = false } = {}) {
    const path = `${this._path}/files/${encodeURIComponent(fileId)}?link=1${download ? '&download=1' : ''}`;
    const { _rest: rest } = this._client;
    return rest.absolute((await rest.send('GET', path, undefined, true)).url);
  }

  receipts(seq, { limit, cursor } = {}) {
    const query = queryOf({ limit, cursor });
    return this._client._rest.send('GET', `${this._path}/messages/${seq}/receipts${query}`, undefined, true);
  }

  details() {
    return this._detailed('GET', this._path, undefined, true);
  }

  async profiles(userIds) {
    const query = userIds ? `?${new URLSearchParams({ user_ids: userIds.join(',') })}` : '';
    return (await this._client._rest.send('GET', `${this._path}/profiles${query}`, undefined, true)).profiles;
  }

  update({ name, avatarUrl }) {
    return this._detailed('PATCH', this._path, { name, avatar_url: avatarUrl }, true);
  }

  members({ limit, cursor } = {}) {
    const query = queryOf({ limit, cursor });
    return this._client._rest.send('GET', `${this._path}/members${query}`, undefined, true);
  }

  addMembers(userIds) {
    return this._detailed('POST', `${this._path}/members`, { user_ids: userIds });
  }

  setRole(userId, role) {
    return this._detailed('PATCH', `${this._path}/members/${encodeURIComponent(userId)}`, { role }, true);
  }

  async removeMember(userId) {
    await this._client._rest.send('DELETE', `${this._path}/members/${encodeURIComponent(userId)}`);
  }

  async accept() {
    const details = await this._detailed('PUT', `${this._path}/accept`, undefined, true);
    Object.assign(this, { requested: false, invited: false });
    this._client.inbox._changed(null);
    return details;
  }

  leave() {
    return this.removeMember(this._client.userId);
  }

  async destroy() {
    await this._client._rest.send('DELETE', this._path);
  }

  mute(muted = true) {
    return this._flag({ muted });
  }

  pin(pinned = true) {
    return this._flag({ pinned });
  }

  archive(archived = true) {
    return this._flag({ archived });
  }

  async _detailed(method, path, body, isIdempotent) {
    const details = await this._client._rest.send(method, path, body, isIdempotent);
    const { kind, name, avatarUrl } = details;
    Object.assign(this, kind === 'direct' ? { kind } : { kind, name, avatarUrl }); // the inbox names a direct one
    if (details.head === 0) this._log.begin(0);
    return details;
  }

  async _flag(flags) {
    const row = await this._client._rest.send('PATCH', `/v1/inbox/${encodeURIComponent(this.id)}`, flags, true);
    if (this.removed) return; // an event overtook the answer
    this._takeNewRow(row);
    this._client.inbox._changed(this);
  }
}

function queryOf(fields) {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null);
  return given.length ? `?${new URLSearchParams(given)}` : '';
}
