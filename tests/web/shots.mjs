// Makes the pictures of the README: a screenshot, and a short animation of an ask that is answered.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import gifenc from 'gifenc';
import { PNG } from 'pngjs';

import { browser, Lab, open } from './lab.mjs';
import { tell } from './story.mjs';

const { applyPalette, GIFEncoder, quantize } = gifenc;
const OUT = resolve(dirname(fileURLToPath(import.meta.url)), '../../docs/images');
const viewport = { width: 1080, height: 660 };

mkdirSync(OUT, { recursive: true });
const lab = new Lab();
const chromium = await browser();
try {
  await tell(lab);
  const page = await open(chromium, lab.url, { viewport, colorScheme: 'light' });
  await page.locator('.ask .diff').waitFor();
  await page.screenshot({ path: join(OUT, 'inbox.png') });

  const gif = GIFEncoder();
  const frame = async (delay) => {
    const { data, width, height } = PNG.sync.read(await page.screenshot());
    const palette = quantize(data, 128);
    gif.writeFrame(applyPalette(data, palette), width, height, { palette, delay });
  };
  const card = page.locator('.ask', { hasText: 'parser' });
  await frame(2000);
  await card.getByRole('button', { name: 'Yes', exact: true }).hover();
  await frame(800);
  await card.getByRole('button', { name: 'Yes', exact: true }).click();
  await page.locator('.closed li', { hasText: 'parser' }).waitFor();
  await page.locator('.sidebar .agent', { hasText: 'parser' }).filter({ hasText: 'idle' }).waitFor();
  await frame(1600);
  await page.locator('.sidebar .agent', { hasText: 'parser' }).click();
  await page.locator('.said', { hasText: 'Done.' }).waitFor();
  await frame(2200);
  for (const [tab, ready] of [['Terminal', '.room[data-link=live] .xterm-screen'], ['Replay', '.scrubber .bar'], ['State', '.band .bar'], ['Files', '.diff .line.add']]) {
    await page.getByRole('tab', { name: tab }).click();
    await page.locator(ready).first().waitFor();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await frame(1800);
  }
  gif.finish();
  writeFileSync(join(OUT, 'page.gif'), gif.bytes());
} finally {
  await chromium.close();
  await lab.close();
}
