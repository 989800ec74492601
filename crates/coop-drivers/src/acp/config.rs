//! Its mode and model, which can be changed while it runs: by options of its own, or in the older ways.

use std::time::Duration;

use agent_client_protocol_schema::{
    SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOptions, SessionModeState,
    SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use coop_api::Configure;
use serde_json::{Value, json};

use super::turn::METHODS;
use super::wire;
use crate::driver::{Expected, Refusal, Step};

/// The ids of settings begin after this, far above those of prompts. Each is used once: a reply that comes too late is of
/// no other.
pub(super) const IDS: i64 = 1_000_000_000;
const REPLIES_WITHIN: Duration = Duration::from_secs(20);

/// What there is to choose from.
#[derive(Debug, Default)]
pub(super) struct Settings {
    options: Vec<SessionConfigOption>,
    modes: Vec<String>,
    /// Of those who have a method of its own for it, which the protocol has no more.
    models: Vec<String>,
    /// The id of the last request that changes one.
    last: i64,
}

impl Settings {
    /// Reads what the agent offers in a conversation that it has opened.
    pub(super) fn of(reply: &Value) -> Self {
        let modes = wire::parse::<SessionModeState>(&reply["modes"]);
        let modes = modes.into_iter().flat_map(|modes| modes.available_modes).map(|mode| mode.id.to_string());
        let models = reply["models"]["availableModels"].as_array().into_iter().flatten();
        Self {
            options: wire::parse(&reply["configOptions"]).unwrap_or_default(),
            modes: modes.collect(),
            models: models.filter_map(|model| model["modelId"].as_str()).map(str::to_owned).collect(),
            last: IDS,
        }
    }

    pub(super) fn set_options(&mut self, options: Vec<SessionConfigOption>) {
        self.options = options;
    }

    /// Tells whether there is anything to choose.
    pub(super) fn any(&self) -> bool {
        !self.modes.is_empty() || !self.models.is_empty() || !self.options.is_empty()
    }

    /// Returns the steps that change what is wanted, each after the reply to the one before. Only what is offered is asked
    /// for.
    pub(super) fn change(&mut self, session: &str, wanted: &Configure) -> Result<Vec<Step>, Refusal> {
        let (first, second) = (self.last + 1, self.last + 2);
        let mode = wanted.mode.as_deref().map(|mode| self.set_mode(session, first, mode)).transpose()?;
        let model = wanted.model.as_deref().map(|model| self.set_model(session, second, model)).transpose()?;
        self.last = second;
        let both = mode.map(|set| (first, set)).into_iter().chain(model.map(|set| (second, set)));
        let replied = |id: i64| Expected::Reply(id.to_string());
        let step =
            |(id, set)| [Step::Send(set), Step::Expect { what: replied(id), within: REPLIES_WITHIN, retry: None }];
        Ok(both.flat_map(step).collect())
    }

    fn set_mode(&self, session: &str, id: i64, mode: &str) -> Result<Value, Refusal> {
        if let Some(set) = self.set_option(session, id, &SessionConfigOptionCategory::Mode, mode) {
            return set;
        }
        offered("mode", mode, &self.modes)?;
        let request = SetSessionModeRequest::new(session.to_owned(), mode.to_owned());
        Ok(wire::request(id, METHODS.session_set_mode, request))
    }

    fn set_model(&self, session: &str, id: i64, model: &str) -> Result<Value, Refusal> {
        if let Some(set) = self.set_option(session, id, &SessionConfigOptionCategory::Model, model) {
            return set;
        }
        offered("model", model, &self.models)?;
        Ok(wire::request(id, "session/set_model", json!({ "sessionId": session, "modelId": model })))
    }

    /// Sets the option of this category, if there is one.
    fn set_option(
        &self,
        session: &str,
        id: i64,
        category: &SessionConfigOptionCategory,
        value: &str,
    ) -> Option<Result<Value, Refusal>> {
        let option = self.options.iter().find(|option| option.category.as_ref() == Some(category))?;
        let SessionConfigKind::Select(select) = &option.kind else { return None };
        let values: Vec<_> = match &select.options {
            SessionConfigSelectOptions::Ungrouped(options) => options.iter().collect(),
            SessionConfigSelectOptions::Grouped(groups) => groups.iter().flat_map(|group| &group.options).collect(),
            _ => Vec::new(),
        };
        let values: Vec<_> = values.into_iter().map(|option| option.value.to_string()).collect();
        let request = || {
            let request = SetSessionConfigOptionRequest::new(session.to_owned(), option.id.clone(), value.to_owned());
            wire::request(id, METHODS.session_set_config_option, request)
        };
        Some(offered(&option.name, value, &values).map(|()| request()))
    }
}

fn offered(what: &str, wanted: &str, offered: &[String]) -> Result<(), Refusal> {
    if offered.is_empty() {
        return Err(Refusal::Unsupported(format!("this agent's {what} cannot be changed while it runs")));
    }
    if !offered.iter().any(|offered| offered == wanted) {
        return Err(Refusal::NoSuchOption(format!("there is no {what} {wanted}; there are {}", offered.join(", "))));
    }
    Ok(())
}
