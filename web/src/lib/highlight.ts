// Colours for code: not a parser of any language, but what most of them share. It makes pieces of text, never markup.

export interface Piece {
  kind: 'plain' | 'comment' | 'string' | 'number' | 'keyword' | 'key';
  text: string;
}

const KEYWORDS = new Set(
  (
    'abstract and as async await break case catch class const continue def default del do done elif else end enum esac ' +
    'except export extends false fi final finally fn for from func function go if impl import in interface is lambda ' +
    'let loop match mod module mut new nil none not null of or package pass private protected pub public raise ref ' +
    'return self static struct super switch then this throw trait true try type typeof undefined unsafe use using var ' +
    'void where while with yield None True False echo cd sudo'
  ).split(' '),
);

const TOKEN =
  /(\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|(?:^|(?<=\s))#[^\n]*)|("(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|`(?:[^`\\]|\\.)*`?)|(\b\d[\w.]*)|([A-Za-z_$][\w$]*)/g;

/** Longer code stays plain. */
const MOST = 50_000;

export function highlight(code: string): Piece[] {
  if (code.length > MOST) return [{ kind: 'plain', text: code }];
  const pieces: Piece[] = [];
  let at = 0;
  const plain = (to: number) => {
    if (to > at) pieces.push({ kind: 'plain', text: code.slice(at, to) });
  };
  for (const match of code.matchAll(TOKEN)) {
    const [text, comment, string, number, word] = match;
    const end = match.index + text.length;
    let kind: Piece['kind'] | undefined;
    if (comment !== undefined) kind = 'comment';
    else if (string !== undefined) kind = /^\s*:/.test(code.slice(end, end + 4)) ? 'key' : 'string';
    else if (number !== undefined) kind = 'number';
    else if (word !== undefined && KEYWORDS.has(word)) kind = 'keyword';
    if (!kind) continue;
    plain(match.index);
    pieces.push({ kind, text });
    at = end;
  }
  plain(code.length);
  return pieces;
}
