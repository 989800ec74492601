// Breaks rules of the drivers one at a time and sees that their tests fail: a rule that nothing checks is none.
//
//   node tools/mutants.mjs [WORDS]      only those whose name contains the words
//
// Works in a copy of what is committed, with a target folder of its own. Takes some minutes.

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const DRIVERS = 'crates/coop-drivers';
/** What is broken: a name, the file, what stands there once, and what is put in its place. */
const MUTANTS = [
  ['Claude, keys: what allows counts as refusing', 'rules/claude.toml', 'kind = "allow_once"', 'kind = "reject"'],
  ['Gemini, keys: what allows counts as refusing', 'rules/gemini.toml', 'kind = "allow_once"', 'kind = "reject"'],
  ['Codex, keys: what allows counts as refusing', 'rules/codex.toml', 'kind = "allow_once"', 'kind = "reject"'],
  ['Claude, keys: a denial chooses what allows', 'src/claude/keys.rs', 'let option = of_kind(OptionKind::Reject)?;', 'let option = of_kind(OptionKind::AllowOnce)?;'],
  ['Gemini, keys: a denial chooses what allows', 'src/gemini/ask.rs', '(Some(false), None) => of_kind(offered, OptionKind::Reject)?', '(Some(false), None) => of_kind(offered, OptionKind::AllowOnce)?'],
  ['Codex, keys: a denial chooses what allows', 'src/codex/screen.rs', '(Some(false), None) => keys::of_kind(&offered, OptionKind::Reject)?', '(Some(false), None) => keys::of_kind(&offered, OptionKind::AllowOnce)?'],
  ['Claude, keys: Enter after the digit', 'src/claude/keys.rs', 'Choice::One(option) => vec![Step::Type(key(option))]', 'Choice::One(option) => vec![Step::Type(key(option)), Step::Type(ENTER)]'],
  ['Gemini, keys: Enter after the digit', 'src/gemini/ask.rs', '_ => vec![Step::Type(choose(&ask.options, answer)?)]', '_ => vec![Step::Type(choose(&ask.options, answer)?), Step::Type(ENTER)]'],
  ['Codex, keys: the letter of the documents', 'src/codex/screen.rs', 'Ok(vec![Step::Type(digit), keys::taken()])', 'Ok(vec![Step::Type(if answer.accept == Some(false) { "n".into() } else { digit }), keys::taken()])'],
  ['Claude, hook: a denial allows', 'src/claude/answer.rs', '"deny", "message": message }),\n    };\n    let output', '"allow", "message": message }),\n    };\n    let output'],
  ['Claude, pipe: a denial allows', 'src/claude/answer.rs', '"deny", "message": message }),\n    };\n    let response', '"allow", "message": message }),\n    };\n    let response'],
  ['Codex, server: a denial accepts', 'src/codex/asks.rs', '(COMMAND | FILES, _) => json!({ "decision": "decline" })', '(COMMAND | FILES, _) => json!({ "decision": "accept" })'],
  ['Codex, server: a denial grants', 'src/codex/asks.rs', '(PERMISSIONS, _) => json!({ "permissions": {}, "scope": "turn" })', '(PERMISSIONS, _) => json!({ "permissions": params["permissions"], "scope": "turn" })'],
  ['ACP: a denial allows once', 'src/acp/ask.rs', 'let mut noes = of_kind(PermissionOptionKind::RejectOnce)', 'let mut noes = of_kind(PermissionOptionKind::AllowOnce)'],
  ['OpenCode: a denial allows once', 'src/opencode/answer.rs', 'json!({ "reply": "reject", "message"', 'json!({ "reply": "once", "message"'],
];

const root = resolve(import.meta.dirname, '..');
const copy = join(root, 'target/mutants/copy');
rmSync(copy, { recursive: true, force: true });
mkdirSync(copy, { recursive: true });
execFileSync('bash', ['-c', `git archive HEAD | tar -x -C "${copy}"`], { cwd: root });

function test() {
  const env = { ...process.env, CARGO_TARGET_DIR: join(root, 'target/mutants/target') };
  return spawnSync('cargo', ['test', '-q', '-p', 'coop-drivers'], { cwd: copy, env, encoding: 'utf8' });
}

const whole = test();
if (whole.status !== 0) {
  console.error(whole.stdout + whole.stderr);
  throw new Error('the tests fail as they are');
}
let survived = 0;
for (const [name, file, from, to] of MUTANTS.filter(([name]) => name.includes(process.argv[2] ?? ''))) {
  const path = join(copy, DRIVERS, file);
  const text = readFileSync(path, 'utf8');
  if (text.split(from).length !== 2) throw new Error(`${file} does not have ${JSON.stringify(from)} once`);
  writeFileSync(path, text.replace(from, to));
  const { status, stdout, stderr } = test();
  writeFileSync(path, text);
  if (/^error(\[|:)/m.test(stderr) && !stderr.includes('test failed')) throw new Error(`${name} does not compile:\n${stderr}`);
  const seen = [...stdout.matchAll(/^ {4}(\w+(?:::\w+)+)$/gm)].map(([, test]) => test);
  console.log(`${status === 0 ? 'SURVIVED' : 'seen    '}  ${name}  ${[...new Set(seen)].join(' ')}`);
  survived += status === 0 ? 1 : 0;
}
process.exitCode = survived > 0 ? 1 : 0;
