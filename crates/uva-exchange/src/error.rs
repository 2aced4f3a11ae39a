//! Errors of an exchange.

use std::fmt;

/// Why a rank ended the exchange of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The rank has not joined the group.
    Absent,
    /// The rank left the group, although other ranks still expect a call.
    Left,
    /// The rank's process ended without leaving the group: it was killed, or crashed.
    Ended,
    /// The rank has given no sign of life for the group's timeout: it is stopped, or busy elsewhere.
    Silent,
    /// The rank makes a different call than the other ranks, or sends a different number of bytes than they expect.
    Disagreed,
    /// The rank sent data that is not a message.
    Damaged,
    /// The rank cancelled the exchange.
    Cancelled,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 7] = [
        Self::Absent,
        Self::Left,
        Self::Ended,
        Self::Silent,
        Self::Disagreed,
        Self::Damaged,
        Self::Cancelled,
    ];
}

/// Formats the cause to follow a rank's name in a message.
impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Absent => "has not joined the group",
            Self::Left => "has left the group",
            Self::Ended => "has ended without leaving the group",
            Self::Silent => "does not respond",
            Self::Disagreed => "does not agree on the call",
            Self::Damaged => "sent an invalid message",
            Self::Cancelled => "cancelled the exchange",
        })
    }
}

/// Why a call of an [`Exchange`](crate::Exchange) failed, or a group could not be made.
///
/// A failed call ends the exchange, and every later call fails with the same error. Only [`Arguments`](Self::Arguments)
/// has no effect on the exchange.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The call's arguments are invalid. No data was sent.
    #[error("rank {rank}: {reason}")]
    Arguments {
        /// The calling rank.
        rank: usize,
        /// The argument, its value, and the expected value.
        reason: String,
    },
    /// This rank detected the failure of another rank. For [`Cause::Cancelled`] that may be this rank itself.
    #[error("rank {rank}, call {call} of the exchange: rank {peer} {cause}{detail}")]
    Peer {
        /// The calling rank.
        rank: usize,
        /// The number of its call, from 1.
        call: u64,
        /// The rank that failed.
        peer: usize,
        /// The cause.
        cause: Cause,
        /// Details for users; may be empty.
        detail: String,
    },
    /// Another rank detected the failure of `peer`, and ended the exchange.
    #[error(
        "rank {rank}, call {call} of the exchange: rank {by} ended it, since rank {peer} {cause}{detail}"
    )]
    Told {
        /// The calling rank.
        rank: usize,
        /// The number of its call, from 1.
        call: u64,
        /// The rank that detected the failure.
        by: usize,
        /// The rank that failed; may be the calling one.
        peer: usize,
        /// The cause.
        cause: Cause,
        /// Details for users; may be empty.
        detail: String,
    },
    /// A setting of the group is invalid.
    #[error("no group of ranks can have {setting} {value}: {needed}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// Its value.
        value: u64,
        /// The allowed values.
        needed: String,
    },
    /// The group has this rank already.
    #[error("rank {rank} has joined the group already (process {process})")]
    Taken {
        /// The rank.
        rank: usize,
        /// The process of that rank.
        process: u32,
    },
    /// The group's memory could not be allocated, or does not belong to such a group.
    #[error("the shared memory of a group of {ranks} ranks: {reason}")]
    Memory {
        /// The number of ranks.
        ranks: usize,
        /// The failed step.
        reason: String,
    },
}

impl ExchangeError {
    /// The rank that caused the failure, if any.
    pub fn culprit(&self) -> Option<usize> {
        match self {
            Self::Peer { peer, .. } | Self::Told { peer, .. } => Some(*peer),
            _ => None,
        }
    }

    /// The cause of that rank's failure.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::Peer { cause, .. } | Self::Told { cause, .. } => Some(*cause),
            _ => None,
        }
    }
}
