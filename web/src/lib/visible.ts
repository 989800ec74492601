// What agents write, with every character in sight. The same as `coop_api::visible`.

const SYMBOL = '\\u2190-\\u27ff\\u2801-\\u2bff\\u{1f000}-\\u{1faff}';
/** Control characters, bidirectional controls, and what is drawn as nothing; but not the joiners within an emoji. */
const HIDDEN = new RegExp(
  `(?![\\n\\t])(?!(?<=[${SYMBOL}])\\ufe0f)(?!(?<=[${SYMBOL}]\\ufe0f?)\\u200d(?=[${SYMBOL}]))` +
    '[\\p{Cc}\\p{Bidi_Control}\\p{Default_Ignorable_Code_Point}\\u2028\\u2029\\u2800\\ufff9-\\ufffb]',
  'gu',
);

/** Returns text in which a character that cannot be seen, or that turns the writing around, is named: `<U+202E>`. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (hidden) => `<U+${hidden.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}>`);
}

/** Reads JSON of coop's. All that the page shows comes through here, so nothing in it is hidden. */
export function parse<T>(json: string): T {
  const value: unknown = JSON.parse(json);
  // Most has neither such a character nor an escape for one, and is not gone through.
  return (json.includes('\\u') || json.search(HIDDEN) >= 0 ? inSight(value) : value) as T;
}

function inSight(value: unknown): unknown {
  if (typeof value === 'string') return visible(value);
  if (Array.isArray(value)) return value.map(inSight);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [visible(name), inSight(inner)]));
}
