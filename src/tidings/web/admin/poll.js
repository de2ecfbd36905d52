// Polling while the page is visible, one request at a time. `stop` ends it and drops the request on its way. `heard(null)`
// follows every answer, `heard(error)` every failure.

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
