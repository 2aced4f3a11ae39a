//! The control page: a few words that all roles see.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | turn | consumer | samplers at each batch (see `schedule`); consumer and launcher, for the next batch |
//! | stop | launcher; in process, the threads' owner | every role in a long wait; the consumer also at each batch |
//! | counters of a role | that role | launcher |
//! | tally | the consumer, if it is a user's command | launcher |
//! | evaluation | the consumer, while it evaluates on full neighbourhoods | launcher |
//! | place of sums | the consumer, if the run tries both | producer or worker at each batch (see `sums_chooser`) |
//!
//! A sampler or the producer thus notices a stop only when it has to wait. The slots limit that to a few batches.

use std::os::fd::{BorrowedFd, OwnedFd};

use uva_graph::Split;
use uva_mem::{ControlPage, RegionError};

use crate::RuntimeError;
use crate::control::aggregate_counts::AggregateAmounts;
use crate::control::cache_counts::{CacheCounts, CacheTotals};
use crate::control::disk_counts::DiskCounts;
use crate::control::role_times::{RoleTimes, Roles};
use crate::machine::memory::Resident;
use crate::options::schedule::{TURN_WORDS, Turn};
use crate::options::{LoaderOptions, MAX_SAMPLERS, Prepare};

/// The number of turns so far. The last turn's words are those at its number modulo 2, so they stay whole while the
/// next one is written.
const TURNS: usize = 0;
const STOP: usize = 1;
const TURN: usize = 2;
const _: () = assert!(TURN + 2 * TURN_WORDS <= LINE);
/// Words of a cache line. Each role's counters have two separate lines, apart from the words that all roles read.
const LINE: usize = 8;
const COUNTERS: usize = LINE;
const COUNTERS_PER_ROLE: usize = 2 * LINE;
/// Words after the last role's counters that only the consumer writes: its tally, and its evaluation.
const CONSUMERS_OWN: usize = 4 * LINE;
const TALLY: usize = 13 + AggregateAmounts::WORDS;
/// Word of the evaluation: 0, or the split under full-neighbourhood evaluation + 1, and the epoch it follows.
const EVALUATING: usize = TALLY;
/// Word of the sums: 0, or the number of parts of the batches that are summed, and the sequence number from which this
/// holds.
const SUMS: usize = EVALUATING + 1;
const _: () = assert!(SUMS < CONSUMERS_OWN);

/// Bits of a number of parts plus 1. The low bits are the current number, the next ones the previous number.
const PARTS_BITS: u32 = 8;
const _: () = assert!(MAX_SAMPLERS + 1 < 1 << PARTS_BITS);
const FROM_SHIFT: u32 = 2 * PARTS_BITS;

const EPOCH_SHIFT: u32 = 32;

/// Indices of the roles in the control page; sampler or worker `i` has [`FIRST_SAMPLER`] + i.
pub const CONSUMER: usize = 0;
/// The producer's index.
pub const PRODUCER: usize = 1;
/// The first sampler's index.
pub const FIRST_SAMPLER: usize = 2;

/// The counters of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Nanoseconds at work.
    Working = 0,
    /// Nanoseconds waiting for input.
    WaitingInput = 1,
    /// Nanoseconds waiting for a slot for its output.
    WaitingOutput = 2,
    /// Largest resident set in bytes, stored when the role ends.
    PeakRss = 3,
    /// Sequence number of the batch the role is at.
    Position = 4,
    /// Resident bytes of the process itself, stored when the role has done its work.
    Own = 5,
    /// Resident bytes of mapped files.
    Files = 6,
    /// Resident bytes of shared memory.
    Shared = 7,
    /// The first of the [`DiskCounts`]; the others follow.
    Disk = 8,
}

/// The number of counters.
pub const COUNTERS_USED: usize = Counter::Disk as usize + DiskCounts::WORDS;
const _: () = assert!(COUNTERS_USED <= COUNTERS_PER_ROLE);

/// A consumer's results so far, for a launcher that can no longer query it once it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerTally {
    /// Training batches used.
    pub batches: u64,
    /// Epochs whose last training batch was used.
    pub epochs: u64,
    /// Nanoseconds during which training batches were used or awaited.
    pub nanoseconds: u64,
    /// Cache counts of those batches.
    pub cache: CacheTotals,
    /// Batches that did not fit the shapes that batches are padded to.
    pub unpadded: u64,
    /// Batches that did not fit their feature slots on a GPU.
    pub oversized: u64,
    /// The producer's sums in those batches.
    pub aggregate: AggregateAmounts,
}

