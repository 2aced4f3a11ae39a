//! The token bucket of a slow link.

use std::time::{Duration, Instant};

use super::settings::Link;

/// A limiter of the number of bytes per time.
#[derive(Debug)]
pub(super) struct TokenBucket {
    link: Link,
    /// Bytes that may pass; negative while earlier bytes are still on the link.
    tokens: f64,
    last: Option<Instant>,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(link: Link) -> Self {
        Self { link, tokens: link.burst as f64, last: None }
    }

    /// Takes tokens for `bytes` bytes at `now`, and returns the time to wait. `bytes` may exceed the burst.
    pub fn take(&mut self, bytes: usize, now: Instant) -> Duration {
        let rate = self.link.bytes_per_second as f64;
        let passed = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.last = Some(now);
        self.tokens = (self.tokens + passed.as_secs_f64() * rate).min(self.link.burst as f64) - bytes as f64;
        Duration::try_from_secs_f64(-self.tokens / rate).unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_passes_at_once_and_more_waits_for_its_tokens() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(Link { bytes_per_second: 100, burst: 300 });
        assert_eq!(bucket.take(200, start), Duration::ZERO);
        assert_eq!(bucket.take(100, start), Duration::ZERO);
        assert_eq!(bucket.take(200, start), 2 * SECOND);
        // Later bytes wait for earlier ones, even if requested late.
        assert_eq!(bucket.take(100, start + SECOND), 2 * SECOND);
        assert_eq!(bucket.take(100, start + 3 * SECOND), SECOND);
    }

    #[test]
    fn no_more_tokens_than_a_burst_gather_in_a_pause() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(Link { bytes_per_second: 100, burst: 300 });
        assert_eq!(bucket.take(300, start), Duration::ZERO);
        assert_eq!(bucket.take(400, start + 1000 * SECOND), SECOND);
    }
}
