// Measures the page under load, and prints what it saw (docs/PAGE.md, "Under load"):
//   1. 200 agents in the list and a timeline of 10,000 items: frame times while scrolling, memory.
//   2. a terminal that is flooded: frame times, memory, and how fast the child writes with and without the page.
// The 200 agents and the 10,000 items are told by a fake daemon, so that the page is measured and not the machine.
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { browser, inTime, Lab, open } from './lab.mjs';
import { serveSocket } from './socket.mjs';

const DIST = resolve(dirname(fileURLToPath(import.meta.url)), '../../web/dist/page');
const AGENTS = 200;
const ITEMS = 10_000;
const FLOOD = 400_000_000;
const RATE = 20_000_000;
const SHELL = ['bash', '--norc', '--noprofile'];
const TYPES = { html: 'text/html', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };

/** Notes the time between frames, in the page. */
function watchFrames() {
  window.frames_ = [];
  let last = performance.now();
  const note = (now) => {
    window.frames_.push(now - last);
    last = now;
    window.watching = requestAnimationFrame(note);
  };
  window.watching = requestAnimationFrame(note);
}

async function frames(page) {
  const times = await page.evaluate(() => {
    cancelAnimationFrame(window.watching);
    return window.frames_.slice(2);
  });
  const sorted = times.toSorted((a, b) => a - b);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))]?.toFixed(1);
  return `${times.length} frames, median ${at(0.5)} ms, 95 % ${at(0.95)} ms, longest ${at(1)} ms`;
}

async function memory(page) {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('HeapProfiler.collectGarbage');
  const { usedSize } = await devtools.send('Runtime.getHeapUsage');
  return `${(usedSize / 1e6).toFixed(1)} MB`;
}

function card(number) {
  const phases = ['working', 'idle', 'blocked', 'asking', 'starting'];
  return {
    id: `agent-${number}`, name: 'agent', folder: `/srv/project-${number % 20}/tree-${number % 40}`, phase: phases[number % 5], outcome: null, needs: null, asks: [],
    run: 1, turn: 1, since: Date.now(), cost_usd: 0.01, last_message: null, exit: null,
  };
}

function entry(id, agent = 'agent-0') {
  const bodies = [
    { kind: 'message', role: 'assistant', text: `Step **${id}**: I looked at \`file-${id}.rs\` and found:\n\n- one thing\n- another` },
    { kind: 'tool', id: `tool-${id}`, tool: 'Bash', phase: 'completed', input: { command: `cargo test case_${id}` }, output: 'ok', duration_ms: 12 },
    { kind: 'artifact', path: `src/file-${id}.rs`, artifact_kind: 'code', tool: 'Write' },
  ];
  return { id, agent, at: 1.8e12 + id * 1000, event: { seq: id, id: `e-${id}`, ts: new Date(1.8e12).toISOString(), agent, run: 1, offset: 0, body: bodies[id % 3] } };
}

