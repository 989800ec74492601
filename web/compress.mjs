// Packs what was built, once, so that the server only chooses; and says what a first load costs.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const root = 'dist/page';
const LIMIT = 200 * 1024;

const files = readdirSync(root, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && /\.(html|js|css|svg|json)$/.test(entry.name))
  .map((entry) => join(entry.parentPath, entry.name));
const sizes = new Map();
for (const file of files) {
  const bytes = readFileSync(file);
  const gzip = gzipSync(bytes, { level: 9 });
  writeFileSync(`${file}.gz`, gzip);
  writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
  sizes.set(file.slice(root.length), gzip.length);
}

// What the document names itself is the first load; all else comes when it is wanted.
const html = readFileSync(join(root, 'index.html'), 'utf8');
const first = [...html.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map((match) => match[1]);
const total = first.reduce((sum, path) => sum + (sizes.get(path) ?? 0), sizes.get('/index.html'));
console.log(`first load: ${(total / 1024).toFixed(1)} KB gzipped in ${first.length + 1} files`);
if (total > LIMIT) {
  console.error(`that is more than ${LIMIT / 1024} KB`);
  process.exit(1);
}
