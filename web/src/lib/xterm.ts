// xterm.js as the page uses it, for a live terminal and for a recording: it answers nothing, opens only safe links, and is
// fitted into whatever room it has.

import { SearchAddon } from '@xterm/addon-search';
import { WebLinksAddon } from '@xterm/addon-web-links';
import { WebglAddon } from '@xterm/addon-webgl';
import { Terminal } from '@xterm/xterm';

import { safeLink } from './links';

const FONT = 13;
/** Smaller letters cannot be read; a terminal that is larger still is drawn smaller. */
const SMALLEST = 7;
/** A terminal that would be drawn still smaller is scrolled instead, as on a phone. */
const LEAST_SCALE = 0.8;
const SCROLLBAR = 16;

/** The agent's programs choose colours for a dark ground, so the terminal is dark in both themes. */
const THEME = {
  background: '#14181b',
  foreground: '#d8dee3',
  cursor: '#7fd1b9',
  selectionBackground: '#3a4d5c',
  black: '#1b2125', red: '#f0717b', green: '#7bc98f', yellow: '#e5c07b', blue: '#74a8f2', magenta: '#c79bf0', cyan: '#66c7cf', white: '#c5cdd3',
  brightBlack: '#7d8a94', brightRed: '#ff939c', brightGreen: '#9be0ac', brightYellow: '#f2d492', brightBlue: '#98c1ff', brightMagenta: '#dcb8ff', brightCyan: '#8adde4', brightWhite: '#f2f5f7',
};

export function makeTerminal(room: HTMLElement): { term: Terminal; search: SearchAddon } {
  const open = (event: MouseEvent, uri: string) => {
    event.preventDefault();
    const link = safeLink(uri);
    if (link) window.open(link, '_blank', 'noopener,noreferrer');
  };
  const term = new Terminal({
    cols: 80,
    rows: 24,
    fontFamily: 'ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace',
    fontSize: FONT,
    lineHeight: 1.15,
    scrollback: 5000,
    theme: THEME,
    allowProposedApi: true,
    linkHandler: { activate: open },
  });
  const search = new SearchAddon();
  term.loadAddon(search);
  term.loadAddon(new WebLinksAddon(open));
  silence(term);
  term.open(room);
  try {
    const webgl = new WebglAddon();
    webgl.onContextLoss(() => webgl.dispose());
    term.loadAddon(webgl);
  } catch {
    // Without it the slower renderer does.
  }
  return { term, search };
}

/** coop answers what the agent's program asks of its terminal. A second answer from here would be typed into it. */
function silence({ parser }: Terminal): void {
  const handled = () => true;
  for (const id of [
    { final: 'c' },
    { prefix: '>', final: 'c' },
    { prefix: '=', final: 'c' },
    { final: 'n' },
    { prefix: '?', final: 'n' },
    { intermediates: '$', final: 'p' },
    { prefix: '?', intermediates: '$', final: 'p' },
    { prefix: '>', final: 'q' },
    { prefix: '?', final: 'u' },
    { final: 't' },
  ]) {
    parser.registerCsiHandler(id, handled);
  }
  parser.registerDcsHandler({ intermediates: '$', final: 'q' }, handled);
  parser.registerDcsHandler({ intermediates: '+', final: 'q' }, handled);
  for (const code of [4, 10, 11, 12]) parser.registerOscHandler(code, (data) => data.includes('?'));
  // The agent has no business with the clipboard of whoever looks.
  parser.registerOscHandler(52, handled);
}

/**
 * Fits all of it into the room: by smaller letters, which stay sharp, and the rest by drawing it smaller. Returns how much
 * smaller it is than it should be. Whoever gives the terminal its size has letters of the full one.
 */
export function fitInto(term: Terminal, room: HTMLElement, letters: 'full' | 'fitting'): number | undefined {
  const screen = term.element?.querySelector<HTMLElement>('.xterm-screen');
  if (!term.element || !screen || screen.offsetWidth === 0) return undefined;
  const style = getComputedStyle(room);
  const width = room.clientWidth - parseFloat(style.paddingLeft) - SCROLLBAR;
  const height = room.clientHeight - parseFloat(style.paddingTop);
  const fits = () => Math.min(width / screen.offsetWidth, height / screen.offsetHeight);
  const before = term.options.fontSize ?? FONT;
  const wanted = letters === 'full' ? FONT : Math.min(FONT, Math.max(SMALLEST, Math.floor(before * fits() * 2 + 0.01) / 2));
  if (wanted !== before) term.options.fontSize = wanted;
  const rest = letters === 'full' ? 1 : Math.min(1, Math.max(LEAST_SCALE, fits()));
  term.element.style.transformOrigin = 'top left';
  term.element.style.transform = rest < 1 ? `scale(${rest})` : '';
  return (wanted / FONT) * rest;
}
