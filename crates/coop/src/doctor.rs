//! `coop doctor`: which agents are here, and what would not work.

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use coop_drivers::{KNOWN, Known, Login};
use coop_fleet::bounded;
use serde::Serialize;

use crate::cli::Doctor;
use crate::inotify;
use crate::install::{self, is_between};
use crate::paths::on_path;

/// How long an agent may take to say its version.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was found of one agent.
#[derive(Serialize)]
struct Finding {
    agent: &'static str,
    /// Where its program is.
    program: Option<PathBuf>,
    version: Option<String>,
    /// The oldest and the newest version that coop was tested with; none for a protocol.
    tested: Option<(&'static str, &'static str)>,
    /// Whether the version is one of those, or between them.
    is_tested: Option<bool>,
    /// Where its login is, if there is one. What it is is never read.
    login: Option<String>,
    runtimes: Vec<&'static str>,
    /// What would not work, and what to do about it.
    problems: Vec<String>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    agents: Vec<Finding>,
    /// Why agents cannot run in a sandbox, if they cannot.
    no_sandbox: Option<String>,
    inotify: Option<String>,
}

pub(crate) async fn run(options: Doctor) -> anyhow::Result<i32> {
    let mut findings = Vec::new();
    for known in KNOWN {
        findings.push(look(known).await);
    }
    let mut out = io::stdout().lock();
    let no_sandbox = coop_sandbox::check().err().map(|why| why.to_string());
    if options.json {
        let report = Report { agents: findings, no_sandbox, inotify: inotify::report() };
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        out.write_all(table(&findings).as_bytes())?;
        match no_sandbox {
            None => writeln!(out, "\nAgents can run in a sandbox (`coop --sandbox`).")?,
            Some(why) => writeln!(out, "\nAgents cannot run in a sandbox (`coop --sandbox`): {why}.")?,
        }
        if let Some(report) = inotify::report() {
            writeln!(out, "\n{report}")?;
        }
    }
    Ok(0)
}

async fn look(known: &Known) -> Finding {
    let program = match known.programs {
        // It is what runs now.
        [] => env::current_exe().ok(),
        names => names.iter().find_map(|name| on_path(name)).or_else(|| install::program(known.name)),
    };
    let mut problems = Vec::new();
    let version = match &program {
        None => {
            problems.push(absent(known));
            None
        }
        Some(program) => match version(program).await {
            Ok(version) => Some(version),
            Err(why) => {
                problems.push(format!("{} does not tell its version: {why}", program.display()));
                None
            }
        },
    };
    let is_within = |(oldest, newest)| version.as_deref().is_some_and(|version| is_between(version, oldest, newest));
    let is_tested = known.tested.map(is_within);
    if let (Some(version), Some((oldest, newest)), Some(false)) = (&version, known.tested, is_tested) {
        let range = if oldest == newest { oldest.to_owned() } else { format!("{oldest} to {newest}") };
        problems.push(format!("coop was tested with {range}; with {version} watch `GET /api/v1/agent/explain`"));
    }
    let login = login(known);
    if login.is_none() && program.is_some() {
        problems.extend(without_login(known));
    }
    Finding {
        agent: known.name,
        program,
        version,
        tested: known.tested,
        is_tested,
        login,
        runtimes: known.runtimes.iter().map(|runtime| runtime.as_str()).collect(),
        problems,
    }
}

fn absent(known: &Known) -> String {
    let names = known.programs.join(" or ");
    match known.tested {
        Some((_, newest)) => format!("{names} is not on PATH; `coop install {}@{newest}` installs it", known.name),
        None => format!("{names} is not on PATH; any other program that speaks it can be named after --"),
    }
}

/// Returns what to do to log in, if that is known.
fn without_login(known: &Known) -> Option<String> {
    let by_key = (!known.keys.is_empty()).then(|| format!("set {}", known.keys.join(" or ")));
    let by_file = (!known.logins.is_empty()).then(|| format!("log in with {}", known.name));
    let ways: Vec<_> = by_key.into_iter().chain(by_file).collect();
    (!ways.is_empty()).then(|| format!("no login was found: {}", ways.join(" or ")))
}

/// Asks a program for its version.
async fn version(program: &Path) -> Result<String, String> {
    let mut command = bounded::command(program);
    command.arg("--version");
    let output = bounded::output(command, PATIENCE).await.map_err(|error| error.to_string())?;
    let output = output.ok_or("it does not answer")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    match said.split_whitespace().map(|word| word.trim_start_matches('v')).find(is_version) {
        Some(version) if output.status.success() => Ok(version.to_owned()),
        _ => {
            let complaint = String::from_utf8_lossy(&output.stderr);
            Err(complaint.lines().next().unwrap_or("it says nothing").to_owned())
        }
    }
}

/// Returns where an agent's login is. Only whether it is there is looked at.
fn login(known: &Known) -> Option<String> {
    let is_set = |name: &&&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    if let Some(name) = known.keys.iter().find(is_set) {
        return Some(format!("${name}"));
    }
    known.logins.iter().find_map(login_file)
}

/// Returns where a login is, in words that name no more of the machine than needed.
fn login_file(login: &Login) -> Option<String> {
    if let Some(folder) = env::var_os(login.variable).filter(|value| !value.is_empty()) {
        return Path::new(&folder).join(login.file).is_file().then(|| format!("${}/{}", login.variable, login.file));
    }
    let below = Path::new(login.folder).join(login.file);
    PathBuf::from(env::var_os("HOME")?).join(&below).is_file().then(|| format!("~/{}", below.display()))
}

fn table(findings: &[Finding]) -> String {
    let mut rows = vec![["AGENT", "VERSION", "TESTED", "LOGIN", "RUNTIMES", "PROGRAM"].map(str::to_owned)];
    for finding in findings {
        rows.push([
            finding.agent.to_owned(),
            finding.version.clone().unwrap_or_else(|| "-".to_owned()),
            finding.is_tested.map_or("-", |is_tested| if is_tested { "yes" } else { "no" }).to_owned(),
            finding.login.clone().unwrap_or_else(|| "-".to_owned()),
            finding.runtimes.join(","),
            finding.program.as_ref().map_or("-".to_owned(), |program| program.display().to_string()),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let line: String = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}  ")).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for finding in findings {
        for problem in &finding.problems {
            text.push_str(&format!("\n{}: {problem}", finding.agent));
        }
    }
    text.push('\n');
    text
}
