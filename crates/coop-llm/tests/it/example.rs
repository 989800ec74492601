//! The example, against the fake model.

use std::sync::Arc;

use coop_llm::{ApiKey, Claude, Exit, ProviderConfig};
use coop_sim::model::{Model, Script};

#[path = "../../examples/sum.rs"]
#[expect(dead_code, unreachable_pub, reason = "it is a program of its own")]
mod sum;

#[tokio::test]
async fn the_example_runs() {
    let model = Model::start(Script::default()).await.unwrap();
    let config = ProviderConfig { base_url: Some(model.url().into()), ..ProviderConfig::new("claude-sonnet-4-5") };
    let claude = Arc::new(Claude::new(ApiKey::new("none"), config).unwrap());
    let asked = sum::ask(claude, r#"[[tool sum {"numbers": [17.5, 4.25, 100]}]] [[text:It is done.]]"#);
    let outcome = tokio::time::timeout(crate::tools::LIMIT, asked).await.expect("in time");
    assert!(matches!(outcome.exit, Exit::Completed), "{:?}", outcome.exit);
    assert_eq!(model.requests()[1].results, ["121.75"]);
}
