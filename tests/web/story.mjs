// A fleet that looks like one at work: for pictures, and for tests of how things look.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

const STORY = `Make the parser faster and tell me what you did. [[think:Where is the time spent?]] [[read:parser.rs]] [[text:I read \`parser.rs\`. **Two things** cost most:

1. it copies every token
2. it looks keywords up in a list

| Part | Before | After |
|---|---|---|
| lexer | 12 ms | 4 ms |
| parser | 31 ms | 18 ms |

\`\`\`rust
// Tokens borrow from the source now.
fn next(&mut self) -> Option<Token<'a>> { self.tokens.pop() }
\`\`\`
]]`;

/** Starts a daemon with agents in all kinds of states; `parser` asks for an edit in the end. */
export async function tell(lab) {
  lab.write('parser.rs', 'fn next() -> Token {\n    let token = lex();\n    token.clone()\n}\n');
  lab.write('notes.md', '# Notes\n');
  const git = (...args) => execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.c', ...args], { cwd: lab.work });
  git('init', '-q', '-b', 'main');
  git('add', '.');
  git('commit', '-qm', 'first');
  lab.write('notes.md', '# Notes\n\nThe lexer borrows now.\n');
  await lab.up();
  const web = join(lab.home, 'shop', 'web');
  const lint = join(lab.home, 'tools', 'lint');
  const { id } = await lab.ok('POST', 'projects', { path: lab.work });
  await lab.workspace(id, 'fix/login', 'fixer', 'Find out why the login is slow. [[text:It waits for a name server that is gone.]]');
  await lab.workspace(id, 'spike/cache', 'dreamer', 'Try a cache. [[text:It is twice as fast.]]');
  await lab.agent('parser', STORY);
  await lab.agent('painter', 'Paint the buttons. [[hang]]', { folder: web });
  await lab.agent('helper', 'Which database fits? [[ask]]', { folder: web });
  await lab.agent('gone', '[[exit:3]]', { folder: lint });
  await lab.agent('failing', '[[err:401]]', { folder: lint });
  const rule = '[[policy]]\ntool = "Bash"\ncommand = "touch *"\ndecide = "allow"\nwhy = "a report does no harm"\n';
  await lab.agent('tester', 'Run the tests. [[bash:touch report.txt]] [[text:All pass.]]', { folder: lint, more: rule });
  await lab.tell('tester', 'Thank you. [[text:You are welcome.]]');
  for (const agent of ['fixer', 'dreamer']) await lab.tell(agent, 'Go on. [[text:Done.]]');
  await lab.ok('POST', `workspaces/${id}/${encodeURIComponent('spike/cache')}/hibernate`, {});
  await lab.end('fixer');
  await lab.ok('POST', 'agents/fixer/revive', {});
  await lab.tell('fixer', 'Mend it. [[text:It asks nobody any more.]]');
  await lab.tell('parser', 'Now change it. [[edit:parser.rs|    let token = lex();\n    token.clone()|    lex()]] [[text:Done.]]');
}
