// Tells in words how two screens differ.

/** Marks, format characters and the like, and every space but the common one. */
const UNCLEAR = /[\p{M}\p{C}]|\p{Z}(?<! )/gu;

/** Returns one line or two per difference; none if the screens look and behave alike. */
export function differences(one, ours, theirs) {
  return [
    ...rowDifferences(ours, theirs),
    ...(one.comparesWraps ? wrapDifferences(ours, theirs) : []),
    ...fieldDifferences('cursor', ours.cursor, theirs.cursor),
    ...fieldDifferences('mode', ours.modes, theirs.modes),
    ...valueDifference('title', ours.title, theirs.title),
    ...(one.comparesReplies ? valueDifference('replies', decoded(ours.replies), theirs.replies) : []),
  ];
}

function rowDifferences(ours, theirs) {
  const count = Math.max(ours.rows.length, theirs.rows.length);
  return Array.from({ length: count }).flatMap((_, row) =>
    valueDifference(`row ${row}`, drawn(ours.rows[row]), drawn(theirs.rows[row])));
}

function wrapDifferences(ours, theirs) {
  return theirs.wrapped.flatMap((wrapped, row) => valueDifference(`row ${row} runs on`, ours.wrapped[row], wrapped));
}

/** Compares the fields the reference knows. */
function fieldDifferences(what, ours, theirs) {
  return Object.keys(theirs).flatMap((field) => valueDifference(`${what} ${field}`, ours[field], theirs[field]));
}

function valueDifference(what, ours, theirs) {
  if (ours === theirs) return [];
  return [`${what}: ours   ${JSON.stringify(ours)}`, `${' '.repeat(what.length + 1)} theirs ${JSON.stringify(theirs)}`];
}

/** Returns the row as text; a cell that is not one narrow character is told apart, as in `[漢:2]`. */
function drawn(row) {
  if (row === undefined) return undefined;
  const cells = row.map(([text, width]) => {
    const isPlain = width === 1 && [...text].length === 1;
    return isPlain ? spelled(text) : `[${spelled(text)}:${width}]`;
  });
  return cells.join('').trimEnd();
}

/** Characters that a reader could not tell apart are spelled out. */
function spelled(text) {
  return text.replaceAll(UNCLEAR, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

function decoded(base64) {
  return Buffer.from(base64, 'base64').toString();
}
