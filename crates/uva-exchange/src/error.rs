//! Why an exchange failed.

use std::fmt;

/// What a rank did, or failed to do, so that its group could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It has not joined the group.
    Absent,
    /// It left the group, although others still expect a call of it.
    Left,
    /// Its process ended without leaving the group: it was killed, or crashed.
    Ended,
    /// It has given no sign of life for the group's timeout: it is stopped, or does something else.
    Silent,
    /// It makes another call than the others, or sends another number of bytes than they expect.
    Disagreed,
    /// What it passed on is no message.
    Damaged,
    /// It cancelled the exchange.
    Cancelled,
}

impl Cause {
    /// Every cause.
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

/// What follows a rank's name in a message.
impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Absent => "has not joined the group",
            Self::Left => "has left the group",
            Self::Ended => "has ended without leaving the group",
            Self::Silent => "has given no sign of life",
            Self::Disagreed => "does not agree on the call",
            Self::Damaged => "passed on what is no message",
            Self::Cancelled => "cancelled the exchange",
        })
    }
}

/// Why a call of an [`Exchange`](crate::Exchange) failed, or a group could not be made.
///
/// A failed call ends the exchange, and every later call fails with the same error. Only
/// [`Arguments`](Self::Arguments) leaves it as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The call's own arguments are refused. Nothing was sent.
    #[error("rank {rank}: {reason}")]
    Arguments {
        /// The calling rank.
        rank: usize,
        /// The argument, its value, and what it should be.
        reason: String,
    },
    /// This rank found what another one did. In [`Cause::Cancelled`] that may be this rank itself.
    #[error("rank {rank}, call {call} of the exchange: rank {peer} {cause}{detail}")]
    Peer {
        /// The calling rank.
        rank: usize,
        /// Which of its calls, from 1.
        call: u64,
        /// The rank that failed.
        peer: usize,
        /// What it did.
        cause: Cause,
        /// More of it, for people; may be empty.
        detail: String,
    },
    /// Another rank found what `peer` did, and ended the exchange.
    #[error(
        "rank {rank}, call {call} of the exchange: rank {by} ended it, since rank {peer} {cause}{detail}"
    )]
    Told {
        /// The calling rank.
        rank: usize,
        /// Which of its calls, from 1.
        call: u64,
        /// The rank that found it.
        by: usize,
        /// The rank that failed; may be the calling one.
        peer: usize,
        /// What it did.
        cause: Cause,
        /// More of it, for people; may be empty.
        detail: String,
    },
    /// No group can be like this.
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
        /// The process that has it.
        process: u32,
    },
    /// The group's memory could not be had, or is not that of such a group.
    #[error("the shared memory of a group of {ranks} ranks: {reason}")]
    Memory {
        /// How many ranks it is for.
        ranks: usize,
        /// The failed step.
        reason: String,
    },
}

impl ExchangeError {
    /// The rank that the failure is about, where it is one.
    pub fn culprit(&self) -> Option<usize> {
        match self {
            Self::Peer { peer, .. } | Self::Told { peer, .. } => Some(*peer),
            _ => None,
        }
    }

    /// What that rank did.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::Peer { cause, .. } | Self::Told { cause, .. } => Some(*cause),
            _ => None,
        }
    }
}
