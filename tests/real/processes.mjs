// Finds the processes of an agent wherever they went: daemons keep the environment they were started with.

import { readdirSync, readFileSync } from 'node:fs';

/** Returns the processes with the folder in their environment. */
export function processesOf(folder) {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
    try {
      const read = (file) => readFileSync(`/proc/${pid}/${file}`, 'utf8').replaceAll('\0', ' ').trim();
      return read('environ').includes(folder) ? [{ pid: Number(pid), command: read('cmdline') }] : [];
    } catch {
      return []; // It ended meanwhile, or is not ours.
    }
  });
}

export function killAll(processes) {
  for (const { pid } of processes) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It ended meanwhile.
    }
  }
}
