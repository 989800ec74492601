//! The tables, and how a file of an earlier version becomes one of this.

/// Each makes the next version of the file. They are never changed, only added to.
pub(super) const MIGRATIONS: &[&str] = &["
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
    "];
