// Server-sent events over fetch: unlike EventSource it says why a connection was refused.

export interface Frame {
  id?: string;
  event: string;
  data: string;
}

/** Makes frames of text that comes in any pieces. */
export class SseParser {
  #rest = '';
  #frame: { id?: string; event: string; data: string[] } = { event: 'message', data: [] };

  push(text: string): Frame[] {
    const frames: Frame[] = [];
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const raw of lines) {
      const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
      if (line === '') {
        if (this.#frame.data.length > 0) {
          const { id, event, data } = this.#frame;
          frames.push(id === undefined ? { event, data: data.join('\n') } : { id, event, data: data.join('\n') });
        }
        this.#frame = { event: 'message', data: [] };
        continue;
      }
      const colon = line.indexOf(':');
      if (colon === 0) continue;
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (name === 'id') this.#frame.id = value;
      else if (name === 'event') this.#frame.event = value;
      else if (name === 'data') this.#frame.data.push(value);
    }
    return frames;
  }
}

/** Longer than coop is ever silent: it sends a comment every 30 seconds. */
const SILENCE_MS = 75_000;

/** Reads frames until the other side ends, which is an error for whoever wants to follow. */
export async function readFrames(
  response: Response,
  controller: AbortController,
  take: (frames: Frame[]) => void,
): Promise<void> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) throw new Error('the answer has no body');
  const parser = new SseParser();
  let silent = setTimeout(() => controller.abort(), SILENCE_MS);
  try {
    for (;;) {
      const { value, done } = await reader.read();
      clearTimeout(silent);
      if (done) return;
      silent = setTimeout(() => controller.abort(), SILENCE_MS);
      const frames = parser.push(value);
      if (frames.length > 0) take(frames);
    }
  } finally {
    clearTimeout(silent);
  }
}
