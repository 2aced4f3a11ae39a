//! The words shared by all ranks of a group: membership, signs of life, and the first failure.
//!
//! | word | holds | written by |
//! |---|---|---|
//! | 0 | the first [`GroupFailure`] of the group; 0 for none | the rank that finds it, once |
//! | 1 | the complement of the first call that cannot complete; 0 for none | each rank that finds a failure, or cancels |
//! | 16 · (r + 1) | [`MemberState`]: rank r's process, and whether it joined or left | rank r |
//! | 16 · (r + 1) + 1 | rank r's signs of life, counted | rank r |
//!
//! Each rank's words have their own cache lines, so that signs of life do not disturb other ranks.

use uva_mem::ControlPage;

use crate::error::Cause;

const FAILURE: usize = 0;
const LIMIT: usize = 1;
/// The distance between the words of two ranks: two cache lines, since lines are fetched in pairs.
const STRIDE: usize = 16;
const MEMBER: usize = 0;
const BEAT: usize = 1;

const JOINED: u64 = 1;
const LEFT: u64 = 2;

/// The failure that ended the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupFailure {
    /// The rank that detected it.
    pub by: usize,
    /// The rank that caused it.
    pub peer: usize,
    pub cause: Cause,
}

impl GroupFailure {
    fn word(self) -> u64 {
        1 << 63 | (self.cause as u64) << 32 | (self.by as u64) << 16 | self.peer as u64
    }

    fn of(word: u64) -> Option<Self> {
        if word == 0 {
            return None;
        }
        let (by, peer) = ((word >> 16 & 0xffff) as usize, (word & 0xffff) as usize);
        // An invalid word was overwritten by other code.
        let cause = Cause::ALL.into_iter().find(|&cause| Self { by, peer, cause }.word() == word);
        Some(Self { by, peer, cause: cause.unwrap_or(Cause::Damaged) })
    }
}

/// The membership of a rank in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberState {
    Absent,
    /// The rank joined, with its process.
    Joined(u32),
    /// The rank left, with its former process.
    Left(u32),
}

impl MemberState {
    /// The rank's process, if it has joined.
    pub fn process(self) -> Option<u32> {
        match self {
            Self::Absent => None,
            Self::Joined(process) | Self::Left(process) => Some(process),
        }
    }
}

/// The shared page of words.
#[derive(Debug)]
pub(super) struct Page {
    words: ControlPage,
}

impl Page {
    /// The number of words of a page for `ranks` ranks.
    pub fn words(ranks: usize) -> usize {
        STRIDE * (ranks + 1)
    }

    /// Wraps a page of [`Page::words`] words.
    pub fn new(words: ControlPage) -> Self {
        Self { words }
    }

    pub fn control(&self) -> &ControlPage {
        &self.words
    }

    /// Registers `process` as the rank.
    ///
    /// # Errors
    /// The process that is or was registered as the rank.
    pub fn join(&self, rank: usize, process: u32) -> Result<(), u32> {
        // Partner: the load in `member`.
        let joined = u64::from(process) << 8 | JOINED;
        match self.words.compare_exchange(member_word(rank), 0, joined) {
            Ok(_) => Ok(()),
            Err(found) => Err((found >> 8) as u32),
        }
    }

    /// Records that the rank makes no further call. All its pieces must have been published.
    pub fn leave(&self, rank: usize) {
        // Release; partner: the load in `member`. A peer that sees this store sees every piece that was put before.
        let process = self.member(rank).process().unwrap_or(0);
        self.words.store(member_word(rank), u64::from(process) << 8 | LEFT);
    }

    pub fn member(&self, rank: usize) -> MemberState {
        // Acquire; partners: `join` and `leave`.
        let word = self.words.load(member_word(rank));
        let process = (word >> 8) as u32;
        match word & 0xff {
            0 => MemberState::Absent,
            JOINED => MemberState::Joined(process),
            _ => MemberState::Left(process),
        }
    }

    /// Gives a sign of life.
    pub fn beat(&self, rank: usize) {
        // Partner: the load in `beats`, which only detects a change.
        self.words.fetch_add(STRIDE * (rank + 1) + BEAT, 1);
    }

    /// The number of signs of life of the rank.
    pub fn beats(&self, rank: usize) -> u64 {
        // Partner: `beat`.
        self.words.load(STRIDE * (rank + 1) + BEAT)
    }

    /// Ends the exchange for all ranks from this call on (from 1; 0 for the current call), and returns why it ended:
    /// this failure, or an earlier one of another rank. Earlier calls can complete, since this rank's data for them is
    /// available.
    pub fn fail(&self, failure: GroupFailure, call: u64) -> GroupFailure {
        // Stored before the failure, so that a rank that sees the failure sees the limit too. Partner: the load in
        // `failure`.
        self.words.fetch_max(LIMIT, !call);
        // Partner: the load in `failure`.
        match self.words.compare_exchange(FAILURE, 0, failure.word()) {
            Ok(_) => failure,
            Err(found) => GroupFailure::of(found).unwrap_or(failure),
        }
    }

    /// Why the exchange ended, if that prevents this call from completing.
    pub fn failure(&self, call: u64) -> Option<GroupFailure> {
        // Both loads are acquire; partner: `fail`.
        GroupFailure::of(self.words.load(FAILURE)).filter(|_| !self.words.load(LIMIT) <= call)
    }
}

fn member_word(rank: usize) -> usize {
    STRIDE * (rank + 1) + MEMBER
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(ranks: usize) -> Page {
        Page::new(ControlPage::create("test", Page::words(ranks)).unwrap())
    }

    #[test]
    fn the_first_failure_stays() {
        let page = page(3);
        assert_eq!(page.failure(u64::MAX), None);
        for cause in Cause::ALL {
            let failure = GroupFailure { by: 2, peer: 1, cause };
            assert_eq!(GroupFailure::of(failure.word()), Some(failure));
        }
        let first = GroupFailure { by: 2, peer: 0, cause: Cause::Silent };
        assert_eq!(page.fail(first, 7), first);
        assert_eq!((page.failure(6), page.failure(7), page.failure(8)), (None, Some(first), Some(first)));
        // Another rank was at an earlier call, and one at a later call.
        for call in [5, 9] {
            assert_eq!(page.fail(GroupFailure { by: 1, peer: 2, cause: Cause::Left }, call), first);
            assert_eq!((page.failure(4), page.failure(5)), (None, Some(first)));
        }
        page.fail(first, 0);
        assert_eq!(page.failure(1), Some(first));
        assert_eq!(
            GroupFailure::of(0xffff_ffff_ffff_ffff).map(|failure| failure.cause),
            Some(Cause::Damaged)
        );
    }

    #[test]
    fn a_rank_joins_once_and_its_process_is_known_after_it_has_left() {
        let page = page(2);
        assert_eq!(page.member(1), MemberState::Absent);
        assert_eq!(page.join(1, 4711), Ok(()));
        assert_eq!(page.join(1, 4712), Err(4711));
        assert_eq!((page.member(0), page.member(1)), (MemberState::Absent, MemberState::Joined(4711)));
        page.leave(1);
        assert_eq!(page.member(1), MemberState::Left(4711));
        assert_eq!(page.join(1, 4712), Err(4711), "a rank that has left may be missed already");
        page.beat(0);
        assert_eq!((page.beats(0), page.beats(1)), (1, 0));
    }
}
