//! The sequence number of each batch.
//!
//! A run's batches are numbered 0, 1, 2, … through all its passes, and the number alone determines the slots of a
//! batch. With the rank it determines the sampler. Every role computes the schedule. Only the consumer's decisions
//! during the run cannot be computed: an early end of training, or, with a user's consumer, the next pass. The consumer
//! announces these as a *turn* in the control page: from this sequence number on, these batches.
//!
//! | sequence `s` | before a turn is known | when the last one is known to be at `t` |
//! |---|---|---|
//! | `s` < t | the batch of the order in force | an empty hand-over |
//! | `s` ≥ t | the batch of the order in force | the batch of the turn's order |
//! | after the order's last batch | an empty hand-over | the same, or the end, as the turn says |
//!
//! Before a turn, and after the last batch, the rings therefore carry a few empty hand-overs. No role waits for the
//! turn itself: the slots hold back a sampler that runs ahead, as always.
//!
//! Invariants:
//! - No sampler has begun a batch ≥ t when the turn becomes visible to it. The consumer chooses t far enough ahead
//!   ([`Schedule::turn_after`]): the slot of batch t can be free only after a chain of hand-overs that began after the
//!   store of the turn. Each link is a release met by an acquire, so the sampler that owns batch t sees the turn.
//! - A turn follows another only when the consumer has reached the earlier one's t. So a role that sees a later turn
//!   without having seen the earlier one is before both.
//!
//! If several processes divide an epoch ([`Part`]), the numbers count the batches of one part; the keys are those of
//! the whole epoch. If they also exchange rows, a pass has the same number of sequence numbers in each part
//! ([`Schedule::in_step`]). A pass may begin at any batch of the epoch, since other numbers of parts may have used
//! those before: part `i` then has the batches `first + i`, `first + i + parts`, and so on. With standby parts, which
//! train only from a batch of each epoch on, [`Steps`](crate::options::steps::Steps) assigns the batches. Standby parts
//! have batches only of the training split.

use serde::{Deserialize, Serialize};
use uva_graph::Split;
use uva_sample::BatchKey;

use crate::options::Passes;
use crate::options::part::{Part, Standby};
use crate::options::steps::Steps;

/// The content of one sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleItem {
    /// A batch to sample, gather and use.
    Batch(BatchKey),
    /// No batch; a turn follows soon.
    Skipped,
    /// No batch in this part, while other parts have one. Each part exchanges rows with the others at every sequence
    /// number. The key is that of the batch that this part would have had, after the split's last one.
    Beside(BatchKey),
    /// The run's last hand-over; nothing follows.
    End,
}

impl ScheduleItem {
    /// Whether other parts have a batch of this split and epoch at this number, and this part has none.
    pub fn is_beside(self, (split, epoch): (Split, u32)) -> bool {
        matches!(self, ScheduleItem::Beside(key) if (key.split, key.epoch) == (split, epoch))
    }
}

/// An order of batches: from one batch on, pass after pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchOrder {
    /// The split whose epochs are in sequence.
    pub main: Split,
    /// Whether the validation split follows each epoch.
    pub validate: bool,
    /// The split of the first batch. If it is neither of these, the order has only this one pass.
    pub split: Split,
    /// The epoch of the first batch.
    pub epoch: u32,
    /// The batch of the epoch at which the first pass begins, in all parts together.
    pub batch: u32,
    /// Exclusive upper bound of the epochs.
    pub epochs: u32,
    /// Whether the run ends after the last batch; otherwise another turn follows.
    pub then_end: bool,
}

/// The change of the consumer to another order of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The first sequence number of the new order.
    pub sequence: u64,
    /// The order that starts there; `None` for the end.
    pub order: Option<BatchOrder>,
}

/// Words of a turn in the control page.
pub(crate) const TURN_WORDS: usize = 3;

const THEN_END: u64 = 1 << 4;
const VALIDATE: u64 = 1 << 5;
const ORDERED: u64 = 1 << 6;
const EPOCH_SHIFT: u32 = 32;

