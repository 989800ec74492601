//! Its mode and model, which can be changed while it runs: by options of its own, or in the older ways.

use agent_client_protocol_schema::{
    SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOptions, SessionModeState,
    SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use coop_api::Configure;
use serde_json::{Value, json};

use super::opening::{MODE, MODEL};
use super::turn::METHODS;
use super::wire;
use crate::driver::{Refusal, Step};

/// What there is to choose from.
#[derive(Debug, Default)]
pub(super) struct Settings {
    options: Vec<SessionConfigOption>,
    modes: Vec<String>,
    /// Of those who have a method of its own for it, which the protocol has no more.
    models: Vec<String>,
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
        }
    }

    pub(super) fn set_options(&mut self, options: Vec<SessionConfigOption>) {
        self.options = options;
    }

    /// Tells whether there is anything to choose.
    pub(super) fn any(&self) -> bool {
        !self.modes.is_empty() || !self.models.is_empty() || !self.options.is_empty()
    }

    /// Returns the steps that change what is wanted. Only what is offered is asked for.
    pub(super) fn change(&self, session: &str, wanted: &Configure) -> Result<Vec<Step>, Refusal> {
        let mode = wanted.mode.as_deref().map(|mode| self.set_mode(session, mode)).transpose()?;
        let model = wanted.model.as_deref().map(|model| self.set_model(session, model)).transpose()?;
        Ok(mode.into_iter().chain(model).map(Step::Send).collect())
    }

    fn set_mode(&self, session: &str, mode: &str) -> Result<Value, Refusal> {
        if let Some(set) = self.set_option(session, MODE, &SessionConfigOptionCategory::Mode, mode) {
            return set;
        }
        offered("mode", mode, &self.modes)?;
        let request = SetSessionModeRequest::new(session.to_owned(), mode.to_owned());
        Ok(wire::request(MODE, METHODS.session_set_mode, request))
    }

    fn set_model(&self, session: &str, model: &str) -> Result<Value, Refusal> {
        if let Some(set) = self.set_option(session, MODEL, &SessionConfigOptionCategory::Model, model) {
            return set;
        }
        offered("model", model, &self.models)?;
        Ok(wire::request(MODEL, "session/set_model", json!({ "sessionId": session, "modelId": model })))
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