/// The requested early end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Stop {
    /// None.
    No = 0,
    /// The consumer finishes its batch, writes a checkpoint and ends the run.
    Soon = 1,
    /// Every role returns from any wait.
    Now = 2,
}

/// The control page of a run.
#[derive(Debug)]
pub struct Control {
    page: ControlPage,
    /// Samplers, or the workers that replace them.
    samplers: usize,
    producers: usize,
}

impl Control {
    /// A new page for a run with these options.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if memory cannot be allocated.
    pub fn create(options: &LoaderOptions) -> Result<Self, RuntimeError> {
        let page = ControlPage::create("uvatrain-control", words(options.samplers));
        Self::over(page, options)
    }

    /// Opens the page that another process made.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if it does not have that size.
    pub fn open(fd: OwnedFd, options: &LoaderOptions) -> Result<Self, RuntimeError> {
        Self::over(ControlPage::open("uvatrain-control", fd, words(options.samplers)), options)
    }

    fn over(page: Result<ControlPage, RegionError>, options: &LoaderOptions) -> Result<Self, RuntimeError> {
        let page = page.map_err(|error| RuntimeError::failed(format!("control page: {error}")))?;
        let producers = usize::from(options.prepare == Prepare::Roles);
        Ok(Self { page, samplers: options.samplers, producers })
    }