impl Turn {
    /// Encodes it as words of the control page.
    pub fn to_words(self) -> [u64; TURN_WORDS] {
        let Some(order) = self.order else { return [self.sequence, 0, 0] };
        let flag = |is: bool, bit: u64| if is { bit } else { 0 };
        let flags = ORDERED | flag(order.then_end, THEN_END) | flag(order.validate, VALIDATE);
        let splits = order.main as u64 | (order.split as u64) << 2;
        [
            self.sequence,
            splits | flags | u64::from(order.epoch) << EPOCH_SHIFT,
            u64::from(order.batch) | u64::from(order.epochs) << EPOCH_SHIFT,
        ]
    }

    /// Decodes words of the control page.
    pub fn from_words([sequence, first, second]: [u64; TURN_WORDS]) -> Self {
        let split = |bits: u64| match bits & 3 {
            0 => Split::Train,
            1 => Split::Valid,
            _ => Split::Test,
        };
        let order = (first & ORDERED != 0).then(|| BatchOrder {
            main: split(first),
            validate: first & VALIDATE != 0,
            split: split(first >> 2),
            epoch: (first >> EPOCH_SHIFT) as u32,
            batch: second as u32,
            epochs: (second >> EPOCH_SHIFT) as u32,
            then_end: first & THEN_END != 0,
        });
        Self { sequence, order }
    }
}

/// The order of a run's batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    passes: Passes,
    part: Part,
    standby: Standby,
    /// Batches of a pass over each split, of all parts together.
    all: [u64; 3],
    /// Whether passes have the same number of sequence numbers in each part. A launcher never starts such a run.
    #[serde(skip)]
    in_step: bool,
}

impl Schedule {
    /// A schedule over splits (train, valid, test) with these numbers of batches, all parts together.
    ///
    /// Every part has the same number of training batches; the few remaining ones are dropped. Batches of the other
    /// splits are never dropped.
    pub fn new(passes: Passes, part: Part, batches: [usize; 3]) -> Self {
        let all = batches.map(|batches| batches as u64);
        Self { passes, part, standby: Standby::default(), all, in_step: false }
    }

    /// Makes the last parts standby parts. Such passes do not go in step.
    #[must_use]
    pub fn with_standby(self, standby: Standby) -> Self {
        Self { standby, ..self }
    }

    /// Gives passes the same number of sequence numbers in every part, that of the part with the most batches.
    #[must_use]
    pub fn in_step(self) -> Self {
        Self { in_step: true, ..self }
    }

    /// Sequence numbers of a pass over the split.
    pub fn steps(&self, split: Split) -> u64 {
        self.steps_from(split, 0)
    }

    /// Sequence numbers of a pass that begins at this batch of the epoch.
    pub fn steps_from(&self, split: Split, first: u64) -> u64 {
        // The first part has the most.
        self.share(split, first, if self.in_step { 0 } else { self.part.index })
    }

    /// Limits the training batches of an epoch in each part to `train`, for a process that trains together with others
    /// that have at most as many.
    #[must_use]
    pub fn with_at_most(mut self, train: u64) -> Self {
        let most = train.saturating_mul(u64::from(self.part.of.max(1)));
        let all = &mut self.all[Split::Train as usize];
        *all = most.min(*all);
        self
    }

    /// Batches of a pass over the split, all parts together.
    pub fn all_batches(&self, split: Split) -> u64 {
        self.all[split as usize]
    }

    /// Batches of a pass over the split, in this part.
    pub fn batches(&self, split: Split) -> u64 {
        self.batches_from(split, 0)
    }

    /// Batches of a pass that begins at this batch of the epoch, in this part.
    pub fn batches_from(&self, split: Split, first: u64) -> u64 {
        self.share(split, first, self.part.index)
    }

    /// The steps of a pass over the split from this batch of the epoch on.
    fn training_steps(&self, split: Split, first: u64) -> Steps {
        Steps::new(self.part, self.standby, self.all_batches(split), first)
    }

