use coop_api::Error;
use serde_json::Value;

use super::routes::ROUTES;
use super::types::{
    AgentCard, AgentCards, AuditBody, DownBody, Ending, FleetHealth, HistoryBody, LogEntries, Named, News, OpenAsks,
    Orphans, Snapshot, SpawnBody, Spawned, StatsBody,
};
use crate::openapi::{add, describe, generator};
use crate::page::LoginBody;
use crate::wire::Delivered;
use crate::workspaces::{AgentBody, ArriveBody, CreateBody, DeleteBody, NoteBody, OpenBody};

/// Returns the description of a daemon's own routes.
pub fn document() -> Value {
    let mut generator = generator();
    add::<FleetHealth>(&mut generator);
    add::<AgentCard>(&mut generator);
    add::<AgentCards>(&mut generator);
    add::<SpawnBody>(&mut generator);
    add::<Named>(&mut generator);
    add::<Spawned>(&mut generator);
    add::<OpenAsks>(&mut generator);
    add::<Orphans>(&mut generator);
    add::<AuditBody>(&mut generator);
    add::<LogEntries>(&mut generator);
    add::<HistoryBody>(&mut generator);
    add::<Snapshot>(&mut generator);
    add::<News>(&mut generator);
    add::<StatsBody>(&mut generator);
    add::<DownBody>(&mut generator);
    add::<Ending>(&mut generator);
    add::<ArriveBody>(&mut generator);
    add::<OpenBody>(&mut generator);
    add::<CreateBody>(&mut generator);
    add::<DeleteBody>(&mut generator);
    add::<NoteBody>(&mut generator);
    add::<AgentBody>(&mut generator);
    add::<LoginBody>(&mut generator);
    add::<Delivered>(&mut generator);
    add::<Error>(&mut generator);
    describe(generator, ROUTES, "Many agents, see docs/FLEET.md. What is below an agent is in openapi.json.")
}
