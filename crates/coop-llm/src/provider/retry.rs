//! When a call is made again.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

/// How a provider's client tries again.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// How often a call is made at most.
    pub attempts: u32,
    /// The most to wait after the first failure; each further one doubles it.
    pub base: Duration,
    /// Where the doubling ends.
    pub cap: Duration,
    /// The longest that a provider may ask to wait. Beyond it the call fails, and the error says for how long.
    pub patience: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 4,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(30),
            patience: Duration::from_secs(120),
        }
    }
}

impl Retry {
    /// Returns how long to wait after a failed attempt, of which the first is 1, or `None` if it is not tried again.
    /// `luck` is between 0 and 1: many clients that failed together shall not come back together.
    pub(crate) fn wait(&self, attempt: u32, asked: Option<Duration>, luck: f64) -> Option<Duration> {
        if attempt >= self.attempts || asked.is_some_and(|asked| asked > self.patience) {
            return None;
        }
        let doubled = self.base.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)));
        let jittered = doubled.min(self.cap).mul_f64(luck.clamp(0.0, 1.0));
        Some(jittered.max(asked.unwrap_or_default()))
    }
}

/// Returns how long a provider asks to wait: in milliseconds, in seconds or until a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str, unit: f64| Duration::try_from_secs_f64(text.parse::<f64>().ok()? * unit).ok();
    if let Some(wait) = header("retry-after-ms").and_then(|text| number(text, 0.001)) {
        return Some(wait);
    }
    let text = header("retry-after")?;
    let date = || Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default());
    number(text, 1.0).or_else(date)
}

/// Returns what a provider says for itself about trying again.
pub(crate) fn should_retry(headers: &HeaderMap) -> Option<bool> {
    headers.get("x-should-retry")?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pairs: &[(&'static str, &str)]) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        // A second before 1994-11-06 08:49:37.
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:36 GMT").unwrap();
        retry_after(&headers, now)
    }

    #[test]
    fn the_wait_is_read_in_all_its_forms() {
        assert_eq!(after(&[("retry-after", "12")]), Some(Duration::from_secs(12)));
        assert_eq!(after(&[("retry-after", " 1.5 ")]), Some(Duration::from_millis(1500)));
        assert_eq!(after(&[("retry-after", "0")]), Some(Duration::ZERO));
        assert_eq!(after(&[("retry-after-ms", "250")]), Some(Duration::from_millis(250)));
        assert_eq!(after(&[("retry-after-ms", "250"), ("retry-after", "9")]), Some(Duration::from_millis(250)));
        assert_eq!(after(&[("retry-after-ms", "x"), ("retry-after", "9")]), Some(Duration::from_secs(9)));
        for date in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(after(&[("retry-after", date)]), Some(Duration::from_secs(1)), "{date}");
        }
        assert_eq!(after(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(Duration::ZERO));
        for nonsense in ["", "-1", "soon", "nan", "inf", "1e300"] {
            assert_eq!(after(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
        assert_eq!(after(&[]), None);
    }

    #[test]
    fn waits_double_up_to_a_cap_with_jitter() {
        let retry = Retry { attempts: 100, ..Retry::default() };
        let most = |attempt| retry.wait(attempt, None, 1.0).unwrap();
        assert_eq!([1, 2, 3].map(most), [500, 1000, 2000].map(Duration::from_millis));
        assert_eq!([8, 99].map(most), [Duration::from_secs(30); 2]);
        assert_eq!(retry.wait(3, None, 0.0), Some(Duration::ZERO));
        assert_eq!(retry.wait(3, None, 0.25), Some(Duration::from_millis(500)));
    }

    #[test]
    fn the_providers_wait_is_the_least() {
        let retry = Retry::default();
        assert_eq!(retry.wait(1, Some(Duration::from_secs(7)), 1.0), Some(Duration::from_secs(7)));
        assert_eq!(retry.wait(1, Some(Duration::from_millis(1)), 1.0), Some(Duration::from_millis(500)));
        assert_eq!(retry.wait(1, Some(Duration::from_secs(3600)), 1.0), None);
        assert_eq!(retry.wait(4, None, 1.0), None);
    }
}
