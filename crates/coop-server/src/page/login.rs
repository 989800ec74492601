//! Logging in: the token once, then a cookie.
//!
//! The cookie has a random value of its own, so that the token is neither kept by the browser nor sent again. Browsers
//! send cookies along with whatever a page asks for, also a page of another port of this machine, which counts as the same
//! site. So a request that stands on a cookie must come from our own page, as the browser itself says.

use std::time::{Duration, SystemTime};

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use coop_api::{Error, ErrorCode};
use schemars::JsonSchema;
use serde::Deserialize;

use super::sessions::KEPT;
use crate::app::Config;
use crate::error::Failure;
use crate::guard::WRONG_TOKEN;
use crate::wire::Delivered;

/// Where one logs in; the one route that is for those without a token.
pub(crate) const LOGIN_PATH: &str = "/api/v1/login";
pub(crate) const LOGOUT_PATH: &str = "/api/v1/logout";

/// Somebody who asks, as far as cookies matter.
pub(crate) struct Visitor<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
}

impl Visitor<'_> {
    /// Tells whether this is our own page in a browser that has logged in.
    pub(crate) fn is_logged_in(&self, config: &Config) -> bool {
        let is_known =
            |name| config.token.as_ref().is_some_and(|token| config.sessions.is_known(token, name, SystemTime::now()));
        self.comes_from_our_page() && self.cookie().is_some_and(is_known)
    }

    /// A page that asks is named by `Sec-Fetch-Site`, which browsers send where they trust the connection, and by
    /// `Origin`, which they send with all that could change something; that it is ours was checked before.
    fn comes_from_our_page(&self) -> bool {
        let looks = matches!(*self.method, Method::GET | Method::HEAD);
        match self.headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
            Some(b"same-origin") => true,
            // The person typed the address, or opened a link to a file.
            Some(b"none") => looks,
            Some(_) => false,
            None => looks || self.headers.contains_key(header::ORIGIN),
        }
    }

    fn cookie(&self) -> Option<&str> {
        let name = self.cookie_name();
        let cookies = self.headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Cookies are kept by host, whatever the port, and several of us may run on one.
    fn cookie_name(&self) -> String {
        let host = match self.uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => self.headers.get(header::HOST).and_then(|host| host.to_str().ok()),
        };
        let port = host.and_then(|host| host.rsplit_once(':')).map_or("", |(_, port)| port);
        let port = if port.bytes().all(|byte| byte.is_ascii_digit()) { port } else { "" };
        format!("coop_{port}")
    }

    fn set_cookie(&self, value: &str, kept: Duration) -> Option<HeaderValue> {
        let origin = self.headers.get(header::ORIGIN).map(HeaderValue::as_bytes);
        let secure = if origin.is_some_and(|origin| origin.starts_with(b"https:")) { "; Secure" } else { "" };
        let (name, kept) = (self.cookie_name(), kept.as_secs());
        let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={kept}{secure}");
        HeaderValue::from_str(&cookie).ok()
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginBody {
    /// The token.
    #[serde(default)]
    token: String,
}

/// Gives a cookie for the token.
pub(crate) fn log_in(visitor: &Visitor<'_>, config: &Config, body: &LoginBody) -> Response {
    match &config.token {
        None => Json(Delivered { delivered: true }).into_response(),
        Some(_) if !config.sessions.may_try() => {
            let why = "too many logins with wrong tokens; try again in a few seconds";
            let mut response = Failure(Error::new(ErrorCode::Unauthorized, why)).into_response();
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            response
        }
        Some(token) if token.matches(&body.token) => {
            told(visitor.set_cookie(&config.sessions.begin(token, SystemTime::now()), KEPT))
        }
        Some(_) => {
            config.sessions.count_failure();
            Failure(Error::new(ErrorCode::Unauthorized, WRONG_TOKEN)).into_response()
        }
    }
}

/// Takes the cookie back, here and in the browser.
pub(crate) fn log_out(visitor: &Visitor<'_>, config: &Config) -> Response {
    if let (Some(name), Some(token)) = (visitor.cookie(), &config.token) {
        config.sessions.end(token, name);
    }
    told(visitor.set_cookie("", Duration::ZERO))
}

fn told(cookie: Option<HeaderValue>) -> Response {
    let mut response = Json(Delivered { delivered: true }).into_response();
    if let Some(cookie) = cookie {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
