/** Rules of a conversation, and the ways into it and out of it. */

export class Rules {
  constructor(rest) {
    this._rest = rest;
  }

  /** Change rules: post, slowS, frozen, visibility, retentionS, data. null ends slowS, retentionS and data. */
  change(conversationId, { slowS, retentionS, ...rules }) {
    return this._rest.send('PATCH', pathOf(conversationId), { ...rules, slow_s: slowS, retention_s: retentionS }, true);
  }

  async join(conversationId) {
    await this._rest.send('POST', `${pathOf(conversationId)}/join`, undefined, true);
  }

  /** Make an invite; its text is shown once. */
  invite(conversationId, { expiresS, uses, role } = {}) {
    return this._rest.send('POST', `${pathOf(conversationId)}/invites`, { expires_s: expiresS, uses, role });
  }

  /** Join by an invite, and return the id of the conversation. */
  async use(invite) {
    return (await this._rest.send('POST', `/v1/invites/${encodeURIComponent(invite)}`)).conversationId;
  }

  async ban(conversationId, userId, { until } = {}) {
    await this._rest.send('PUT', `${pathOf(conversationId)}/bans/${encodeURIComponent(userId)}`, { until }, true);
  }

  async unban(conversationId, userId) {
    await this._rest.send('DELETE', `${pathOf(conversationId)}/bans/${encodeURIComponent(userId)}`);
  }

  /** Ask the moderators to look at a message. */
  async report(conversationId, seq, reason = '') {
    await this._rest.send('POST', `${pathOf(conversationId)}/messages/${seq}/report`, { reason });
  }
}

function pathOf(conversationId) {
  return `/v1/conversations/${encodeURIComponent(conversationId)}`;
}
