// Which part of an element is on the screen, as the browser has drawn it.

import { LONG_ENOUGH_MS, type Part, type Reading } from './reading';

/** The shares of an element at which the browser reports without being asked. */
const SHARES = Array.from({ length: 21 }, (_, at) => at / 20);
/** What an element may be wider than its room, in pixels: rounding. */
const ROUNDING_PX = 2;

/**
 * Tells the reading what is on the screen of an element in a box that scrolls, and calls `changed` after that. Returns a
 * function that ends it. A page in the background draws nothing, so nothing of it is on the screen.
 */
export function followScreen(content: HTMLElement, box: HTMLElement, reading: Reading, changed: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const observer = new IntersectionObserver(take, { threshold: SHARES });

  function take(entries: IntersectionObserverEntry[]): void {
    let isCovered = false;
    for (const entry of entries) {
      const { width, height, top } = entry.boundingClientRect;
      const { from, to } = partInSight(entry, box);
      isCovered = from < to && !isOnTop(box, entry.intersectionRect.left + width / 2, from, to);
      const part = isCovered || document.visibilityState === 'hidden' ? { from: 0, to: 0 } : { from: from - top, to: to - top };
      reading.look({ at: entry.time, width, height, ...part });
    }
    if (entries.length === 0) return;
    changed();
    clearTimeout(timer);
    // What lies over it may go without a sign.
    if (isCovered || reading.isUnderWay) timer = setTimeout(lookAgain, LONG_ENOUGH_MS);
  }

  /** An element that is observed anew is reported with the next frame, whatever has changed. */
  function lookAgain(): void {
    take(observer.takeRecords());
    if (document.visibilityState === 'hidden') reading.interrupt();
    observer.unobserve(content);
    observer.observe(content);
  }

  observer.observe(content);
  document.addEventListener('scroll', lookAgain, { capture: true, passive: true });
  document.addEventListener('visibilitychange', lookAgain);
  // On a phone a keyboard covers the page without changing its size, and two fingers make it larger.
  for (const event of ['resize', 'scroll']) visualViewport?.addEventListener(event, lookAgain);
  return () => {
    clearTimeout(timer);
    observer.disconnect();
    document.removeEventListener('scroll', lookAgain, { capture: true });
    document.removeEventListener('visibilitychange', lookAgain);
    for (const event of ['resize', 'scroll']) visualViewport?.removeEventListener(event, lookAgain);
  };
}

/** Returns the part whose lines are in sight from their beginning to their end, from the top of the window. */
function partInSight({ boundingClientRect: all, intersectionRect: shown }: IntersectionObserverEntry, box: HTMLElement): Part {
  const left = visualViewport?.offsetLeft ?? 0;
  const right = left + (visualViewport?.width ?? Infinity);
  const isCut =
    box.scrollWidth > box.clientWidth + ROUNDING_PX ||
    Math.max(shown.left, left) > all.left + ROUNDING_PX ||
    Math.min(shown.right, right) < all.right - ROUNDING_PX;
  if (isCut) return { from: 0, to: 0 };
  const top = visualViewport?.offsetTop ?? 0;
  return { from: Math.max(shown.top, top), to: Math.min(shown.bottom, top + (visualViewport?.height ?? Infinity)) };
}

/** Whether the box is what one sees there, and no dialog, list or notice lies over it. */
function isOnTop(box: HTMLElement, x: number, from: number, to: number): boolean {
  return [from + 1, (from + to) / 2, to - 1].every((y) => box.contains(document.elementFromPoint(x, y)));
}
