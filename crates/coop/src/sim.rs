//! The built-in simulated agent: a prompt, some work, an answer. It needs no network and no key.

use std::io::{self, BufRead, Write};
use std::thread;
use std::time::Duration;

const WORK: [&str; 4] = ["Reading the request", "Looking at the files", "Making the change", "Running the tests"];
const PACE: Duration = Duration::from_millis(400);

pub(crate) fn run() -> anyhow::Result<i32> {
    let mut out = io::stdout();
    write!(out, "\x1b]2;coop sim\x07\x1b[1;36m coop sim \x1b[0m a simulated agent. Type a task, or `exit`.\r\n\r\n")?;
    prompt(&mut out)?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        match line.trim() {
            "" => {}
            "exit" | "quit" => {
                writeln!(out, "\x1b[2mGoodbye.\x1b[0m")?;
                return Ok(0);
            }
            task => work(&mut out, task)?,
        }
        prompt(&mut out)?;
    }
    Ok(0)
}

fn prompt(out: &mut impl Write) -> io::Result<()> {
    write!(out, "\x1b[1;32m>\x1b[0m ")?;
    out.flush()
}

fn work(out: &mut impl Write, task: &str) -> io::Result<()> {
    for (number, step) in WORK.iter().enumerate() {
        write!(out, "\x1b]2;⠋ coop sim\x07\r\x1b[K\x1b[33m{}\x1b[0m {step}…", ["⠋", "⠙", "⠹", "⠸"][number % 4])?;
        out.flush()?;
        thread::sleep(PACE);
    }
    writeln!(out, "\x1b]2;coop sim\x07\r\x1b[K\x1b[32m●\x1b[0m Done: {task}\n")
}
