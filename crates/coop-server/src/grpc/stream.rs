//! What is new, as messages.
//!
//! Events are told as over SSE and the WebSocket: the child's exit is one of them, and as a sidecar that lingers may start
//! it again, their streams last as long as coop. Streams of output and screens have no message for an exit; they tell it
//! by ending.

use std::pin::Pin;
use std::sync::Arc;

use coop_api::{Agents, EventBody, Lifecycle, Seq};
use futures_util::{Stream, stream};
use tonic::{Response, Status};

use crate::app::App;
use crate::error::status;
use crate::follow::{Follower, Item, Output, Wants};

pub(super) type Streaming<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What a stream shows of the child.
pub(super) enum Shown {
    Output(Output),
    Screens,
}

/// Follows the events after one that is known already, or new ones only. It ends with an error if some are gone.
pub(super) fn events<A: Agents, T: Send + 'static>(
    app: &Arc<App<A>>,
    after: Option<Seq>,
    convert: impl FnMut(&coop_api::Event) -> Option<T> + Send + 'static,
) -> Result<Response<Streaming<T>>, Status> {
    let wants = Wants { output: None, screen: false, events: true };
    let follower = Follower::new(app, wants, after).map_err(status)?;
    let items = stream::unfold(Some((follower, convert)), async |state| {
        let (mut follower, mut convert) = state?;
        loop {
            match follower.next().await {
                Ok(Some(Item::Event(event))) => {
                    if let Some(message) = convert(&event) {
                        return Some((Ok(message), Some((follower, convert))));
                    }
                }
                Ok(Some(Item::Lagged { from, to })) => {
                    let lost = Status::data_loss(format!("the events {from} to {to} are no longer kept"));
                    return Some((Err(lost), None));
                }
                Ok(Some(Item::Output { .. } | Item::Gap { .. } | Item::Resync(_) | Item::Screen(_))) => {}
                Ok(None) => return None,
                Err(error) => return Some((Err(status(error)), None)),
            }
        }
    });
    Ok(Response::new(Box::pin(items)))
}

/// Follows output or screens until the child has exited and everything was sent.
pub(super) fn until_exit<A: Agents, T: Send + 'static>(
    app: &Arc<App<A>>,
    shown: Shown,
    convert: impl FnMut(Item) -> Option<T> + Send + 'static,
) -> Result<Response<Streaming<T>>, Status> {
    let wants = match shown {
        Shown::Output(output) => Wants { output: Some(output), screen: false, events: true },
        Shown::Screens => Wants { output: None, screen: true, events: true },
    };
    // Of a child that has exited, the exit is told once more, and with it the stream ends.
    let exited = Follower::last_event_of_exited(app).map_err(status)?;
    let follower = Follower::new(app, wants, exited).map_err(status)?;
    let items = stream::unfold(Some((follower, convert)), async |state| {
        let (mut follower, mut convert) = state?;
        loop {
            let item = follower.next().await;
            let ended = follower.pulse().ended;
            match item {
                Ok(Some(Item::Event(event))) if ended && is_exit(&event.body) => return None,
                Ok(Some(item)) => {
                    if let Some(message) = convert(item) {
                        return Some((Ok(message), Some((follower, convert))));
                    }
                }
                Ok(None) => return None,
                Err(error) => return Some((Err(status(error)), None)),
            }
        }
    });
    Ok(Response::new(Box::pin(items)))
}

fn is_exit(body: &EventBody) -> bool {
    matches!(body, EventBody::Lifecycle(Lifecycle::Exited { .. }))
}
