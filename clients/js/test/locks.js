/** Web Locks within one process, for runtimes without them: exclusive, first come first served. */
export class Locks {
  constructor() {
    this._turns = new Map(); // name -> end of the last one in the queue
    this._held = new Map();
  }

  async request(name, callback) {
    const before = this._turns.get(name) ?? Promise.resolve();
    let done;
    this._turns.set(name, new Promise((resolve) => (done = resolve)));
    await before;
    this._held.set(name, true);
    try {
      return await callback();
    } finally {
      this._held.delete(name);
      done();
    }
  }

  async query() {
    return { held: [...this._held.keys()].map((name) => ({ name })) };
  }
}
