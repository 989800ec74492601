// Breaks the rules of the drivers, the guards of SECURITY.md and those of the page one at a time and sees that their tests fail.
//
//   node tools/mutants.mjs [WORDS]      only those whose name contains the words
//
// Works in a copy of what is committed, with a target folder of its own. Takes some minutes.

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** Rules of the drivers: a name, the file in their crate, what stands there once, and what is put in its place. */
const DRIVERS = [
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

/** What stops the attacks in SECURITY.md: the file, what stands there once, what is put in its place, a package, and the tests that try the attack. */
const GUARDS = [
  ['1, 3c: git reads the configuration of the repository', 'crates/coop-folder/src/git.rs', 'harmless(&theirs, remotes)?', '{ let _ = harmless(&theirs, remotes)?; theirs }', 'coop-folder', 'no_program_of_a_repository_runs'],
  ['1: files of the folder are opened through links', 'crates/coop-folder/src/files.rs', 'Mode::empty(), ResolveFlags::NO_SYMLINKS', 'Mode::empty(), ResolveFlags::empty()', 'coop-folder', 'a_link_or_a_pipe_in_the_folder_is_not_read'],
  ['2: a port serves every user', 'crates/coop-server/src/peer.rs', 'uid == own || uid == 0', 'uid == own || uid < u32::MAX', 'coop', 'another_user_gets_nothing_from_a_port'],
  ['3a: a socket that no process has open is outside', 'crates/coop-server/src/ancestry.rs', 'if !origins.is_empty() && origins', 'if origins', 'coop-server', 'a_socket_that_is_on_its_way_between_processes_is_of_unknown_origin'],
  ['3b: only what is below this process is an agent\'s', 'crates/coop-server/src/ancestry.rs', 'if runs_agents && !self.trusted', 'if false && runs_agents && !self.trusted', 'coop', 'an_agent_cannot_answer_for_another_agent'],
  ['3b: the agent\'s own socket takes orders', 'crates/coop-server/src/peer.rs', 'Self::known(End::AgentSocket, Origin::Agent)', 'Self::known(End::AgentSocket, Origin::Outside)', 'coop', 'what_an_agent_runs_cannot_answer_for_its_user|a_program_in_a_sandbox_touches_nothing_but_its_folder'],
  ['3c: what a daemon runs is trusted by its sidecars', 'crates/coop-server/src/ancestry.rs', '..Self::above(parent) }', '..Self::above(std::process::id()) }', 'coop', 'a_gate_cannot_steer_an_agent'],
  ['3d: coop adopts no orphans', 'crates/coop/src/shield.rs', 'set_child_subreaper(Some(rustix::process::getpid()))', 'set_child_subreaper(None)', 'coop', 'an_agent_that_kills_its_sidecar_stays_an_agent|what_an_agent_runs_cannot_answer_for_its_user'],
  ['4a: a list shows the first line of an ask', 'crates/coop/src/fleet/asks.rs', 'visible(text).lines().map(str::to_owned).collect::<Vec<_>>()', 'visible(text).lines().take(1).map(str::to_owned).collect::<Vec<_>>()', 'coop', 'an_ask_is_listed_whole_and_a_yes_names_it'],
  ['4b: a yes names no ask', 'crates/coop-server/src/fleet/pass.rs', 'if answer.ask.is_some() || answer.is_denial() {', 'if answer.ask.is_none() || answer.ask.is_some() {', 'coop', 'an_answer_over_the_daemons_web_socket_names_its_ask'],
  ['4d: hidden characters stay as they are', 'crates/coop/src/fleet/asks.rs', 'let lines = |text: &str| visible(text).lines()', 'let lines = |text: &str| text.lines()', 'coop', 'hidden_characters_are_named_in_lists_and_escaped_in_json'],
  ['5: a program in any folder is judged by its name', 'crates/coop-policy/src/shell.rs', 'SYSTEM_FOLDERS.contains(&folder).then_some(name)', 'Some(name).filter(|_| !folder.is_empty())', 'coop-policy', 'what_looked_harmless_by_its_name_or_options_counts_as_the_worst'],
  ['7: a denial does not look behind what starts a program', 'crates/coop-policy/src/sight.rs', 'starts(rest, before + 1).all.into_iter()', 'starts(rest, before + 1).all.into_iter().take(0)', 'coop-policy', 'a_denied_command_is_found_behind_what_starts_it'],
  ['7: what no word shows is not asked', 'crates/coop-policy/src/sight.rs', 'if let Some(why) = why_opaque(name, rest) {', 'if let Some(why) = why_opaque(name, rest).filter(|_| false) {', 'coop-policy', 'what_a_denial_cannot_judge_is_asked'],
  ['8: programs of the daemon get its variables', 'crates/coop-fleet/src/bounded.rs', 'remove_coop_variables(&mut command, std::env::vars_os().map(|(name, _)| name));', '', 'coop', 'programs_that_the_daemon_starts_get_none_of_its_secrets'],
  ['9: whatever listens on the socket is the sidecar', 'crates/coop-fleet/src/sidecar/process.rs', 'own.windows(3).any(names_folder) && user_of(pid)', 'own.windows(3).any(|words| names_folder(words) || true) && user_of(pid)', 'coop', 'what_an_agent_writes_to_its_folder_names_no_sidecar'],
  ['9: another process may speak for the sidecar', 'crates/coop-fleet/src/sidecar/client.rs', 'if listener.as_ref() != Some(expected) {', 'if listener.as_ref() != Some(expected) && false {', 'coop', 'another_process_on_a_sidecars_socket_is_not_heard'],
  ['10: an agent starts as many as it likes', 'crates/coop/src/fleet/family.rs', 'if living >= most as usize {', 'if living >= most as usize && false {', 'coop', 'an_agent_starts_no_more_agents_than_the_width_in_its_whole_subtree'],
  ['10: each agent has a budget of its own', 'crates/coop/src/fleet/family.rs', 'filter(|most| member.cost >= *most)', 'filter(|most| member.cost >= *most && false)', 'coop', 'a_budget_holds_for_all_that_are_below'],
  ['10: a message does not name its sender', 'crates/coop/src/fleet/tools_agents.rs', 'format!("[from agent {sender}] {message}")', 'format!("{message}{}", &sender.0[..0])', 'coop', 'a_message_of_an_agent_says_so_to_its_reader_and_in_the_log'],
  ['11: a login reads whatever comes', 'crates/coop-server/src/intake.rs', '"/api/v1/login" | "/api/v1/logout" => LOGIN_BODY', '"/api/v1/login" | "/api/v1/logout" => LOGIN_BODY * 10_000', 'coop-server', 'a_login_reads_no_more_than_a_token'],
  ['11: events are counted and not weighed', 'crates/coop-session/src/log.rs', '|| self.bytes > KEPT_BYTES', '|| self.bytes > usize::MAX / 2', 'coop-session', 'large_events_are_cut_and_all_together_are_bounded'],
  ['14: anybody reads what a daemon writes', 'crates/coop-fleet/src/private.rs', '.mode(0o600).open(&new)', '.mode(0o644).open(&new)', 'coop', 'what_a_daemon_and_its_sidecars_write_is_for_this_user_only'],
  ['sandbox: processes outside are seen', 'crates/coop-sandbox/src/reach.rs', '"--unshare-user", "--unshare-pid",', '"--unshare-user",', 'coop', 'a_program_in_a_sandbox_touches_nothing_but_its_folder'],
  ['sandbox: it outlives its sidecar', 'crates/coop-sandbox/src/reach.rs', '["--die-with-parent", ', '[', 'coop', 'all_that_runs_in_a_sandbox_ends_with_its_sidecar'],
  ['sandbox: nothing is hidden', 'crates/coop-sandbox/src/mount.rs', 'Kind::Hidden if self.is_hidden_folder()', 'Kind::Hidden if true => Vec::new(),\n            Kind::Hidden if self.is_hidden_folder()', 'coop', 'a_program_in_a_sandbox_touches_nothing_but_its_folder'],
  ['sandbox: the settings and hooks of git can be written to', 'crates/coop-sandbox/src/reach.rs', 'read.extend(git.read);', 'drop(git.read);', 'coop', 'a_program_in_a_sandbox_touches_nothing_but_its_folder'],
  ['sandbox: open files are passed on', 'crates/coop/src/main.rs', 'close_fds::CloseFdsBuilder::new().cloexecfrom(FIRST_INHERITED);', 'let _ = FIRST_INHERITED;', 'coop', 'open_files_do_not_reach_a_program_in_a_sandbox'],
  ['1: gates run where an agent\'s folder is not to be trusted', 'crates/coop-fleet/src/fleet/outside.rs', 'match self.refuses_gates {', 'match self.refuses_gates.filter(|_| false) {', 'coop-fleet', 'a_gate_that_is_refused_does_not_run'],
  ['6: a path rule allows a command', 'crates/coop-policy/src/rules.rs', '&& (subject.command.is_none() || rule.command.is_some())', '', 'coop-policy', 'a_path_rule_never_allows_a_command'],
  ['9: an agent wakes others of any project', 'crates/coop/src/fleet/sleep.rs', 'filter(|id| own.contains(id))', 'filter(|_| true)', 'coop', 'an_agent_wakes_no_agent_of_another_project'],
  ['12: the metadata service can be reached', 'crates/coop-kube/src/network.rs', 'Some(block_without(block.parse().ok()?, &PRIVATE))', 'Some(block_without(block.parse().ok()?, &PRIVATE[..0]))', 'coop-kube', 'an_agent_reaches_the_internet_and_nothing_private_by_default'],
  ['12: any claim is mounted', 'crates/coop-kube/src/world.rs', 'is_some_and(|is| is == value) => ExistingClaim::Allowed', 'is_none_or(|is| is == value) => ExistingClaim::Allowed', 'coop-kube', 'a_claim_is_mounted_once_it_has_the_label|a_claim_that_is_not_meant_for_agents_is_refused'],
  ['12: the kubelet puts variables into words', 'crates/coop-kube/src/manifest.rs', "text.replace('$', \"$$\")", "text.replace('$', \"$\")", 'coop-kube', 'the_kubelet_puts_no_variable_into_a_word'],
  ['13: every folder is trusted', 'crates/coop-drivers/src/claude/setup.rs', 'if launch.trusts_folder {', 'if launch.trusts_folder || true {', 'coop-drivers', 'a_folder_is_trusted_only_if_that_was_said'],
  ['14: wrong tokens cost nothing', 'crates/coop-server/src/page/sessions.rs', 'self.failed < ATTEMPTS', 'self.failed < ATTEMPTS * 1000', 'coop-server', 'wrong_tokens_cost_time_after_the_first_ten'],
  ['an escape in the path to an agent', 'crates/coop-server/src/fleet/pass.rs', "if request.uri().path().contains('%') {", "if request.uri().path().contains('%') && false {", 'coop-server', 'an_escape_in_the_path_to_an_agent_is_refused'],
  ['a socket bound to an interface is another machine\'s', 'crates/coop-server/src/ancestry.rs', '["/proc/net/tcp", "/proc/net/tcp6"].into_iter()', '["/proc/net/tcp", "/proc/net/tcp6"].into_iter().take(0)', 'coop-server', 'a_client_that_is_bound_to_an_interface_is_found'],
  ['Gemini: a report of any kind fits', 'crates/coop-drivers/src/gemini/ask.rs', 'question == ALLOW_CHANGE && above', 'above', 'coop-drivers', 'a_report_fits_only_a_dialog_of_its_kind_and_its_file'],
  ['Gemini: a report of any file fits', 'crates/coop-drivers/src/gemini/ask.rs', "before.ends_with(' ') && (after.is_empty()", "(after.is_empty()", 'coop-drivers', 'a_report_fits_only_a_dialog_of_its_kind_and_its_file'],
  ['sandbox: hidden under one name', 'crates/coop-sandbox/src/reach.rs', 'hidden.extend(other_names(&shared_paths)?);', 'drop(other_names(&shared_paths)?);', 'coop', 'what_is_hidden_is_hidden_under_every_name'],
  ['sandbox: its configuration is that of agents outside', 'crates/coop/src/driven/files.rs', 'if !sandbox.is_wanted {', 'if true {', 'coop', 'each_sandbox_has_a_configuration_of_its_own'],
  ['sandbox: adopted without one', 'crates/coop/src/fleet/adhoc.rs', 'found.sandbox.as_ref().map(sandbox_line)', 'found.sandbox.as_ref().filter(|_| false).map(sandbox_line)', 'coop', 'an_adopted_agent_keeps_its_sandbox'],
  ['sandbox: it starts agents outside', 'crates/coop/src/fleet/tools.rs', 'check_child_limits(&caller_defined, &child_defined)?;', '', 'coop', 'an_agent_in_a_sandbox_starts_no_agent_outside_of_it'],
  ['sandbox: its variables are bubblewrap\'s', 'crates/coop-term/src/pty.rs', 'if self.sandbox.is_none() || value.is_none() {', 'if self.sandbox.is_none() || value.is_none() || true {', 'coop', 'variables_of_a_program_in_a_sandbox_are_not_those_of_the_sandbox'],
  ['sandbox: others are looked at by a port', 'crates/coop-server/src/ancestry.rs', 'depth if depth > namespace_depth(self.own)', 'depth if depth > namespace_depth(self.own) && false', 'coop', 'an_agent_in_a_sandbox_reaches_no_other_agent_and_not_its_daemon'],
  ['sandbox: the sidecar reads what is hidden', 'crates/coop-session/src/agent_files.rs', 'if sandbox.access_to(&real) >= wanted {', 'if sandbox.access_to(&real) >= wanted || true {', 'coop-session', 'a_link_to_what_the_sandbox_hides_is_not_read|what_the_sandbox_hides_or_protects_is_neither_read_nor_written'],
];

/** What keeps a person from allowing what was not on the screen: a name, the file of the page, what stands there once, what is put in its place. */
const PAGE = [
  ['4c, page: allowed before all of it was on the screen', 'src/views/AskCard.svelte', 'busy || !still || (approves(option) && !seen)', 'busy || !still'],
  ['4c, page: the end counts for all of it', 'src/lib/reading.ts', 'this.#parts.length > 0 && this.missing.length === 0', 'this.missing.every(({ to }) => to < this.#height)'],
  ['4c, page: lines that fly past count', 'src/lib/reading.ts', 'LONG_ENOUGH_MS = 200', 'LONG_ENOUGH_MS = 20'],
  ['4c, page: what lies below the window counts', 'src/lib/screen.ts', 'Math.max(shown.top, top), to: Math.min(shown.bottom,', 'Math.max(all.top, top), to: Math.max(all.bottom,'],
  ['4c, page: what lies behind a dialog counts', 'src/lib/screen.ts', 'from < to && !isOnTop(', 'from < to && false && !isOnTop('],
  ['4c, page: the next ask is marked when one goes', 'src/lib/ui.svelte.ts', "if (keys.length === 0) this.marked = '';", "if (!keys.includes(this.marked)) this.marked = keys[0] ?? '';"],
  ['4c, page: new asks come first', 'src/lib/open.ts', '[...before.filter((one) => open.has(keyOf(one))), ...now.filter((one) => !known.has(keyOf(one)))]', '[...now.filter((one) => !known.has(keyOf(one))), ...before.filter((one) => open.has(keyOf(one)))]'],
  ['4c, page: a card that has just moved takes a click', 'src/views/AskCard.svelte', 'STILL_MS = 500', 'STILL_MS = 0'],
  ['4d, page: hidden characters stay as they are', 'src/lib/visible.ts', 'return text.replace(HIDDEN,', "return text.replace(/^never$/,"],
];

const root = resolve(import.meta.dirname, '..');
const copy = join(root, 'target/mutants/copy');
const isWanted = ([name]) => name.includes(process.argv[2] ?? '');
rmSync(copy, { recursive: true, force: true });
mkdirSync(copy, { recursive: true });
execFileSync('bash', ['-c', `git archive HEAD | tar -x -C "${copy}"`], { cwd: root });

function test(crate, tests) {
  const env = { ...process.env, CARGO_TARGET_DIR: join(root, 'target/mutants/target'), CARGO_INCREMENTAL: '1', INSTA_UPDATE: 'no' };
  // A test that hangs has seen it too.
  const filter = `package(${crate}) and test(/${tests}/)`;
  return spawnSync('cargo', ['nextest', 'run', '-p', crate, '--no-fail-fast', '-E', filter], { cwd: copy, env, encoding: 'utf8' });
}

/** Builds the page of the copy and runs its test in a browser, with the program as it is. */
function testPage() {
  const built = spawnSync('npm', ['run', '--silent', 'build'], { cwd: join(copy, 'web'), encoding: 'utf8' });
  if (built.status !== 0) throw new Error(`the page cannot be built:\n${built.stdout}${built.stderr}`);
  const env = { ...process.env, COOP_BIN: join(root, 'target/debug/coop'), COOP_WEB_DIST: join(copy, 'web/dist/page') };
  return spawnSync('node', ['--test', 'tests/web/unseen.test.mjs'], { cwd: copy, env, encoding: 'utf8' });
}

const all = [
  ...DRIVERS.map(([name, file, from, to]) => [name, join('crates/coop-drivers', file), from, to, 'coop-drivers', '.']),
  ...GUARDS,
].filter(isWanted);
const pages = PAGE.filter(isWanted);
for (const crate of new Set(all.map((mutant) => mutant[4]))) {
  const tests = [...new Set(all.filter((mutant) => mutant[4] === crate).map((mutant) => mutant[5]))].join('|');
  const whole = test(crate, tests);
  if (whole.status === 0) continue;
  console.error(whole.stdout + whole.stderr);
  throw new Error(`the tests of ${crate} fail as they are`);
}
let survived = 0;

/** Runs what tells whether the tests see a file with one thing in it changed. */
function broken(file, from, to, run) {
  const path = join(copy, file);
  const text = readFileSync(path, 'utf8');
  if (text.split(from).length !== 2) throw new Error(`${file} does not have ${JSON.stringify(from)} once`);
  writeFileSync(path, text.replace(from, () => to));
  const outcome = run();
  writeFileSync(path, text);
  return outcome;
}

function report(name, status, seen) {
  console.log(`${status === 0 ? 'SURVIVED' : 'seen    '}  ${name}  ${[...new Set(seen)].join(' ')}`);
  survived += status === 0 ? 1 : 0;
}

for (const [name, file, from, to, crate, tests] of all) {
  const { status, stderr } = broken(file, from, to, () => test(crate, tests));
  const seen = [...stderr.matchAll(/^ +(?:FAIL|TIMEOUT|SIGNAL|ABORT|LEAK-FAIL)[^\n]* ([\w:]+)$/gm)].map(([, test]) => test);
  if (status !== 0 && seen.length === 0) throw new Error(`${name} does not compile:\n${stderr}`);
  report(name, status, seen);
}
if (pages.length > 0) {
  for (const folder of ['web', 'tests/web']) symlinkSync(join(root, folder, 'node_modules'), join(copy, folder, 'node_modules'));
  const whole = testPage();
  if (whole.status !== 0) throw new Error(`the test of the page fails as it is:\n${whole.stdout}`);
}
for (const [name, file, from, to] of pages) {
  const { status, stdout } = broken(join('web', file), from, to, testPage);
  const seen = [...stdout.matchAll(/^not ok \d+ - (.*)$/gm)].map(([, test]) => `“${test}”`);
  if (status !== 0 && seen.length === 0) throw new Error(`${name} ended the test of the page:\n${stdout}`);
  report(name, status, seen);
}
process.exitCode = survived > 0 ? 1 : 0;
