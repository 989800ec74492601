// Whatever an agent says stays text: in messages, tools, files, titles, links and its terminal.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { browser, Lab, LIMIT, open } from './lab.mjs';
import { poison } from './poison.mjs';

const limit = { timeout: 4 * LIMIT };

const CORPUS = [
  '<script>window.pwned=1</script>',
  '<img src=x onerror="window.pwned=1">',
  '<svg onload="window.pwned=1"><a href="javascript:window.pwned=1">x</a></svg>',
  '"><iframe srcdoc="<script>parent.pwned=1</script>"></iframe>',
  "'-(window.pwned=1)-'",
  '<a href="javascript:window.pwned=1">html</a>',
  '[md](javascript:window.pwned=1) [d](data:text/html,<script>opener.pwned=1</script>) ![i](javascript:window.pwned=1)',
  '![i](x"onerror="window.pwned=1) <javascript:window.pwned=1> https://a.b/"onmouseover="window.pwned=1',
  '`<b onclick=window.pwned=1>` **<i onmouseover=window.pwned=1>** ~~</del><script>window.pwned=1</script>~~',
  '<style>*{background:url(https://evil.example/x)}</style><link rel=stylesheet href=https://evil.example/y>',
  '<form action=https://evil.example><input autofocus onfocus=window.pwned=1></form>',
  '<math><mtext></form><form><mglyph><style></math><img src onerror=window.pwned=1>',
  '{{constructor.constructor("window.pwned=1")()}} ${window.pwned=1} {@html "<img src=x onerror=window.pwned=1>"}',
  '\u202e<script>window.pwned=1</script>\u0000\u2028',
];

let lab;
let chromium;

before(async () => {
  lab = new Lab();
  await lab.up();
  chromium = await browser();
});
after(async () => {
  await chromium?.close();
  await lab?.close();
});

