// Names and pictures of people, by user id. The server tells them to whoever shares a conversation: what is missing is
// asked for together and each person once, what was told is kept for a while. Until it is known the id is shown.

import { listOf } from './format.js';

export const TOGETHER_MAX = 100; // the server's limit per question
const KEPT_MAX = 5000; // people, and questions
const ASKING_MAX = 4; // groups whose members are asked for at a time; the next ones when these are drawn
const FRESH_MS = 600_000; // whoever is seen again after this long may have another name
const AGAIN_MS = 10_000; // a question that could not be answered is not asked again before

export class Profiles {
  constructor(client) {
    this._client = client;
    this._known = new Map(); // user id -> { name, url, at }
    this._quiet = new Map(); // conversation and user id -> until when it is not asked for
    this._members = new Map(); // conversation id -> the others in it
    this._asking = 0;
    this._listeners = new Set();
    client.on('entry', ({ conversation, entry }) => entry.kind === 'member' && this._doubt(conversation));
  }

  /** How somebody is shown. */
  of(id) {
    const { name = null, url = null } = this._known.get(id) ?? {};
    return { id, name: name || id, url };
  }

  nameOf(id) {
    return this.of(id).name;
  }

  /** `run` is called when somebody is shown in another way; the answer ends it. */
  onChange(run) {
    this._listeners.add(run);
    return () => this._listeners.delete(run);
  }

  learn(...profiles) {
    const before = profiles.map(({ userId }) => JSON.stringify(this.of(userId)));
    for (const { userId, name, avatarUrl } of profiles) {
      this._known.delete(userId); // the latest last: the first one makes room
      put(this._known, userId, { name, url: avatarUrl, at: performance.now() });
    }
    const isChanged = profiles.some(({ userId }, place) => JSON.stringify(this.of(userId)) !== before[place]);
    if (isChanged) this._tell();
  }

  _tell() {
    for (const run of [...this._listeners]) run();
  }

  /** Asks for those of whom nothing is known. Whoever cannot be asked for now is asked for when drawn again. */
  async want(conversation, ids) {
    const missing = [...new Set(ids)].filter((id) => id && this._isMissing(conversation, id));
    if (!missing.length) return;
    for (const id of missing) this._hush(keyOf(conversation, id), FRESH_MS);
    const answers = await Promise.all(inPieces(missing).map((some) => this._ask(conversation, some)));
    this.learn(...answers.flat());
  }

  /** A group without a name is called by its members; null until they are known. */
  titleOf(conversation) {
    const others = this._members.get(conversation.id);
    this._askMembers(conversation);
    return others?.length ? listOf(others.map((id) => this.nameOf(id)), 3) : null;
  }

  setMembers(conversation, others) {
    put(this._members, conversation.id, others);
    this._hush(keyOf(conversation, ''), FRESH_MS);
  }

  /** Somebody came or went: asked for again when drawn, and until then called as before. */
  _doubt(conversation) {
    if (this._quiet.delete(keyOf(conversation, ''))) this._tell();
  }

  async _askMembers(conversation) {
    const key = keyOf(conversation, '');
    if (this._asking >= ASKING_MAX || this._isQuiet(key)) return;
    this._hush(key, FRESH_MS);
    this._asking += 1;
    try {
      const found = await conversation.profiles();
      put(this._members, conversation.id, found.map((one) => one.userId).filter((id) => id !== this._client.userId));
      this.learn(...found);
    } catch (error) {
      if (error.temporary) this._hush(key, AGAIN_MS); // else they are too many
    }
    this._asking -= 1;
    this._tell();
  }

  async _ask(conversation, ids) {
    try {
      return await conversation.profiles(ids);
    } catch {
      for (const id of ids) this._hush(keyOf(conversation, id), AGAIN_MS);
      return [];
    }
  }

  _isMissing(conversation, id) {
    return !isFresh(this._known.get(id)?.at) && !this._isQuiet(keyOf(conversation, id));
  }

  _hush(key, ms) {
    put(this._quiet, key, performance.now() + ms);
  }

  _isQuiet(key) {
    return performance.now() < (this._quiet.get(key) ?? 0);
  }
}

const keyOf = (conversation, id) => `${conversation.id} ${id}`;
const isFresh = (at) => at !== undefined && performance.now() - at < FRESH_MS;

function put(map, key, value) {
  map.set(key, value);
  if (map.size > KEPT_MAX) map.delete(map.keys().next().value);
}

export function inPieces(ids) {
  const count = Math.ceil(ids.length / TOGETHER_MAX);
  return Array.from({ length: count }, (_, at) => ids.slice(at * TOGETHER_MAX, (at + 1) * TOGETHER_MAX));
}