    /// The batches from `first` on that this part has.
    fn share(&self, split: Split, first: u64, part: u32) -> u64 {
        let (steps, part) = (self.training_steps(split, first), u64::from(part));
        if split == Split::Train {
            return steps.count(part);
        }
        let left = self.all_batches(split).saturating_sub(first);
        if part < steps.trainers() { left.saturating_sub(part).div_ceil(steps.trainers()) } else { 0 }
    }

    /// The batch of the epoch at which all parts are when this one has had `batches` of a pass over the split that
    /// began at `first`. A standby part is at the position at which it joins the others.
    pub fn position(&self, split: Split, first: u64, batches: u64) -> u64 {
        let steps = self.training_steps(split, first);
        if split == Split::Train {
            return steps.position(u64::from(self.part.index), batches);
        }
        first.saturating_add(batches.saturating_mul(steps.trainers()))
    }

    /// The number in its epoch of this part's batch that follows `batches` others of a pass over the split that began at
    /// `first`.
    pub fn number(&self, split: Split, first: u64, batches: u64) -> u64 {
        self.position(split, first, batches).saturating_add(u64::from(self.part.index))
    }

    /// Number of parts with a batch in the step in which this part has its batch number `batches` of a pass over the
    /// split that began at `first`.
    pub fn parts_in_step(&self, split: Split, first: u64, batches: u64) -> u64 {
        let steps = self.training_steps(split, first);
        match split {
            Split::Train => steps.ranks_in_step(u64::from(self.part.index), batches),
            Split::Valid | Split::Test => steps.trainers(),
        }
    }

    /// Number of parts with a batch in every step of a training pass.
    pub fn trainers(&self) -> u64 {
        self.training_steps(Split::Train, 0).trainers()
    }

    /// Training batches an epoch.
    pub fn train_batches(&self) -> u64 {
        self.batches(Split::Train)
    }

    /// The number of a training batch among those of the run, in this part: from 0 on, through all epochs.
    pub fn training_number(&self, key: BatchKey) -> u64 {
        let start = self.passes.start;
        let first = u64::from(start.epoch) * self.train_batches() + u64::from(start.batch);
        let number = u64::from(key.epoch) * self.train_batches() + self.in_epoch(key);
        number.saturating_sub(first)
    }

    /// The number of a batch in its pass, in this part.
    pub fn in_epoch(&self, key: BatchKey) -> u64 {
        let steps = self.training_steps(key.split, 0);
        match key.split {
            Split::Train => steps.of_number(u64::from(self.part.index), u64::from(key.batch)),
            Split::Valid | Split::Test => u64::from(key.batch) / steps.trainers(),
        }
    }

    /// Training batches of the run, in this part, if nothing ends it early.
    pub fn training_left(&self) -> u64 {
        let Passes { epochs, start, .. } = self.passes;
        let epochs = u64::from(epochs.saturating_sub(start.epoch));
        (epochs * self.train_batches()).saturating_sub(u64::from(start.batch))
    }

    /// Validation batches after each epoch that pass through the slots.
    pub fn valid_batches(&self) -> u64 {
        if self.passes.validate { self.batches(Split::Valid) } else { 0 }
    }

    /// Test batches at the end that pass through the slots.
    pub fn test_batches(&self) -> u64 {
        if self.passes.test { self.batches(Split::Test) } else { 0 }
    }

    /// The passes of the schedule.
    pub fn passes(&self) -> Passes {
        self.passes
    }

    /// The first order of a run; `None` if the consumer requests each pass.
    pub fn first_order(&self) -> Option<BatchOrder> {
        let Passes { epochs, validate, start, steered, .. } = self.passes;
        (!steered).then_some(BatchOrder {
            main: Split::Train,
            validate,
            split: Split::Train,
            epoch: start.epoch,
            // A cursor after an epoch's last training batch is before its validation: the first pass then has no steps.
            batch: self.position(Split::Train, 0, u64::from(start.batch)).try_into().unwrap_or(u32::MAX),
            epochs,
            then_end: false,
        })
    }

