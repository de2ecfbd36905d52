/**
 * The JavaScript client of Tidings: ES modules without dependencies, for browsers and Node. tidings.d.ts is its
 * reference.
 *
 * The client guards two promises, whatever the network does. It applies every entry of a conversation once and in the
 * order of its seq. It keeps every message given to send() in the outbox, in order and with its message_id, until the
 * server has stored it or refuses it for good.
 *
 *   client.js         the life of the connection, and requests; options.js checks how it was made
 *   link.js           one WebSocket, and whether the server is alive; tokens.js, rest.js
 *   outbox.js         messages that wait to be sent, shared by tabs; storage.js keeps them
 *   events.js         events of the server
 *   log.js            entries of a conversation in order
 *   conversation.js   what a screen shows of it: window.js, unsent.js, marks.js, presence.js
 *   actions.js        what a user may do with it over REST
 *   inbox.js          the list of conversations
 *   entries.js        every entry of every conversation, for bots
 *   streaming.js      messages that are written piece by piece
 *   webhooks.js       the check of a request to an endpoint of a webhook: an entry of its own, for backends
 *
 * A name that begins with an underscore is for these modules alone.
 */
export { TidingsClient } from './client.js';
export { Conversation } from './conversation.js';
export { Entries } from './entries.js';
export { TidingsError } from './errors.js';
export { Inbox } from './inbox.js';
export { Rules } from './rules.js';
export { Saved } from './saved.js';
export { Threads } from './threads.js';
export { Scheduled } from './scheduled.js';
export { indexedDbOutbox, localStorageOutbox, memoryStorage } from './storage.js';
