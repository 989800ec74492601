// Prints where the agents' programs are, as words for `env`: COOP_REAL_CLAUDE=… COOP_REAL_CODEX=… With a name, that program's path.

import { accessSync, constants } from 'node:fs';
import { AGENTS } from './agents.mjs';

const [wanted] = process.argv.slice(2);
const agents = AGENTS.filter(({ name }) => [undefined, name].includes(wanted));
if (agents.length === 0) throw new Error(`there is no agent ${wanted}`);
for (const { program } of agents) accessSync(program, constants.X_OK);
console.log(wanted ? agents[0].program : agents.map(({ name, program }) => `COOP_REAL_${name.toUpperCase()}=${program}`).join(' '));
