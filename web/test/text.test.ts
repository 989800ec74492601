import { expect, test } from 'vitest';

import { definition } from '../src/lib/definition';
import { compare, parseGit } from '../src/lib/diff';
import { highlight } from '../src/lib/highlight';
import { safeLink } from '../src/lib/links';
import { reply } from '../src/lib/reply';
import { parse } from '../src/lib/place';

test('lines that differ are told apart, and nothing else', () => {
  const lines = compare('a\nb\nc\nd\n', 'a\nB\nc\nd\ne\n');
  expect(lines.map((line) => `${line.kind[0]}${line.text}`)).toEqual(['sa', 'db', 'aB', 'sc', 'sd', 'ae']);
  expect(compare('', 'x\n')).toEqual([{ kind: 'add', text: 'x' }]);
  expect(compare('same', 'same')).toEqual([{ kind: 'same', text: 'same' }]);
});

test('a comparison gives both texts back', () => {
  const [before, after] = ['1\n2\n3\n4\n5', '0\n2\n3\nx\n5\n6'];
  const lines = compare(before, after);
  expect(lines.filter((line) => line.kind !== 'add').map((line) => line.text).join('\n')).toBe(before);
  expect(lines.filter((line) => line.kind !== 'del').map((line) => line.text).join('\n')).toBe(after);
});

test('what git prints is read', () => {
  const text = 'diff --git a/x y.txt b/x y.txt\nindex 1..2 100644\n--- a/x y.txt\n+++ b/x y.txt\n@@ -1 +1,2 @@\n-one\n+two\n+--- three\n\\ No newline at end of file\n';
  const [file] = parseGit(text);
  expect(file).toMatchObject({ path: 'x y.txt', added: 2, removed: 1 });
  expect(file!.lines.map((line) => line.kind)).toEqual(['note', 'del', 'add', 'add', 'note']);
});

test('colours leave the text as it is', () => {
  for (const code of ['let a = "x\\"y"; // done', '{"key": [1, 2.5, null]}', "echo 'it' # no", '<script>alert(1)</script>', '"open', '/* open']) {
    expect(highlight(code).map((piece) => piece.text).join('')).toBe(code);
  }
  expect(highlight('{"key": 1}').find((piece) => piece.text === '"key"')?.kind).toBe('key');
});

test('only links that can do no harm are links', () => {
  for (const bad of ['javascript:alert(1)', ' JaVaScRiPt:alert(1)', 'data:text/html,x', 'vbscript:x', '//evil', '/api/v1/down', 'file:///etc/passwd', '']) {
    expect(safeLink(bad), bad).toBeUndefined();
  }
  expect(safeLink('https://example.com/a')).toBe('https://example.com/a');
});

test('a click chooses what it says, and a no takes words along', () => {
  const option = (kind: 'allow_once' | 'reject') => ({ id: 'x', label: 'x', kind });
  expect(reply(option('allow_once'), 1, 'words')).toEqual({ option: 1 });
  expect(reply(option('reject'), 3, '')).toEqual({ option: 3 });
  expect(reply(option('reject'), 3, ' not here ')).toEqual({ accept: false, text: 'not here' });
});

test('addresses are read, and nonsense is the inbox', () => {
  expect(parse('#/agents/a%20b/terminal')).toEqual({ view: 'agent', agent: 'a b', tab: 'terminal' });
  expect(parse('#/agents/x/nonsense')).toEqual({ view: 'agent', agent: 'x', tab: 'timeline' });
  for (const other of ['', '#/', '#/agents/', '#/agents/%zz', '#token=x']) expect(parse(other)).toEqual({ view: 'inbox' });
});

test('a definition says what was filled in', () => {
  const wanted = { name: 'a', driver: 'claude', command: 'claude  --model opus', prompt: 'say "hi"\n\\', isolate: true, trust: true, sandbox: true };
  expect(definition(wanted)).toBe(
    '[agents."a"]\ndriver = "claude"\nkind = "crew"\ncommand = ["claude", "--model", "opus"]\nprompt = "say \\"hi\\"\\n\\\\"\nisolate = true\ntrust = true\nsandbox = true\n',
  );
  expect(definition({ ...wanted, driver: 'unknown', command: 'cat', prompt: '', isolate: false, sandbox: false })).toBe('[agents."a"]\ndriver = "unknown"\ncommand = ["cat"]\n');
});
