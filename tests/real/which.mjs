// Prints where an agent's program is.

import { accessSync, constants } from 'node:fs';
import { AGENTS } from './agents.mjs';

const agent = AGENTS.find(({ name }) => name === process.argv[2]);
if (!agent) throw new Error(`there is no agent ${process.argv[2]}`);
accessSync(agent.program, constants.X_OK);
console.log(agent.program);