    /// Its descriptor, for handing over.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.page.fd()
    }

    /// The consumer's last turn, if there was one. Acquires all writes before [`Control::set_turn`].
    pub fn turn(&self) -> Option<Turn> {
        loop {
            let turns = self.page.load(TURNS);
            if turns == 0 {
                return None;
            }
            let first = turn_words(turns);
            let words = std::array::from_fn(|word| self.page.load(first + word));
            // The turn after the next overwrites these words. Samplers never observe that (`schedule`); a launcher that
            // was stopped in between may.
            if self.page.load(TURNS) == turns {
                return Some(Turn::from_words(words));
            }
        }
    }

    /// Turns to another order. Only the consumer may call it, once it has reached the last turn.
    pub fn set_turn(&self, turn: Turn) {
        let turns = self.page.load(TURNS) + 1;
        for (word, value) in turn.to_words().into_iter().enumerate() {
            self.page.store(turn_words(turns) + word, value);
        }
        // Release; partner: the acquire load in `turn`. A role that sees the number sees the words.
        self.page.store(TURNS, turns);
    }

    /// The requested end of the run.
    pub fn stop(&self) -> Stop {
        match self.page.load(STOP) {
            0 => Stop::No,
            1 => Stop::Soon,
            _ => Stop::Now,
        }
    }

    /// Requests the end of the run.
    pub fn set_stop(&self, stop: Stop) {
        // The value only rises: a run that must end now cannot return to ending soon.
        self.page.fetch_max(STOP, stop as u64);
    }

    /// Adds to a role's counter.
    pub fn count(&self, role: usize, counter: Counter, amount: u64) {
        self.page.fetch_add(COUNTERS + role * COUNTERS_PER_ROLE + counter as usize, amount);
    }

    /// Adds a batch's reads from disk to the role's.
    pub(crate) fn count_disk_reads(&self, role: usize, counts: DiskCounts) {
        let first = COUNTERS + role * COUNTERS_PER_ROLE + Counter::Disk as usize;
        for (at, amount) in counts.to_words().into_iter().enumerate().filter(|&(_, amount)| amount > 0) {
            self.page.fetch_add(first + at, amount);
        }
    }

    /// All reads of rows from disk so far.
    pub fn disk_reads(&self) -> DiskCounts {
        let sum = |at| {
            let word =
                |role| self.page.load(COUNTERS + role * COUNTERS_PER_ROLE + Counter::Disk as usize + at);
            (0..FIRST_SAMPLER + self.samplers).map(word).sum()
        };
        DiskCounts::from_words(std::array::from_fn(sum))
    }

    /// Records this process's current memory as the role's. Call it when the role has done its work and still holds its
    /// data.
    pub fn note_memory(&self, role: usize) {
        let Some(resident) = Resident::of_self() else { return };
        let Resident { own, files, shared, peak } = resident;
        let words = [
            (Counter::PeakRss, peak),
            (Counter::Own, own),
            (Counter::Files, files),
            (Counter::Shared, shared),
        ];
        for (counter, value) in words {
            self.page.store(COUNTERS + role * COUNTERS_PER_ROLE + counter as usize, value);
        }
    }

    /// The memory recorded for the role's process; `None` if the process never finished.
    pub fn memory(&self, role: usize) -> Option<Resident> {
        let word = |counter: Counter| self.page.load(COUNTERS + role * COUNTERS_PER_ROLE + counter as usize);
        let resident = Resident {
            own: word(Counter::Own),
            files: word(Counter::Files),
            shared: word(Counter::Shared),
            peak: word(Counter::PeakRss),
        };
        (resident.total() > 0).then_some(resident)
    }

    /// Records the largest resident set of this process as the role's.
    pub fn note_peak_rss(&self, role: usize) {
        let word = COUNTERS + role * COUNTERS_PER_ROLE + Counter::PeakRss as usize;
        // The kernel updates it only occasionally, and may report less than was recorded.
        self.page.fetch_max(word, peak_rss_bytes());
    }

    /// Records the batch that a role is at.
    pub fn note_position(&self, role: usize, sequence: u64) {
        self.page.store(COUNTERS + role * COUNTERS_PER_ROLE + Counter::Position as usize, sequence);
    }

    /// Records that the consumer evaluates a split on full neighbourhoods, after the epoch of that number, or no longer
    /// does. During the evaluation its position remains that of its last batch.
    pub fn note_evaluation(&self, of: Option<(Split, u32)>) {
        let word = of.map_or(0, |(split, epoch)| (split as u64 + 1) | u64::from(epoch) << EPOCH_SHIFT);
        self.page.store(self.tally_at() + EVALUATING, word);
    }

    /// The split that the consumer evaluates on full neighbourhoods, and the epoch it follows.
    pub fn evaluation(&self) -> Option<(Split, u32)> {
        let word = self.page.load(self.tally_at() + EVALUATING);
        let split = Split::ALL.into_iter().find(|split| *split as u64 + 1 == word & 0xFF)?;
        Some((split, (word >> EPOCH_SHIFT) as u32))
    }

    /// Lets this many parts of the batches be summed, from this sequence number on. Only the consumer may call it:
    /// before it returns the slot that this number's batch gets, and after it has taken a batch to which the last call
    /// applies.
    pub(crate) fn sum_parts(&self, from: u64, parts: u32) {
        let at = self.tally_at() + SUMS;
        let before = self.page.load(at) % (1 << PARTS_BITS);
        self.page.store(at, from << FROM_SHIFT | before << PARTS_BITS | (u64::from(parts) + 1));
    }

    /// The number of parts of the batches that are summed, for the batch of this sequence number; `None` before the
    /// first choice. Only the holder of that batch's slot may call it.
    pub(crate) fn parts_summed(&self, sequence: u64) -> Option<u32> {
        let word = self.page.load(self.tally_at() + SUMS);
        let parts = if sequence >= word >> FROM_SHIFT { word } else { word >> PARTS_BITS };
        ((parts % (1 << PARTS_BITS)) as u32).checked_sub(1)
    }

    /// The batch a role was last at.
    pub fn position(&self, role: usize) -> u64 {
        self.page.load(COUNTERS + role * COUNTERS_PER_ROLE + Counter::Position as usize)
    }

    /// Adds to the consumer's tally.
    pub fn add_to_tally(&self, more: &ConsumerTally) {
        let counts =
            |CacheCounts { list_reads, list_hits, rows, row_hits }| [list_reads, list_hits, rows, row_hits];
        let amounts = [more.batches, more.epochs, more.nanoseconds].into_iter();
        let amounts = amounts.chain(counts(more.cache.counted)).chain(counts(more.cache.others));
        let amounts = amounts.chain([more.unpadded, more.oversized]).chain(more.aggregate.to_words());
        for (place, amount) in amounts.enumerate() {
            self.page.fetch_add(self.tally_at() + place, amount);
        }
    }

    /// The consumer's tally so far.
    pub fn tally(&self) -> ConsumerTally {
        let word = |place| self.page.load(self.tally_at() + place);
        let counts = |first| CacheCounts {
            list_reads: word(first),
            list_hits: word(first + 1),
            rows: word(first + 2),
            row_hits: word(first + 3),
        };
        let cache = CacheTotals { counted: counts(3), others: counts(7) };
        let aggregate = AggregateAmounts::from_words(std::array::from_fn(|at| word(13 + at)));
        ConsumerTally {
            batches: word(0),
            epochs: word(1),
            nanoseconds: word(2),
            cache,
            unpadded: word(11),
            oversized: word(12),
            aggregate,
        }
    }

    /// The index after the last role's counters.
    fn tally_at(&self) -> usize {
        words(self.samplers) - CONSUMERS_OWN
    }

    /// The times so far of the role at this index.
    pub fn times(&self, role: usize) -> RoleTimes {
        let word = |counter: Counter| self.page.load(COUNTERS + role * COUNTERS_PER_ROLE + counter as usize);
        let seconds = |counter| word(counter) as f64 * 1e-9;
        RoleTimes {
            processes: 1,
            working_s: seconds(Counter::Working),
            waiting_input_s: seconds(Counter::WaitingInput),
            waiting_output_s: seconds(Counter::WaitingOutput),
            peak_rss_bytes: word(Counter::PeakRss),
        }
    }

    /// All roles' times so far.
    pub fn roles(&self) -> Roles {
        let mut sampler = RoleTimes { processes: self.samplers, ..RoleTimes::default() };
        for index in 0..self.samplers {
            let one = self.times(FIRST_SAMPLER + index);
            sampler.working_s += one.working_s / self.samplers as f64;
            sampler.waiting_input_s += one.waiting_input_s / self.samplers as f64;
            sampler.waiting_output_s += one.waiting_output_s / self.samplers as f64;
            sampler.peak_rss_bytes = sampler.peak_rss_bytes.max(one.peak_rss_bytes);
        }
        let producer = RoleTimes { processes: self.producers, ..self.times(PRODUCER) };
        Roles { sampler, producer, consumer: self.times(CONSUMER) }
    }
}

