//! The page for browsers: files that are in the program, and how somebody with a browser logs in.
//!
//! The files say nothing about any agent, so they need no token. All that the page shows comes over the API, which asks
//! for one; a browser that has brought it once is known by a cookie from then on.

mod assets;
mod changes;
mod login;
mod sessions;

use axum::Router;
use axum::http::Method;
use axum::routing::get;

pub(crate) use self::changes::{ChangesBody, changes};
pub(crate) use self::login::{LOGIN_PATH, LOGOUT_PATH, LoginBody, Visitor, log_in, log_out};
pub use self::sessions::Sessions;

/// Returns the files' routes.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(assets::index))
        .route("/favicon.svg", get(assets::icon))
        .route("/assets/{*path}", get(assets::asset))
}

/// Tells whether a request is for one of the page's files, which anybody may have.
pub(crate) fn is_file(method: &Method, path: &str) -> bool {
    let looks = matches!(*method, Method::GET | Method::HEAD);
    looks && (path == "/" || path == "/favicon.svg" || path.starts_with("/assets/"))
}
