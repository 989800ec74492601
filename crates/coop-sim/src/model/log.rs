//! What the model was asked.

use std::collections::{BTreeSet, VecDeque};

use serde::Serialize;

use super::asked::Asked;

/// A request for an answer, as the model saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Where it was sent, without a query.
    pub path: String,
    /// The model that was asked for.
    pub model: String,
    /// The newest text of the user.
    pub text: String,
    /// How many messages the conversation has.
    pub messages: usize,
    /// The names of the tools on offer.
    pub tools: Vec<String>,
    /// What tools returned since the newest text of the user.
    pub results: Vec<String>,
    /// Whether the agent asked beside the conversation, for a title for instance.
    pub side: bool,
}

/// What was asked, and which hosts were refused.
#[derive(Debug, Default)]
pub(crate) struct Log {
    requests: VecDeque<Request>,
    refused: BTreeSet<String>,
}

/// More than a test looks at; a demo that runs on must not fill the memory.
const KEPT_REQUESTS: usize = 4096;

impl Request {
    pub(crate) fn new(path: &str, asked: &Asked) -> Self {
        Self {
            path: path.to_owned(),
            model: asked.model.clone(),
            text: asked.text.clone(),
            messages: asked.messages,
            tools: asked.tools.iter().map(|tool| tool.name.clone()).collect(),
            results: asked.results.clone(),
            side: asked.is_side(),
        }
    }
}

impl Log {
    /// Keeps a request; the oldest goes when there are too many.
    pub(crate) fn asked(&mut self, request: Request) {
        if self.requests.len() == KEPT_REQUESTS {
            self.requests.pop_front();
        }
        self.requests.push_back(request);
    }

    pub(crate) fn refused(&mut self, host: String) {
        self.refused.insert(host);
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.iter().cloned().collect()
    }

    pub(crate) fn refused_hosts(&self) -> Vec<String> {
        self.refused.iter().cloned().collect()
    }
}
