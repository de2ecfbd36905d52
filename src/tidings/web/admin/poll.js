// Asks again and again while the page is seen; one question at a time. `stop` ends it and drops what is under way.
// `heard(null)` after every answer, `heard(error)` when there was none.

export function poll(every_ms, look, draw, heard) {
  const leaving = new AbortController();
  let timer = null;
  const turn = async () => {
    if (document.visibilityState === 'visible') {
      try {
        const found = await look(leaving.signal);
        if (leaving.signal.aborted) return;
        heard(null);
        draw(found);
      } catch (error) {
        if (leaving.signal.aborted) return;
        heard(error);
      }
    }
    if (!leaving.signal.aborted) timer = setTimeout(turn, every_ms);
  };
  turn();
  return {
    stop: () => {
      clearTimeout(timer);
      leaving.abort();
      heard(null);
    },
  };
}
