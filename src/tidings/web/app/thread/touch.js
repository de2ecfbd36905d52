// Touch on messages: a long press opens the menu, a swipe to the side answers.

const LONG_MS = 450;
const STILL_PX = 10;
const SWIPE_PX = 64;

export function listenToTouch(view) {
  const press = (row, name) => row.querySelector(name)?.click();
  let start = null;
  let isHeld = false; // the menu was opened under the finger: lifting it must not press an entry
  const end = () => {
    if (!start) return;
    clearTimeout(start.timer);
    start.row.style.translate = '';
    start = null;
  };
  view.addEventListener('touchstart', (event) => {
    end();
    isHeld = false;
    const row = event.target.closest('.message');
    if (!row || event.touches.length !== 1 || event.target.closest('button, a, pre')) return;
    const { clientX: x, clientY: y } = event.touches[0];
    const timer = setTimeout(() => {
      end();
      isHeld = true;
      navigator.vibrate?.(10);
      press(row, '.message-more');
    }, LONG_MS);
    start = { row, x, y, timer };
  }, { passive: true });
  view.addEventListener('touchmove', (event) => {
    if (!start) return;
    const dx = event.touches[0].clientX - start.x;
    const dy = event.touches[0].clientY - start.y;
    if (Math.hypot(dx, dy) > STILL_PX) clearTimeout(start.timer);
    if (Math.abs(dy) > STILL_PX * 2 && Math.abs(dy) > Math.abs(dx)) return end();
    if (Math.abs(dx) > STILL_PX) start.row.style.translate = `${Math.max(-SWIPE_PX, Math.min(SWIPE_PX, dx)) / 2}px`;
    if (Math.abs(dx) < SWIPE_PX) return;
    const { row } = start;
    end();
    press(row, '.message-reply');
  }, { passive: true });
  view.addEventListener('touchend', (event) => {
    if (isHeld) event.preventDefault();
    isHeld = false;
    end();
  }, { passive: false });
  view.addEventListener('touchcancel', end, { passive: true });
  view.addEventListener('contextmenu', (event) => {
    const row = event.target.closest('.message');
    if (!row || event.target.closest('a') || matchMedia('(hover: hover)').matches) return;
    event.preventDefault(); // the long press opens the page's own menu
  });
}
