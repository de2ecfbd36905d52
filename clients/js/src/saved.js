/** Saved messages of the user. Nobody else learns of them. */
export class Saved {
  constructor(rest) {
    this._rest = rest;
  }

  async put(conversationId, seq) {
    await this._rest.send('PUT', pathOf(conversationId, seq), undefined, true);
  }

  async remove(conversationId, seq) {
    await this._rest.send('DELETE', pathOf(conversationId, seq), undefined, true);
  }

  /** A page, the latest saved first. It may be short: go on until nextCursor is null. */
  page(cursor = null) {
    const query = cursor === null ? '' : `?${new URLSearchParams({ cursor })}`;
    return this._rest.send('GET', `/v1/saved${query}`, undefined, true);
  }
}

const pathOf = (conversationId, seq) => `/v1/saved/${encodeURIComponent(conversationId)}/${seq}`;
