//! The checks of a rank that waits for another rank.

use std::cell::Cell;
use std::time::{Duration, Instant};

use uva_mem::ring::{LIVENESS_INTERVAL, Liveness, PeerGone};

use super::page::{GroupFailure, MemberState, Page};
use super::process::Process;
use crate::error::Cause;

/// The maximum counted time between two checks. A rank that was stopped itself must not blame other ranks.
const MOST_BETWEEN: Duration = Duration::from_millis(2 * LIVENESS_INTERVAL.as_millis() as u64);

/// Why a wait ended without success.
#[derive(Clone, Copy, Debug)]
pub(super) enum WaitEnd {
    /// The exchange has ended.
    Failure(GroupFailure),
    /// The peer failed, with this cause.
    Peer(Cause),
}

/// One wait of a rank for a peer. It gives signs of life for the waiting rank, so only a rank that neither waits nor
/// transfers data is found silent. So the culprit is that rank, and not a rank that waits for it.
#[derive(Debug)]
pub(super) struct PeerWatch<'w> {
    page: &'w Page,
    rank: usize,
    peer: usize,
    call: u64,
    process: &'w Process,
    timeout: Duration,
    /// The peer's signs of life at the last check.
    beats: Cell<u64>,
    looked: Cell<Instant>,
    silent: Cell<Duration>,
    found: Cell<Option<WaitEnd>>,
}

impl<'w> PeerWatch<'w> {
    /// Creates the watch of a rank that waits for a peer in one of its calls.
    pub fn new(
        page: &'w Page,
        (rank, peer): (usize, usize),
        call: u64,
        process: &'w Process,
        timeout: Duration,
    ) -> Self {
        Self {
            page,
            rank,
            peer,
            call,
            process,
            timeout,
            beats: Cell::new(page.beats(peer)),
            looked: Cell::new(Instant::now()),
            silent: Cell::new(Duration::ZERO),
            found: Cell::new(None),
        }
    }

    /// Why the wait was ended, if it was.
    pub fn found(&self) -> Option<WaitEnd> {
        self.found.get()
    }

    /// Whether the peer makes no further call.
    pub fn peer_has_left(&self) -> bool {
        matches!(self.page.member(self.peer), MemberState::Left(_))
    }

    fn look(&self) -> Option<WaitEnd> {
        self.page.beat(self.rank);
        if let Some(failure) = self.page.failure(self.call) {
            return Some(WaitEnd::Failure(failure));
        }
        let member = self.page.member(self.peer);
        match member {
            MemberState::Left(_) => return Some(WaitEnd::Peer(Cause::Left)),
            MemberState::Joined(process) if self.process.has_ended(process) => {
                return Some(WaitEnd::Peer(Cause::Ended));
            }
            MemberState::Joined(_) | MemberState::Absent => {}
        }
        let (beats, now) = (self.page.beats(self.peer), Instant::now());
        let passed = now.duration_since(self.looked.replace(now)).min(MOST_BETWEEN);
        let silent =
            if self.beats.replace(beats) == beats { self.silent.get() + passed } else { Duration::ZERO };
        self.silent.set(silent);
        let cause = if member == MemberState::Absent { Cause::Absent } else { Cause::Silent };
        (silent >= self.timeout).then_some(WaitEnd::Peer(cause))
    }
}

impl Liveness for PeerWatch<'_> {
    fn check(&self) -> Result<(), PeerGone> {
        let Some(found) = self.look() else { return Ok(()) };
        self.found.set(Some(found));
        Err(PeerGone::new("the group of ranks cannot continue"))
    }
}
