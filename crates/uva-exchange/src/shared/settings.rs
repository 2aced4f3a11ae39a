//! What a group is like.

use std::time::Duration;

use crate::error::ExchangeError;

/// The most ranks of a group: mailboxes lead from each to each.
pub const MOST_RANKS: usize = 64;

/// The shortest timeout: a rank that waits gives a sign of life every 100 ms, and later on a busy machine.
const LEAST_TIMEOUT: Duration = Duration::from_millis(500);
/// The least bytes of a piece: a message's header fits, with something behind it.
const LEAST_PIECE: usize = 64;
/// The most: pieces are there so that a mailbox needs less memory than a message.
const MOST_PIECE: usize = 1 << 30;

/// What a group of ranks is like. All its processes must use the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How many ranks there are, 1 to [`MOST_RANKS`].
    pub ranks: usize,
    /// How long a rank may give no sign of life while others wait for it, 500 ms or more. A rank gives them within calls
    /// alone, so this is longer than the longest work between two calls. It is checked every 100 ms.
    pub timeout: Duration,
    /// How many pieces a mailbox holds, at least one.
    pub pieces: u32,
    /// Bytes of a piece, 64 to 2^30.
    pub piece_bytes: usize,
    /// The slow link that each rank's messages pass, for tests; `None` for the speed of memory.
    pub link: Option<Link>,
}

/// A link of limited speed: a token bucket. Each rank has one of its own, for all that it gives to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bytes a second, at least one.
    pub bytes_per_second: u64,
    /// Bytes that pass at once after a pause.
    pub burst: u64,
}

impl Settings {
    /// For so many ranks, with a timeout of ten minutes (an evaluation or a checkpoint of one rank may lie between two
    /// calls), and mailboxes of four pieces of 64 KiB.
    pub fn new(ranks: usize) -> Self {
        Self { ranks, timeout: Duration::from_secs(600), pieces: 4, piece_bytes: 64 << 10, link: None }
    }

    /// Refuses what no group can have.
    ///
    /// # Errors
    /// [`ExchangeError::Setting`].
    pub(super) fn check(&self) -> Result<(), ExchangeError> {
        let refused = |setting, value, needed| Err(ExchangeError::Setting { setting, value, needed });
        if !(1..=MOST_RANKS).contains(&self.ranks) {
            return refused("ranks", self.ranks as u64, format!("1 to {MOST_RANKS} are possible"));
        }
        if self.timeout < LEAST_TIMEOUT {
            let needed = format!(
                "{} ms or more: a rank that waits gives a sign of life every 100",
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
