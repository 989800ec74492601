// Installs the newest releases of the real agents into a folder, and prints which differ from the pinned ones.
//
//   node latest.mjs FOLDER

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [folder] = process.argv.slice(2);
if (!folder) throw new Error('usage: node latest.mjs FOLDER');
const { dependencies: pinned } = JSON.parse(readFileSync(new URL('package.json', import.meta.url)));
const dependencies = Object.fromEntries(Object.keys(pinned).map((name) => [name, 'latest']));
writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies }));
execFileSync('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: folder, stdio: 'inherit' });
for (const [name, version] of Object.entries(pinned)) {
  const { version: newest } = JSON.parse(readFileSync(join(folder, 'node_modules', name, 'package.json')));
  console.log(`${name}: ${newest}${newest === version ? ', as pinned' : `, pinned ${version}`}`);
}
