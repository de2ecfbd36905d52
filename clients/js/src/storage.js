/** Storages of the outbox: memory, localStorage, IndexedDB. Each keeps records under a key. `putAll` is one write. */

export function memoryStorage() {
  const records = new Map();
  return {
    put: (key, record) => void records.set(key, record),
    delete: (key) => void records.delete(key),
    all: () => [...records.values()],
  };
}

export function localStorageOutbox({ prefix = 'tidings:outbox:', storage = globalThis.localStorage } = {}) {
  const keys = () => Array.from({ length: storage.length }, (_, index) => storage.key(index));
  return {
    put: (key, record) => storage.setItem(prefix + key, JSON.stringify(record)),
    delete: (key) => storage.removeItem(prefix + key),
    all: () => keys().filter((key) => key?.startsWith(prefix)).flatMap((key) => {
      try {
        return [JSON.parse(storage.getItem(key))].filter(Boolean);
      } catch {
        return []; // it is not a record of the outbox, or it is damaged
      }
    }),
  };
}

export function indexedDbOutbox({ name = 'tidings' } = {}) {
  const asked = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  let opened = null;
  const open = () => {
    const request = globalThis.indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore('outbox');
    return asked(request);
  };
  const run = async (mode, work, durability = 'strict') => {
    opened ??= open();
    const transaction = (await opened).transaction('outbox', mode, { durability });
    const done = new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
    const [result] = await Promise.all([asked(work(transaction.objectStore('outbox'))), done]);
    return result;
  };
  return {
    put: async (key, record) => void (await run('readwrite', (store) => store.put(record, key))),
    putAll: async (pairs) => {
      await run('readwrite', (store) => pairs.map(([key, record]) => store.put(record, key)).at(-1));
    },
    // A delete that is lost with the power does no harm: the server knows the message when it is sent again.
    delete: async (key) => void (await run('readwrite', (store) => store.delete(key), 'relaxed')),
    all: () => run('readonly', (store) => store.getAll()),
  };
}
