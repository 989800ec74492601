//! From a keystroke to its echo.

mod lines;

use std::ffi::OsStr;
use std::future::Future;
use std::time::Duration;

use crate::client::block_on;
use crate::lab::Lab;
use crate::sidecar::Sidecar;
use crate::stats::Samples;
use crate::table::{Bound, Row, Table};

use self::lines::{BareLine, GrpcLine, HttpLine, WsLine};

/// Keystrokes in a row on one line, before the others have their turn.
const TURN: usize = 50;
const PATIENCE: Duration = Duration::from_secs(120);

/// A way to type a byte and see it come back.
trait Line {
    /// Types a byte and returns how long its echo took.
    fn echo(&mut self) -> impl Future<Output = anyhow::Result<Duration>>;
}

pub(crate) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let command = lab.part(&[OsStr::new("echo")]);
    // A sidecar each, so that nobody is told of the others' echoes.
    let (for_ws, for_http, for_grpc) =
        (Sidecar::start(lab, &command)?, Sidecar::start(lab, &command)?, Sidecar::start(lab, &command)?);
    let (mut bare, mut ws, mut http, mut grpc) =
        (Samples::default(), Samples::default(), Samples::default(), Samples::default());
    block_on(PATIENCE, async {
        let mut bare_line = BareLine::open(&command)?;
        let mut ws_line = WsLine::open(&for_ws).await?;
        let mut http_line = HttpLine::open(&for_http).await?;
        let mut grpc_line = GrpcLine::open(&for_grpc).await?;
        let turns = lab.effort.keystrokes.div_ceil(TURN);
        for turn in 0..=turns {
            if turn == 1 {
                // What came first was to get warm.
                (bare, ws, http, grpc) = Default::default();
            }
            take_turn(&mut bare_line, &mut bare).await?;
            take_turn(&mut ws_line, &mut ws).await?;
            take_turn(&mut http_line, &mut http).await?;
            take_turn(&mut grpc_line, &mut grpc).await?;
        }
        anyhow::Ok(())
    })?;
    for (name, samples) in [("WebSocket", ws), ("HTTP", http), ("gRPC", grpc)] {
        let more = (samples.percentile(99.0) - bare.percentile(99.0)) / 1e3;
        table.row(
            &Row::new(format!("keystroke to echo, {name}"))
                .ours(describe(&samples))
                .reference(format!("bare {}", describe(&bare)))
                .value(format!("p99 {more:+.2} ms"))
                .goal(more, Bound::Below(1.0), " ms"),
        )?;
    }
    Ok(())
}

fn describe(samples: &Samples) -> String {
    format!("p50 {:.0}, p99 {:.0} µs", samples.median(), samples.percentile(99.0))
}

async fn take_turn(line: &mut impl Line, samples: &mut Samples) -> anyhow::Result<()> {
    for _ in 0..TURN {
        samples.push(line.echo().await?.as_secs_f64() * 1e6);
    }
    Ok(())
}