async function manyAgents(chromium) {
  const sockets = new Set();
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://x');
    const json = (body) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body));
    if (pathname === '/api/v1/health') return json({ status: 'running', version: 'fake', newest: ITEMS });
    if (pathname === '/api/v1/log') {
      const after = Number(searchParams.get('after'));
      const count = Math.max(0, Math.min(1000, ITEMS - after));
      return json(Array.from({ length: count }, (_, at) => entry(after + at + 1)));
    }
    if (pathname.startsWith('/api/')) return response.writeHead(404).end('{}');
    const file = pathname === '/' ? '/index.html' : pathname;
    return response.setHeader('content-type', TYPES[file.split('.').pop()] ?? 'text/plain').end(readFileSync(join(DIST, file)));
  });
  server.on('upgrade', (request, stream) => {
    const socket = serveSocket(request, stream);
    sockets.add(socket);
    socket.send({ type: 'snapshot', newest: ITEMS, agents: Array.from({ length: AGENTS }, (_, at) => card(at)), asks: [] });
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${server.address().port}`;
  const page = await open(chromium, `${url}/#/agents/agent-0`);
  await page.locator('.sidebar .agent').nth(AGENTS - 1).waitFor({ state: 'attached' });
  await page.locator('.item').first().waitFor();
  console.log(`${AGENTS} agents, ${ITEMS} items: ${await page.locator('.slot').count()} rows in the document, heap ${await memory(page)}`);
  // Every agent changes its state twice a second, and one says something new, while somebody scrolls.
  let id = ITEMS;
  const states = setInterval(() => {
    for (const socket of sockets) {
      for (let number = 0; number < AGENTS; number++) {
        const state = id % 2 ? 'idle' : 'working';
        const body = { kind: 'state', prev: { state: 'idle' }, next: { state }, screen_seq: 1, evidence: { source: 'hook', detail: 'x' } };
        id++;
        socket.send({ type: 'entry', ...entry(id, `agent-${number}`), event: { ...entry(id, `agent-${number}`).event, body } });
      }
    }
  }, 500);
  await page.evaluate(watchFrames);
  await page.evaluate(async () => {
    const list = document.querySelector('.virtual');
    for (let step = 0; step < 300; step++) {
      list.scrollTop = (list.scrollHeight * step) / 300;
      await new Promise(requestAnimationFrame);
    }
  });
  console.log(`  scrolled from end to end, with 400 changes a second: ${await frames(page)}`);
  clearInterval(states);
  console.log(`  heap afterwards ${await memory(page)}; errors: ${JSON.stringify(page.errors)}`);
  await page.context().close();
  server.closeAllConnections();
  server.close();
}

/** How long the child takes to write it all, as it says itself. */
async function flooded(lab, bytes, rate) {
  const began = Date.now();
  const pace = rate ? `| python3 -c "import sys,time
begin=time.time();sent=0
while True:
    piece=sys.stdin.buffer.read1(65536)
    if not piece: break
    sys.stdout.buffer.write(piece);sys.stdout.flush();sent+=len(piece)
    ahead=sent/${rate}-(time.time()-begin)
    if ahead>0: time.sleep(ahead)"` : '';
  lab.write('flood.sh', `yes "$(printf '\\033[3%dm%0100d' 4 7)" | head -c ${bytes} ${pace}\nclear; echo it is over ${began}\n`);
  await lab.ok('POST', 'input', { text: 'bash flood.sh', enter: true });
  const look = async () => {
    for (;;) {
      const { json } = await lab.api('GET', 'screen/text');
      if (json.includes(`is over ${began}`)) return (Date.now() - began) / 1000;
      await new Promise((done) => setTimeout(done, 50));
    }
  };
  return inTime(look(), 'the flood ends', 300_000);
}

/** As fast as the child can write, with nobody looking and nothing recorded. */
async function bare() {
  const lab = new Lab();
  try {
    await lab.sidecar({ agent: 'unknown', command: SHELL });
    return await flooded(lab, FLOOD);
  } finally {
    await lab.close();
  }
}

async function floodedTerminal(chromium) {
  const speed = (seconds) => `${(FLOOD / seconds / 1e6).toFixed(0)} MB/s`;
  const unrecorded = await bare();
  const lab = new Lab();
  try {
    // As in a fleet, which records every agent.
    await lab.sidecar({ agent: 'unknown', command: SHELL, args: ['--record', join(lab.home, 'flood.cast')] });
    const recorded = await flooded(lab, FLOOD);
    const page = await open(chromium, `${lab.url}/#/agents/unknown/terminal`);
    await page.locator('.room[data-link=live]').waitFor();
    await page.evaluate(watchFrames);
    const watched = await flooded(lab, FLOOD);
    console.log(`a terminal with all that the child can write: ${speed(unrecorded)} alone, ${speed(recorded)} recorded, ${speed(watched)} with the page open too`);
    console.log(`  ${await frames(page)}; heap ${await memory(page)}`);
    await page.evaluate(watchFrames);
    const paced = await flooded(lab, RATE * 10, RATE);
    console.log(`at ${RATE / 1e6} MB/s for 10 s: took ${paced.toFixed(1)} s`);
    console.log(`  ${await frames(page)}; heap ${await memory(page)}; errors: ${JSON.stringify(page.errors)}`);
    await page.context().close();
  } finally {
    await lab.close();
  }
}

const chromium = await browser();
try {
  if (!process.argv.includes('--terminal')) await manyAgents(chromium);
  if (!process.argv.includes('--agents')) await floodedTerminal(chromium);
} finally {
  await chromium.close();
}
