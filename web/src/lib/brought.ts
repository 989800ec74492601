/**
 * Returns the token that a link brings after the `#`, which browsers keep to themselves, and the address without it. The
 * token does not stay in the address, also when the browser has logged in before.
 */
export function takeToken(hash: string): { token: string; hash: string } | undefined {
  const brought = /^#token=(.+)$/.exec(hash)?.[1];
  if (brought === undefined) return undefined;
  try {
    return { token: decodeURIComponent(brought), hash: '#/' };
  } catch {
    return { token: brought, hash: '#/' };
  }
}

/** The token that a link has brought to this page, until somebody logs in with it. */
export const brought = { token: '' };

function take(): void {
  const taken = takeToken(location.hash);
  if (!taken) return;
  history.replaceState(null, '', taken.hash);
  brought.token = taken.token;
}

if (typeof window !== 'undefined') {
  take();
  addEventListener('hashchange', take);
}