    /// The number of sequence numbers for training, validation included, if nothing ends it early.
    pub fn training_end(&self) -> u64 {
        self.first_order().map_or(0, |order| self.length(&order))
    }

    /// The content of `sequence`.
    pub fn item(&self, sequence: u64, turn: Option<Turn>) -> ScheduleItem {
        let (first, order) = match turn {
            None => (0, self.first_order()),
            Some(turn) if sequence < turn.sequence => return ScheduleItem::Skipped,
            Some(Turn { order: None, .. }) => return ScheduleItem::End,
            Some(turn) => (turn.sequence, turn.order),
        };
        let Some(order) = order else { return ScheduleItem::Skipped };
        let offset = sequence - first;
        if offset < self.length(&order) {
            self.at(&order, offset)
        } else if order.then_end {
            ScheduleItem::End
        } else {
            ScheduleItem::Skipped
        }
    }

    /// The sequence number of the end, once it is known.
    pub fn end(&self, turn: Option<Turn>) -> Option<u64> {
        let turn = turn?;
        match turn.order {
            None => Some(turn.sequence),
            Some(order) => order.then_end.then(|| turn.sequence + self.length(&order)),
        }
    }

    /// The sequence number for a turn when the consumer has returned at most every batch before `position`. It is after
    /// every batch that a sampler, or a worker (which has no batch slots), can have begun by then.
    pub fn turn_after(&self, position: u64, feature_slots: usize, batch_slots: usize) -> u64 {
        // The producer can have filled feature slots up to position + F − 1, so it has freed no batch slot from
        // position + F on. A sampler can have begun the batches for the freed slots: up to position + F + S − 1.
        // A worker fills feature slots itself, so it can have begun up to position + F − 1.
        position + (feature_slots + batch_slots) as u64
    }

    /// Batches of one epoch of an order, validation included.
    fn epoch_batches(&self, order: &BatchOrder) -> u64 {
        let validation = if order.validates() { self.steps(Split::Valid) } else { 0 };
        self.steps(order.main) + validation
    }

    /// Steps of an order's first pass, which may begin within its split.
    fn first_pass(&self, order: &BatchOrder) -> u64 {
        self.steps_from(order.split, u64::from(order.batch))
    }

    /// The offset in its epoch of the batch after an order's first pass.
    fn behind_first_pass(&self, order: &BatchOrder) -> u64 {
        if order.split == order.main { self.steps(order.main) } else { self.epoch_batches(order) }
    }

    /// Number of batches of an order.
    fn length(&self, order: &BatchOrder) -> u64 {
        if order.has_one_pass() {
            return self.first_pass(order);
        }
        match u64::from(order.epochs.saturating_sub(order.epoch)) {
            0 => 0,
            epochs => {
                self.first_pass(order) + epochs * self.epoch_batches(order) - self.behind_first_pass(order)
            }
        }
    }

    /// The item at this offset of an order.
    fn at(&self, order: &BatchOrder, offset: u64) -> ScheduleItem {
        let (split, epoch, first, batch) = match offset.checked_sub(self.first_pass(order)) {
            None => (order.split, order.epoch, u64::from(order.batch), offset),
            Some(behind) => {
                let absolute = self.behind_first_pass(order) + behind;
                let (epochs, within) =
                    (absolute / self.epoch_batches(order), absolute % self.epoch_batches(order));
                let epoch = order.epoch + epochs as u32;
                match within.checked_sub(self.steps(order.main)) {
                    None => (order.main, epoch, 0, within),
                    Some(batch) => (Split::Valid, epoch, 0, batch),
                }
            }
        };
        let key = BatchKey { split, epoch, batch: self.number(split, first, batch) as u32 };
        if batch < self.batches_from(split, first) {
            ScheduleItem::Batch(key)
        } else {
            ScheduleItem::Beside(key)
        }
    }
}

impl BatchOrder {
    fn validates(&self) -> bool {
        self.validate && self.main != Split::Valid
    }

