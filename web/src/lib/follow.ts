import { ApiError } from './api';
import { parse } from './visible';

/** How a WebSocket says that it wants a token. */
const NO_TOKEN = 4401;
/** What comes within this time is taken together, so that many agents make the page draw no more often than one. */
const TOGETHER_MS = 25;

/** Hears a WebSocket until it ends, which is an error for whoever wants to follow. */
export function follow<T>(path: string, hear: (message: T) => void): Promise<void> {
  return new Promise((_, reject) => {
    const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
    const socket = new WebSocket(`${scheme}://${location.host}${path}`);
    let waiting: string[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      clearTimeout(timer);
      timer = undefined;
      const taken = waiting;
      waiting = [];
      for (const text of taken) hear(parse<T>(text));
    };
    socket.onmessage = (event: MessageEvent<string>) => {
      waiting.push(event.data);
      timer ??= setTimeout(flush, TOGETHER_MS);
    };
    socket.onclose = (event) => {
      flush();
      const isLoggedOut = event.code === NO_TOKEN;
      reject(isLoggedOut ? new ApiError(401, 'UNAUTHORIZED', 'logged out') : new Error('the connection was lost'));
    };
  });
}