fn turn_words(turns: u64) -> usize {
    TURN + (turns % 2) as usize * TURN_WORDS
}

/// Words of the page of a run with this many samplers.
#[must_use]
pub fn words(samplers: usize) -> usize {
    COUNTERS + (FIRST_SAMPLER + samplers) * COUNTERS_PER_ROLE + CONSUMERS_OWN
}

/// The largest resident set of this process so far, in bytes; 0 if the system does not report it.
pub fn peak_rss_bytes() -> u64 {
    Resident::of_self().map_or(0, |resident| resident.peak)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::options::schedule::BatchOrder;

    fn of_samplers(samplers: usize) -> LoaderOptions {
        LoaderOptions { samplers, ..LoaderOptions::default() }
    }

    #[test]
    fn the_busiest_role_is_the_bottleneck_and_samplers_count_as_their_mean() {
        let control = Control::create(&of_samplers(2)).unwrap();
        for (role, working, waiting) in [(CONSUMER, 5, 5), (PRODUCER, 1, 9), (FIRST_SAMPLER, 8, 2), (3, 6, 4)]
        {
            control.count(role, Counter::Working, working * 1_000_000_000);
            control.count(role, Counter::WaitingInput, waiting * 1_000_000_000);
        }
        let roles = control.roles();
        assert_eq!(roles.sampler.working_s, 7.0);
        assert_eq!(roles.sampler.busy(), 0.7);
        assert_eq!(roles.bottleneck(), "sampler");
    }

    #[test]
    fn the_last_turn_is_seen_whole_while_others_follow() {
        let control = Arc::new(Control::create(&of_samplers(1)).unwrap());
        assert_eq!(control.turn(), None);
        let turn = |number: u64| Turn {
            sequence: number,
            order: Some(BatchOrder {
                main: Split::Train,
                validate: false,
                split: Split::Train,
                epoch: number as u32,
                batch: number as u32,
                epochs: number as u32,
                then_end: false,
            }),
        };
        const TURNS: u64 = 100_000;
        let writer = Arc::clone(&control);
        let writer = std::thread::spawn(move || (1..=TURNS).for_each(|number| writer.set_turn(turn(number))));
        let mut last = 0;
        while last < TURNS {
            let Some(seen) = control.turn() else { continue };
            assert_eq!(seen, turn(seen.sequence));
            assert!(seen.sequence >= last);
            last = seen.sequence;
        }
        writer.join().unwrap();
    }

    #[test]
    fn a_tally_adds_up_apart_from_the_last_samplers_counters() {
        let control = Control::create(&of_samplers(2)).unwrap();
        let counts = |row_hits| CacheCounts { list_reads: 4, list_hits: 3, rows: 2, row_hits };
        let cache = CacheTotals { counted: counts(1), others: counts(2) };
        let aggregate = AggregateAmounts::from_words([11, 12, 13, 14, 15, 16, 17, 18]);
        let one = ConsumerTally {
            batches: 1,
            epochs: 7,
            nanoseconds: 9,
            cache,
            unpadded: 5,
            oversized: 6,
            aggregate,
        };
        control.add_to_tally(&one);
        control.add_to_tally(&ConsumerTally { batches: 1, ..ConsumerTally::default() });
        assert_eq!(control.tally(), ConsumerTally { batches: 2, ..one });
        assert_eq!(control.position(FIRST_SAMPLER + 1), 0);
        control.note_position(FIRST_SAMPLER + 1, 5);
        assert_eq!(control.tally(), ConsumerTally { batches: 2, ..one });
        // The next word is the evaluation.
        assert_eq!(control.evaluation(), None);
        for of in [(Split::Valid, 0), (Split::Test, u32::MAX), (Split::Train, 7)] {
            control.note_evaluation(Some(of));
            assert_eq!(control.evaluation(), Some(of));
        }
        control.note_evaluation(None);
        assert_eq!(control.evaluation(), None);
        assert_eq!((control.parts_summed(0), control.parts_summed(u64::MAX)), (None, None));
        let mut before = None;
        for (from, parts) in [(1, 0), (1 << 40, 4), ((1 << 40) + 1, MAX_SAMPLERS as u32)] {
            control.sum_parts(from, parts);
            let found = [from - 1, from, u64::MAX].map(|sequence| control.parts_summed(sequence));
            assert_eq!(found, [before, Some(parts), Some(parts)]);
            assert_eq!(control.evaluation(), None);
            before = Some(parts);
        }
        assert_eq!(control.tally(), ConsumerTally { batches: 2, ..one });
    }

    #[test]
    fn a_role_without_an_end_has_no_memory_noted_and_one_with_it_keeps_times() {
        let control = Control::create(&of_samplers(2)).unwrap();
        control.count(FIRST_SAMPLER, Counter::Working, 2_000_000_000);
        control.note_position(FIRST_SAMPLER, 5);
        control.note_memory(FIRST_SAMPLER);
        let noted = control.memory(FIRST_SAMPLER).unwrap();
        assert!(noted.own > 100_000 && noted.files > 100_000 && noted.peak >= noted.own, "{noted:?}");
        assert_eq!(control.roles().sampler.working_s, 1.0);
        assert_eq!(control.position(FIRST_SAMPLER), 5);
        for other in [CONSUMER, PRODUCER, FIRST_SAMPLER + 1] {
            assert_eq!(control.memory(other), None);
        }
    }

    #[test]
    fn reads_from_disk_add_up_over_all_roles_apart_from_other_counters() {
        let control = Control::create(&of_samplers(2)).unwrap();
        assert_eq!(control.disk_reads(), DiskCounts::default());
        for role in [PRODUCER, FIRST_SAMPLER, FIRST_SAMPLER + 1] {
            control.count_disk_reads(role, DiskCounts::from_words([96, 4096, 1, 0, 5, 6, 7]));
            control.count_disk_reads(role, DiskCounts { bytes_read: 512, reads: 2, ..DiskCounts::default() });
            control.note_position(role, 7);
        }
        let all = DiskCounts::from_words([3 * 96, 3 * 4608, 9, 0, 15, 18, 21]);
        assert_eq!((control.disk_reads(), control.tally()), (all, ConsumerTally::default()));
        assert_eq!(
            (control.times(PRODUCER), control.position(PRODUCER)),
            (RoleTimes { processes: 1, ..RoleTimes::default() }, 7)
        );
    }

    #[test]
    fn a_process_has_a_resident_set() {
        assert!(peak_rss_bytes() > 100_000);
    }
}
