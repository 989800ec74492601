//! The tables, and how a store of an earlier version becomes one of this.

/// The latest format that is known here.
pub(super) const KNOWN: u32 = SQLITE.len() as u32;

/// Each makes the next version of the file. They are never changed, only added to.
pub(super) const SQLITE: [&str; 2] = [
    "
    -- Everything that happened, in the order in which it was heard.
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        agent TEXT NOT NULL,
        -- Which sidecar told it, and its number there; nothing for what did not come from one.
        sidecar TEXT,
        seq INTEGER,
        at INTEGER NOT NULL,
        -- What it means to the engine, and what the sidecar said, as JSON.
        input TEXT,
        event TEXT,
        -- What holds for the agent from here on, as JSON.
        defined TEXT,
        UNIQUE (agent, sidecar, seq)
    );
    CREATE INDEX events_by_agent ON events (agent, id);
    CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;

    -- What is to be done, and what became of it.
    CREATE TABLE intents (
        id TEXT PRIMARY KEY,
        agent TEXT NOT NULL,
        cause INTEGER NOT NULL,
        intent TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending',
        changed INTEGER NOT NULL,
        note TEXT
    );
    CREATE INDEX intents_open ON intents (state) WHERE state IN ('pending', 'claimed');

    -- Follows from the events.
    CREATE TABLE agents (id TEXT PRIMARY KEY, record TEXT NOT NULL);
    CREATE TABLE asks (
        agent TEXT NOT NULL, ask TEXT NOT NULL, sidecar TEXT NOT NULL, body TEXT NOT NULL,
        opened INTEGER NOT NULL, closed INTEGER,
        PRIMARY KEY (agent, sidecar, ask)
    );
    ",
    "
    -- Up to which number events of agents that were forgotten are gone.
    CREATE TABLE forgotten (through INTEGER NOT NULL);
    ",
];

/// The same for PostgreSQL. `rowid` is what SQLite gives every row by itself: the order in which they came.
#[cfg(feature = "postgres")]
pub(super) const POSTGRES: [&str; 2] = [
    "
    -- Everything that happened, in the order in which it was heard.
    CREATE TABLE events (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        agent TEXT NOT NULL,
        -- Which sidecar told it, and its number there; nothing for what did not come from one.
        sidecar TEXT,
        seq BIGINT,
        at BIGINT NOT NULL,
        -- What it means to the engine, and what the sidecar said, as JSON.
        input TEXT,
        event TEXT,
        -- What holds for the agent from here on, as JSON.
        defined TEXT,
        UNIQUE (agent, sidecar, seq)
    );
    CREATE INDEX events_by_agent ON events (agent, id);
    CREATE FUNCTION events_stay() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION ''events are never changed''; END';
    CREATE TRIGGER events_stay BEFORE UPDATE ON events FOR EACH STATEMENT EXECUTE FUNCTION events_stay();

    -- What is to be done, and what became of it.
    CREATE TABLE intents (
        rowid BIGINT GENERATED ALWAYS AS IDENTITY,
        id TEXT PRIMARY KEY,
        agent TEXT NOT NULL,
        cause BIGINT NOT NULL,
        intent TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending',
        changed BIGINT NOT NULL,
        note TEXT
    );
    CREATE INDEX intents_open ON intents (state) WHERE state IN ('pending', 'claimed');

    -- Follows from the events.
    CREATE TABLE agents (id TEXT COLLATE \"C\" PRIMARY KEY, record TEXT NOT NULL);
    CREATE TABLE asks (
        rowid BIGINT GENERATED ALWAYS AS IDENTITY,
        agent TEXT NOT NULL, ask TEXT NOT NULL, sidecar TEXT NOT NULL, body TEXT NOT NULL,
        opened BIGINT NOT NULL, closed BIGINT,
        PRIMARY KEY (agent, sidecar, ask)
    );
    ",
    "
    -- Up to which number events of agents that were forgotten are gone.
    CREATE TABLE forgotten (through BIGINT NOT NULL);
    ",
];

/// Who writes to a store in PostgreSQL, and the number of the last write: how it is known whether one arrived whose
/// answer did not. There is one row.
pub(super) const WRITER: &str = "
    CREATE TABLE IF NOT EXISTS writer (
        one BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
        token TEXT NOT NULL, holder TEXT NOT NULL, number BIGINT NOT NULL, format INTEGER NOT NULL DEFAULT 0
    );
    ";
