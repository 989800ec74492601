//! The options of `coop run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Args, ValueEnum};
use coop_llm::ProviderName;

use crate::cli::parse_secs;

/// The tools for the working folder, by their names.
pub(crate) const TOOLS: [&str; 6] = ["read", "list", "search", "write", "edit", "shell"];
/// No tools at all.
pub(crate) const NONE: &str = "none";
/// All tools there are.
pub(crate) const ALL: &str = "all";

#[derive(Debug, Default, Args)]
#[command(after_help = "\
Words of the model go to standard output, everything else to standard error. What changes files or runs commands is asked \
for on the terminal; without one it is denied, unless --allow names it.

The exit code is 0: the model has finished. 1: it failed. 2: the options make no sense. 3: a limit was reached. 4: the \
model refused. 5: its answer or the conversation was too long. 128 plus the number of a signal: that ended it.")]
pub(crate) struct Run {
    /// What to do; - reads it from standard input
    #[arg(required_unless_present = "acp", conflicts_with = "acp")]
    pub(crate) prompt: Option<String>,
    /// The model [default with Claude: claude-sonnet-4-5]
    #[arg(short, long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) model: Option<String>,
    /// Who has the model, or whose protocol its server speaks [default: claude]
    #[arg(long)]
    pub(crate) provider: Option<Provider>,
    /// Where the provider is
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// A file with the API key
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// What the model is told before the conversation, in place of what coop says
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// The most tokens of one answer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: Option<u32>,
    /// The most calls of the model
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u32>,
    /// The most US dollars
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    pub(crate) max_cost: Option<f64>,
    /// The most tokens, read and written, of all calls together
    #[arg(long, value_name = "N")]
    pub(crate) max_total_tokens: Option<u64>,
    /// The most time
    #[arg(long, value_name = "SECS", value_parser = parse_secs)]
    pub(crate) max_time: Option<Duration>,
    /// The tools for this folder: any of read, list, search, write, edit, shell, or none [default: all of them]
    #[arg(long, value_name = "TOOLS", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(TOOLS.into_iter().chain([NONE])), hide_possible_values = true)]
    pub(crate) tools: Option<Vec<String>>,
    /// Tools that may be used without being asked about, by their names, or all
    #[arg(long, value_name = "TOOLS", value_delimiter = ',', value_parser = parse_name)]
    pub(crate) allow: Vec<String>,
    /// Tools to be asked about though they only look, by their names, or all
    #[arg(long, value_name = "TOOLS", value_delimiter = ',', value_parser = parse_name)]
    pub(crate) ask: Vec<String>,
    /// A file with MCP servers whose tools are added: {"mcpServers": {…}}
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Option<PathBuf>,
    /// Tell each step as a line of JSON on standard output
    #[arg(long, conflicts_with = "acp")]
    pub(crate) json: bool,
    /// Speak the Agent Client Protocol on standard input and output
    #[arg(long)]
    pub(crate) acp: bool,
}

/// Who has a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Provider {
    Claude,
    Openai,
}

impl From<Provider> for ProviderName {
    fn from(provider: Provider) -> Self {
        match provider {
            Provider::Claude => Self::Claude,
            Provider::Openai => Self::OpenAi,
        }
    }
}

fn parse_dollars(text: &str) -> Result<f64, &'static str> {
    let dollars = text.trim_start_matches('$').parse().map_err(|_| "not an amount of US dollars")?;
    if f64::is_finite(dollars) && dollars >= 0.0 { Ok(dollars) } else { Err("not an amount of US dollars") }
}

/// Spaces after commas are not part of a name.
fn parse_name(text: &str) -> Result<String, &'static str> {
    Some(text.trim().to_owned()).filter(|name| !name.is_empty()).ok_or("it has no name")
}
