//! The settings of a group.

use std::time::Duration;

use crate::error::ExchangeError;

/// The maximum number of ranks of a group, which has a mailbox from each rank to each other.
pub const MOST_RANKS: usize = 64;

/// The shortest timeout: a rank that waits gives a sign of life every 100 ms, and later on a busy machine.
const LEAST_TIMEOUT: Duration = Duration::from_millis(500);
/// The minimum bytes of a piece: a message's header fits, with some data after it.
const LEAST_PIECE: usize = 64;
/// The maximum bytes of a piece: pieces let a mailbox use less memory than a message.
const MOST_PIECE: usize = 1 << 30;

/// The settings of a group of ranks. All its processes must use the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The number of ranks, 1 to [`MOST_RANKS`].
    pub ranks: usize,
    /// The maximum time without a sign of life from a rank that others wait for, at least 500 ms. A rank gives signs of
    /// life only within calls, so the timeout must exceed the longest work between two calls. It is checked every 100
    /// ms.
    pub timeout: Duration,
    /// The number of pieces in a mailbox, at least one.
    pub pieces: u32,
    /// Bytes of a piece, 64 to 2^30.
    pub piece_bytes: usize,
    /// A simulated slow link for each rank's messages, for tests; `None` for the speed of memory.
    pub link: Option<Link>,
}

/// A link of limited speed: a token bucket. Each rank has its own link for all messages that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bytes per second, at least one.
    pub bytes_per_second: u64,
    /// Bytes that pass at once after a pause.
    pub burst: u64,
}

impl Settings {
    /// The defaults for `ranks` ranks: a timeout of ten minutes (an evaluation or a checkpoint of one rank may lie
    /// between two calls), and mailboxes of four pieces of 64 KiB.
    pub fn new(ranks: usize) -> Self {
        Self { ranks, timeout: Duration::from_secs(600), pieces: 4, piece_bytes: 64 << 10, link: None }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`ExchangeError::Setting`] if a setting is invalid.
    pub(super) fn check(&self) -> Result<(), ExchangeError> {
        let refused = |setting, value, needed| Err(ExchangeError::Setting { setting, value, needed });
        if !(1..=MOST_RANKS).contains(&self.ranks) {
            return refused("ranks", self.ranks as u64, format!("1 to {MOST_RANKS} are possible"));
        }
        if self.timeout < LEAST_TIMEOUT {
            let needed = format!(
                "expected {} ms or more: a waiting rank sends a heartbeat every 100 ms",
                LEAST_TIMEOUT.as_millis()
            );
            return refused("timeout_ms", self.timeout.as_millis() as u64, needed);
        }
        if self.pieces == 0 {
            return refused("pieces", 0, "a mailbox holds at least one".to_owned());
        }
        if !(LEAST_PIECE..=MOST_PIECE).contains(&self.piece_bytes) {
            let needed = format!("{LEAST_PIECE} to {MOST_PIECE} bytes are possible");
            return refused("piece_bytes", self.piece_bytes as u64, needed);
        }
        if self.link.is_some_and(|link| link.bytes_per_second == 0) {
            return refused("bytes_per_second", 0, "a link lets at least one byte a second pass".to_owned());
        }
        Ok(())
    }
}