/** Fails if anything of the corpus became more than text, or if anything was asked of elsewhere. */
async function isClean(page, where) {
  const found = await page.evaluate(() => ({
    pwned: window.pwned,
    elements: document.querySelectorAll('script:not([src^="/assets/"]), iframe, object, embed, form[action], body style:not(.xterm style), svg[onload], math').length,
    handlers: [...document.querySelectorAll('*')].filter((node) => [...node.attributes].some((attribute) => attribute.name.startsWith('on'))).length,
    links: [...document.querySelectorAll('a[href]')].map((link) => link.getAttribute('href')).filter((href) => !/^(#|https?:|mailto:|\/api\/v1\/)/.test(href)),
    images: document.querySelectorAll('img').length,
  }));
  assert.deepEqual(found, { ...found, pwned: undefined, elements: 0, handlers: 0, links: [], images: 0 }, where);
}

test('no text of an agent becomes markup, in any view', limit, async () => {
  const page = await open(chromium, lab.url);
  const outside = [];
  page.on('request', (request) => {
    if (!request.url().startsWith(lab.url) && !request.url().startsWith('data:')) outside.push(request.url());
  });
  page.on('dialog', (dialog) => {
    outside.push(dialog.message());
    void dialog.dismiss();
  });
  await lab.agent('evil', '[[text:ready]]');
  await page.goto(`${lab.url}/#/agents/evil`);
  await page.locator('.said', { hasText: 'ready' }).waitFor();
  let said = 0;
  for (const text of CORPUS) {
    const inDirective = text.replaceAll('\u0000', '').replaceAll(']]', '] ]').replaceAll('|', '/');
    await lab.tell('evil', `[[text:${inDirective} (${said}) end]]`);
    await page.locator('.said', { hasText: `(${said}) end` }).waitFor();
    await isClean(page, text);
    said++;
  }
  // As a tool's input and output, and as an ask with all of it.
  const line = CORPUS.map((text) => text.replaceAll('\u0000', '').replaceAll(']]', '').replaceAll("'", '"').replaceAll('|', '/')).join(' ');
  await lab.tell('evil', `[[bash:printf '%s' '${line}'; touch tool.done]]`);
  await page.locator('.ask').waitFor();
  await isClean(page, 'ask in the timeline');
  await page.goto(`${lab.url}/#/`);
  await page.locator('.ask').waitFor();
  await isClean(page, 'ask in the inbox');
  await page.locator('.ask').getByRole('button', { name: 'Yes', exact: true }).click();
  await page.locator('.closed li').waitFor();
  await page.goto(`${lab.url}/#/agents/evil`);
  await page.locator('.tooluse.completed').waitFor();
  await page.locator('.tooluse.completed summary').click();
  await page.locator('.tooluse[open] .code').first().waitFor();
  await isClean(page, 'tool');
  // As a file with a name, in an edit.
  await lab.tell('evil', `[[write:<img src=x onerror=window.pwned=1>.txt/${'x'}|${CORPUS[0]}]]`);
  await page.locator('.ask .diff').waitFor();
  await isClean(page, 'edit');
  // As the title and links of its terminal.
  for (const tab of ['terminal', 'state', 'usage', 'files']) {
    await page.goto(`${lab.url}/#/agents/evil/${tab}`);
    await page.locator(`.panel.${tab} > *`).first().waitFor();
    if (tab === 'terminal') await page.locator('.room[data-link=live]').waitFor();
    await isClean(page, tab);
  }
  assert.deepEqual(outside, [], 'nothing was asked of anybody else');
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('titles, links and clipboard sequences of a terminal do nothing', limit, async () => {
  const one = new Lab();
  try {
    await one.sidecar({ agent: 'unknown', command: ['bash', '--norc'] });
    const page = await open(chromium, `${one.url}/#/agents/unknown/terminal`);
    await page.locator('.room[data-link=live]').waitFor();
    const escape = String.raw`\033`;
    const sequences = [
      `${escape}]0;<img src=x onerror=window.pwned=1>${escape}\\\\`,
      `${escape}]8;;javascript:window.pwned=1${escape}\\\\link${escape}]8;;${escape}\\\\`,
      `${escape}]52;c;cHduZWQ=${escape}\\\\`,
      `${escape}]7;file://evil/<script>${escape}\\\\`,
    ].join('');
    await one.ok('POST', 'input', { text: `clear; printf '${sequences}'; echo "sh""own"`, enter: true });
    // The text after the sequences is drawn, so they were obeyed, or not; what was typed reads differently.
    await page.waitForFunction(() => document.querySelector('.xterm-rows').textContent.includes('linkshown'));
    await isClean(page, 'sequences');
    assert.match(await page.title(), /^(\(\d+\) )?coop$/);
    assert.deepEqual(page.errors, []);
    await page.context().close();
  } finally {
    await one.close();
  }
});

/** All of it at once; what ends a line would end a field. */
const ALL = ` ${CORPUS.join(' ').replaceAll('\u0000', '').replaceAll('\u2028', '')} `;

test('whatever field it is in, markup stays text: every text of every answer', limit, async () => {
  const one = new Lab();
  try {
    const git = (...args) => execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.c', ...args], { cwd: one.work });
    const name = '<img src=x onerror=window.pwned=1>.txt';
    one.write(name, 'before\n');
    git('init', '-q', '-b', 'main');
    git('add', '.');
    git('commit', '-qm', 'first');
    git('checkout', '-q', '-b', '<script>window.pwned=1<_script>');
    one.write(name, `${ALL}\n`);
    one.write(`new ${name}`, 'new\n');
    await one.up();
    const { id } = await one.ok('POST', 'projects', { path: one.work });
    await one.ok('POST', 'workspaces', { project: id, name: 'fix/it' });
    await one.agent('talker', '[[text:**Hello** [x](javascript:window.pwned=1)]] [[read:a.txt]]');
    await one.tell('talker', '[[bash:touch done.txt]]');
    await one.agent('chooser', '[[ask2]]');
    await one.agent('editor', `[[edit:${name}|before|after]]`, { folder: join(one.home, 'elsewhere') });
    await one.agent('failing', '[[err:401]]');
    await one.agent('ended', '[[text:The end.]]');
    await one.tell('ended', '[[text:It is.]]');
    await one.end('ended');

    // Only what is in sight is in the document.
    const page = await open(chromium, one.url, { viewport: { width: 1400, height: 6000 } });
    const outside = [];
    page.on('request', (request) => {
      if (!request.url().startsWith(one.url) && !request.url().startsWith('data:')) outside.push(request.url());
    });
    page.on('dialog', (dialog) => {
      outside.push(dialog.message());
      void dialog.dismiss();
    });
    await poison(page.context(), ALL);
    await page.reload();

    /** The text is there, as text, and nothing came of it. */
    const holds = async (where) => {
      await page.locator(where).filter({ hasText: '<script>window.pwned=1</script>' }).first().waitFor({ state: 'attached' });
      await isClean(page, where);
    };
    // Who is asked what, with options, input and difference; agents by project and workspace.
    for (const where of ['.ask .who', '.ask .options', '.ask .diff', '.sidebar .project', '.sidebar h3', '.sidebar .agent .title', '.sidebar footer']) await holds(where);
    await page.locator('.ask', { hasText: 'talker' }).getByRole('button', { name: 'Yes' }).first().click();
    await holds('.closed li');
    await page.keyboard.press('n');
    await holds('dialog option');
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.locator('.sidebar .agent', { hasText: 'failing' }).click();
    await holds('.item .fault');
    await page.locator('.sidebar .agent', { hasText: 'talker' }).click();
    for (const where of ['.head h1', '.head .meta', '.item .bubble', '.item .said', '.tooluse .tool', '.tooluse .preview', '.asked .preview']) await holds(where);
    await page.locator('.tooluse summary').first().click();
    await holds('.tooluse[open] .code');
    await page.getByRole('tab', { name: 'Terminal' }).click();
    await page.locator('.room[data-link=live] .xterm-screen').waitFor();
    await isClean(page, 'terminal');
    await page.getByRole('tab', { name: 'Replay' }).click();
    await page.locator('.scrubber .bar').first().waitFor();
    const titles = await page.locator('.scrubber .bar').evaluateAll((bars) => bars.map((bar) => bar.title));
    assert.ok(titles.some((title) => title.includes('<script>')), 'what a recording marks has it too');
    await page.keyboard.press('End');
    await holds('.scrubber .pill');
    await page.getByRole('tab', { name: 'State' }).click();
    for (const where of ['.panel.state .lead', '.panel.state td']) await holds(where);
    await page.getByRole('tab', { name: 'Usage' }).click();
    await page.locator('.panel.usage .figures, .panel.usage .empty').first().waitFor();
    await isClean(page, 'usage');
    await page.getByRole('tab', { name: 'Files' }).click();
    for (const where of ['.panel.files .tag', '.panel.files .path', '.panel.files .diff']) await holds(where);
    await page.keyboard.press('h');
    for (const where of ['.run .name', '.run .said', '.run .path']) await holds(where);
    // What goes wrong is told in coop's words, and those may have an agent's in them.
    await page.route('**/agents/editor/agent/respond', (route) => route.fulfill({ status: 400, contentType: 'application/json', body: JSON.stringify({ error: { code: 'BAD_REQUEST', message: 'no' } }) }));
    await page.keyboard.press('i');
    await page.locator('.ask', { hasText: 'editor' }).getByRole('button', { name: 'Yes' }).first().click();
    await holds('.ask .wrong');
    assert.deepEqual(outside, [], 'nothing was asked of anybody else');
    assert.deepEqual(page.errors, []);
    await page.context().close();
  } finally {
    await one.close();
  }
});
