// Runs cases through the reference emulator: xterm.js without a display.

import unicode11 from '@xterm/addon-unicode11';
import headless from '@xterm/headless';

const MOUSE = { none: 'off', x10: 'click', vt200: 'click', drag: 'drag', any: 'motion' };
const CURSOR_VISIBLE = 25;
const SGR_MOUSE = 1006;

/** Returns what xterm.js shows, in the form in which our screen tells it. */
export async function shownByReference({ cols, rows, steps }) {
  const terminal = new headless.Terminal({
    cols,
    rows,
    allowProposedApi: true,
    scrollback: 1000,
    // We wrap the cursor's line anew too.
    reflowCursorLine: true,
    windowOptions: { getWinSizeChars: true, pushTitle: true, popTitle: true },
    logLevel: 'off',
  });
  terminal.loadAddon(new unicode11.Unicode11Addon());
  terminal.unicode.activeVersion = '11';
  let title = '';
  let replies = '';
  terminal.onTitleChange((changed) => { title = changed; });
  terminal.onData((reply) => { replies += reply; });

  for (const step of steps) {
    if (step.feed) await write(terminal, step.feed);
    else terminal.resize(...step.resize);
  }
  const shown = { ...cells(terminal), cursor: cursor(terminal), modes: modes(terminal), title, replies };
  replies = '';
  // Not in the public interface, so ask. CAN ends whatever sequence the input may have left open.
  await write(terminal, `\x18\x1b[?${CURSOR_VISIBLE}$p\x1b[?${SGR_MOUSE}$p`);
  shown.cursor.visible = replies.includes(`?${CURSOR_VISIBLE};1$y`);
  shown.modes.sgr_mouse = replies.includes(`?${SGR_MOUSE};1$y`);
  terminal.dispose();
  return shown;
}

/** Parsing happens in a timer of xterm.js, so what it throws comes to us as an uncaught exception. */
function write(terminal, data) {
  return new Promise((resolve, reject) => {
    process.once('uncaughtException', reject);
    terminal.write(data, () => {
      process.off('uncaughtException', reject);
      resolve();
    });
  });
}

function cells(terminal) {
  const { cols, rows, buffer: { active } } = terminal;
  const lines = Array.from({ length: rows }, (_, row) => active.getLine(active.baseY + row));
  return {
    rows: lines.map((line) => Array.from({ length: cols }, (_, col) => cell(line, col)).filter(Boolean)),
    // xterm.js marks the row that goes on, we the row before it.
    wrapped: lines.map((_, row) => lines[row + 1]?.isWrapped ?? false),
  };
}

function cell(line, col) {
  const text = line.getCell(col).getChars();
  const width = line.getCell(col).getWidth();
  const isRightHalf = width === 0 && text === '';
  if (isRightHalf) return line.getCell(col - 1)?.getWidth() === 2 ? undefined : [text, width];
  // A mark on a cell that nothing was printed to stands on a blank.
  return [text === '' || /^[\p{Mn}\p{Me}]/u.test(text) ? ` ${text}` : text, width];
}

function cursor({ cols, buffer: { active } }) {
  const pending = active.cursorX === cols;
  return { row: active.cursorY, col: pending ? cols - 1 : active.cursorX, pending_wrap: pending };
}

function modes(terminal) {
  const { modes } = terminal;
  return {
    alt_screen: terminal.buffer.active.type === 'alternate',
    app_cursor: modes.applicationCursorKeysMode,
    app_keypad: modes.applicationKeypadMode,
    autowrap: modes.wraparoundMode,
    bracketed_paste: modes.bracketedPasteMode,
    focus: modes.sendFocusMode,
    insert: modes.insertMode,
    mouse: MOUSE[modes.mouseTrackingMode],
    newline: terminal.options.convertEol,
    origin: modes.originMode,
  };
}
