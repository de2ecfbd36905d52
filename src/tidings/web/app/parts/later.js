// Parts of the page that are rarely needed: they are loaded when they are, in one script beside the first.

/** Load a part. Without a connection `tell` gets an error, and the answer is null. */
export async function later(load, tell) {
  try {
    return await load();
  } catch {
    tell({ code: 'disconnected' });
    return null;
  }
}