    /// Whether the order ends with its first pass.
    fn has_one_pass(&self) -> bool {
        self.split != self.main && !(self.split == Split::Valid && self.validates())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Cursor;
    use Split::{Test, Train, Valid};

    const WHOLE: Part = Part { index: 0, of: 1 };

    fn schedule(epochs: u32, start: Cursor) -> Schedule {
        let passes = Passes { epochs, validate: true, test: true, start, steered: false };
        Schedule::new(passes, WHOLE, [3, 2, 2])
    }

    fn order(split: Split, epoch: u32, batch: u32) -> BatchOrder {
        BatchOrder { main: Train, validate: false, split, epoch, batch, epochs: 9, then_end: false }
    }

    fn keys(schedule: &Schedule) -> Vec<(Split, u32, u32)> {
        from(schedule, None, 0, schedule.training_end())
    }

    fn from(schedule: &Schedule, turn: Option<Turn>, first: u64, count: u64) -> Vec<(Split, u32, u32)> {
        (first..first + count)
            .map(|sequence| match schedule.item(sequence, turn) {
                ScheduleItem::Batch(key) => (key.split, key.epoch, key.batch),
                other => panic!("{other:?} at {sequence}"),
            })
            .collect()
    }

    #[test]
    fn training_and_validation_alternate_and_the_test_pass_follows_the_turn() {
        let schedule = schedule(2, Cursor::default());
        assert_eq!(
            keys(&schedule),
            [
                (Train, 0, 0),
                (Train, 0, 1),
                (Train, 0, 2),
                (Valid, 0, 0),
                (Valid, 0, 1),
                (Train, 1, 0),
                (Train, 1, 1),
                (Train, 1, 2),
                (Valid, 1, 0),
                (Valid, 1, 1)
            ]
        );
        assert_eq!(schedule.item(10, None), ScheduleItem::Skipped);
        let turn =
            Some(Turn { sequence: 10, order: Some(BatchOrder { then_end: true, ..order(Test, 0, 0) }) });
        assert_eq!(
            schedule.item(11, turn),
            ScheduleItem::Batch(BatchKey { split: Test, epoch: 0, batch: 1 })
        );
        assert_eq!(schedule.item(12, turn), ScheduleItem::End);
        assert_eq!(schedule.end(turn), Some(12));
        let over = Some(Turn { sequence: 10, order: None });
        assert_eq!((schedule.item(10, over), schedule.end(over)), (ScheduleItem::End, Some(10)));
    }

    #[test]
    fn a_resumed_schedule_is_the_rest_of_the_whole_one() {
        let whole = keys(&schedule(3, Cursor::default()));
        for (epoch, batch, done) in [(0, 2, 2), (1, 0, 5), (1, 3, 8), (2, 1, 11), (3, 0, 15)] {
            assert_eq!(keys(&schedule(3, Cursor { epoch, batch })), whole[done..], "{epoch}.{batch}");
        }
    }

    #[test]
    fn an_early_turn_skips_all_that_can_be_in_flight() {
        let schedule = schedule(9, Cursor::default());
        let sequence = schedule.turn_after(5, 2, 4);
        assert_eq!(sequence, 11);
        let turn = Some(Turn { sequence, order: Some(order(Test, 0, 0)) });
        assert!((5..11).all(|s| schedule.item(s, turn) == ScheduleItem::Skipped));
        assert!(matches!(schedule.item(11, turn), ScheduleItem::Batch(BatchKey { split: Test, .. })));
    }

    #[test]
    fn a_steered_run_begins_empty_and_continues_from_each_turn() {
        let passes = Passes { steered: true, ..Passes::default() };
        let schedule = Schedule::new(passes, WHOLE, [3, 2, 2]);
        assert_eq!(schedule.item(0, None), ScheduleItem::Skipped);
        let at = |order| Some(Turn { sequence: 7, order: Some(order) });
        // Epochs of the main split are in sequence.
        assert_eq!(
            from(&schedule, at(order(Train, 4, 2)), 7, 4),
            [(Train, 4, 2), (Train, 5, 0), (Train, 5, 1), (Train, 5, 2)]
        );
        // With validation between them, from any start.
        let validated = BatchOrder { validate: true, ..order(Valid, 4, 1) };
        assert_eq!(from(&schedule, at(validated), 7, 2), [(Valid, 4, 1), (Train, 5, 0)]);
        // Any other split has one pass, after which the consumer has to turn again.
        for split in [Valid, Test] {
            let turn = at(order(split, 4, 0));
            assert_eq!(from(&schedule, turn, 7, 2), [(split, 4, 0), (split, 4, 1)]);
            assert_eq!((schedule.item(9, turn), schedule.end(turn)), (ScheduleItem::Skipped, None));
        }
        // The validation split may be the main one.
        let valid = BatchOrder { main: Valid, validate: true, ..order(Valid, 0, 1) };
        assert_eq!(from(&schedule, at(valid), 7, 3), [(Valid, 0, 1), (Valid, 1, 0), (Valid, 1, 1)]);
        // An order may end.
        let last = BatchOrder { epochs: 5, ..order(Train, 4, 2) };
        assert_eq!(schedule.item(8, at(last)), ScheduleItem::Skipped);
    }

    #[test]
    fn parts_of_an_epoch_are_disjoint_equal_in_training_and_whole_otherwise() {
        for (batches, of) in [([10, 7, 5], 3), ([9, 0, 1], 4), ([4, 4, 4], 4), ([3, 3, 3], 1)] {
            let mut seen = [vec![], vec![], vec![]];
            for index in 0..of {
                let passes = Passes { steered: true, ..Passes::default() };
                let schedule = Schedule::new(passes, Part { index, of }, batches);
                assert_eq!(schedule.train_batches(), batches[0] as u64 / u64::from(of));
                for split in [Train, Valid, Test] {
                    let turn = Some(Turn { sequence: 0, order: Some(order(split, 2, 0)) });
                    let count = schedule.batches(split);
                    seen[split as usize].extend(from(&schedule, turn, 0, count).into_iter().map(|key| key.2));
                }
            }
            let whole = |count: usize| (0..count as u32).collect::<Vec<_>>();
            seen.iter_mut().for_each(|batches| batches.sort());
            assert_eq!(seen[0], whole(batches[0] / of as usize * of as usize), "{batches:?} in {of}");
            assert_eq!(seen[1..], [whole(batches[1]), whole(batches[2])], "{batches:?} in {of}");
        }
    }

    #[test]
    fn parts_in_step_have_as_many_sequence_numbers_and_the_same_batches() {
        let (batches, of) = ([7, 5, 1], 3);
        let parts: Vec<_> = (0..of)
            .map(|index| {
                let passes = Passes { steered: true, ..Passes::default() };
                let plain = Schedule::new(passes, Part { index, of }, batches);
                (plain, plain.in_step())
            })
            .collect();
        for validate in [false, true] {
            for (split, steps) in [(Train, 2), (Valid, 2), (Test, 1)] {
                for (plain, in_step) in &parts {
                    assert_eq!((in_step.steps(split), plain.steps(split)), (steps, plain.batches(split)));
                    let turn = Some(Turn {
                        sequence: 0,
                        order: Some(BatchOrder { validate, ..order(split, 1, 0) }),
                    });
                    // Two epochs of training, each with its validation; one pass is enough for others.
                    let items = |schedule: &Schedule, count| -> Vec<_> {
                        (0..count).map(|sequence| schedule.item(sequence, turn)).collect()
                    };
                    let count = if split == Train && validate { 8 } else { steps };
                    let found = items(in_step, count);
                    let own: Vec<_> =
                        found.iter().filter(|item| !matches!(item, ScheduleItem::Beside(_))).collect();
                    let expected = items(plain, own.len() as u64);
                    assert_eq!(own, expected.iter().collect::<Vec<_>>());
                    assert!(
                        found.iter().all(|item| !matches!(item, ScheduleItem::Skipped | ScheduleItem::End)),
                        "{found:?}"
                    );
                }
            }
        }
        // The last part has one validation batch and the first two.
        let last = &parts[2].1;
        let turn = Some(Turn { sequence: 4, order: Some(order(Valid, 0, 0)) });
        assert!(matches!(last.item(4, turn), ScheduleItem::Batch(_)));
        assert_eq!(last.item(5, turn), ScheduleItem::Beside(BatchKey { split: Valid, epoch: 0, batch: 5 }));
        assert_eq!(last.item(6, turn), ScheduleItem::Skipped);
    }

    #[test]
    fn another_number_of_parts_resumes_with_each_batch_exactly_once() {
        let all = [23, 11, 5];
        let keys = |part: Part, order: BatchOrder, in_step: bool, count: u64| -> Vec<(Split, u32, u32)> {
            let passes = Passes { steered: true, ..Passes::default() };
            let schedule = Schedule::new(passes, part, all);
            let schedule = if in_step { schedule.in_step() } else { schedule };
            let turn = Some(Turn { sequence: 0, order: Some(order) });
            (0..count)
                .filter_map(|sequence| match schedule.item(sequence, turn) {
                    ScheduleItem::Batch(key) => Some((key.split, key.epoch, key.batch)),
                    _ => None,
                })
                .collect()
        };
        for (before, done, of, in_step) in
            [(2, 3, 3, false), (3, 4, 2, true), (1, 5, 4, false), (4, 2, 1, true)]
        {
            for split in [Train, Valid] {
                let first = before * done;
                let start = BatchOrder { main: split, ..order(split, 2, 0) };
                let mut seen = Vec::new();
                for index in 0..before {
                    seen.extend(keys(Part { index, of: before }, start, in_step, u64::from(done)));
                }
                let mut next_epoch = Vec::new();
                for index in 0..of {
                    let part = Part { index, of };
                    let left =
                        Schedule::new(Passes::default(), part, all).batches_from(split, u64::from(first));
                    let goes_on = BatchOrder { batch: first, ..start };
                    // If parts go in step, some of them have no batch in the last step of a pass.
                    let found = keys(part, goes_on, in_step, left + 4);
                    let of_epoch = |epoch| found.iter().filter(move |key| key.1 == epoch).copied();
                    assert_eq!(of_epoch(2).count() as u64, left);
                    seen.extend(of_epoch(2));
                    // The next epoch begins at its first batch.
                    next_epoch.push(of_epoch(3).next().expect("a batch of the next epoch"));
                }
                seen.sort_by_key(|key| key.2);
                let expected = if split == Train { first + (23 - first) / of * of } else { 11 };
                assert_eq!(seen, (0..expected).map(|batch| (split, 2, batch)).collect::<Vec<_>>());
                assert_eq!(next_epoch, (0..of).map(|index| (split, 3, index)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn epochs_ended_early_with_others_follow_in_turn_and_evaluation_is_whole() {
        let short = schedule(2, Cursor::default()).with_at_most(2);
        assert_eq!((short.train_batches(), short.batches(Valid)), (2, 2));
        let of_training: Vec<_> = keys(&short).into_iter().filter(|key| key.0 == Train).collect();
        assert_eq!(of_training, [(Train, 0, 0), (Train, 0, 1), (Train, 1, 0), (Train, 1, 1)]);
        assert_eq!(schedule(2, Cursor::default()).with_at_most(9).train_batches(), 3);
    }

    #[test]
    fn a_turn_survives_its_words() {
        let orders = [
            order(Train, 0, 0),
            BatchOrder {
                main: Valid,
                validate: true,
                then_end: true,
                epochs: u32::MAX,
                ..order(Test, u32::MAX, 7)
            },
            BatchOrder { main: Test, epochs: 0, ..order(Valid, 1, u32::MAX) },
        ];
        for order in orders.into_iter().map(Some).chain([None]) {
            for sequence in [0, 12345, u64::MAX] {
                let turn = Turn { sequence, order };
                assert_eq!(Turn::from_words(turn.to_words()), turn);
            }
        }
    }
}
