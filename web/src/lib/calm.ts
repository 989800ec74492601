/**
 * Returns the same work, done at most once at a time: who asks for it while it is done gets what is done once more after
 * that, together with all others who asked. So everybody sees what was there when they asked, and nobody asks too much.
 */
export function calm(work: () => Promise<void>): () => Promise<void> {
  let now: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  const begin = () => {
    next = undefined;
    now = work().finally(() => {
      now = undefined;
    });
    return now;
  };
  return () => next ?? (now ? (next = now.then(begin, begin)) : begin());
}
