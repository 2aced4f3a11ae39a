//! Which batch has which sequence number.
//!
//! A run's batches are numbered 0, 1, 2, … through all its passes, and the number alone decides the sampler and the
//! slots of a batch. Every role computes the schedule for itself. What it cannot know is what the consumer decides
//! while the run goes on: that training ends early, or, where the consumer is somebody's own program, which pass comes
//! next at all. The consumer announces that as a *turn* in the control page: from this sequence number on, these
//! batches.
//!
//! | sequence `s` | before a turn is known | when the last one is known to be at `t` |
//! |---|---|---|
//! | `s` < t | the batch of the order in force | nothing, handed over as such |
//! | `s` ≥ t | the batch of the order in force | the batch of the turn's order |
//! | behind the order's last batch | nothing, handed over as such | the same, or the end, as the turn says |
//!
//! So before a turn, and behind the last batch, the rings carry a few empty hand-overs, and nobody needs to wait for
//! the turn as such: a sampler that runs ahead is held back by the slots, as ever.
//!
//! Invariants:
//! - No sampler has begun a batch ≥ t when the turn becomes visible to it. The consumer chooses t so far ahead
//!   ([`Schedule::turn_after`]) that the slot of batch t can be free only after a chain of hand-overs which began
//!   behind the store of the turn; each link is a release met by an acquire, so the sampler that owns batch t sees it.
//! - A turn follows another only when the consumer has come to the earlier one's t. So whoever meets a later turn
//!   without having seen the earlier one is before both.
//!
//! Where several processes divide an epoch ([`Part`]), this counts the batches of one part; the keys are those of the
//! whole.

use serde::{Deserialize, Serialize};
use uva_graph::Split;
use uva_sample::BatchKey;

use crate::options::{Part, Passes};

/// What stands at one sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A batch to sample, gather and use.
    Batch(BatchKey),
    /// Nothing: a turn is about to come.
    Skipped,
    /// The run's last hand-over; nothing follows.
    End,
}

/// An order of batches: from one batch on, pass after pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The split whose epochs follow one another.
    pub main: Split,
    /// Whether the validation split follows each of them.
    pub validate: bool,
    /// The split of the first batch. Where it is neither, the order has this one pass only.
    pub split: Split,
    /// The epoch of the first batch.
    pub epoch: u32,
    /// The first batch, counted within this part.
    pub batch: u32,
    /// Where the order ends: before the epoch of this number.
    pub epochs: u32,
    /// Whether the end follows behind the last batch; otherwise another turn.
    pub then_end: bool,
}

/// Where the consumer turns to another order of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The first sequence number of the new order.
    pub sequence: u64,
    /// What stands there; `None`: the end.
    pub order: Option<Order>,
}

/// Words of the control page that a turn takes.
pub(crate) const TURN_WORDS: usize = 3;

const THEN_END: u64 = 1 << 4;
const VALIDATE: u64 = 1 << 5;
const ORDERED: u64 = 1 << 6;
const EPOCH_SHIFT: u32 = 32;

impl Turn {
    /// As words of the control page.
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

    /// Back from words of the control page.
    pub fn from_words([sequence, first, second]: [u64; TURN_WORDS]) -> Self {
        let split = |bits: u64| match bits & 3 {
            0 => Split::Train,
            1 => Split::Valid,
            _ => Split::Test,
        };
        let order = (first & ORDERED != 0).then(|| Order {
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
    /// Batches of a pass over each split that are this part's.
    batches: [u64; 3],
}

impl Schedule {
    /// A schedule over splits (train, valid, test) of the given numbers of batches, all parts together.
    ///
    /// Of training batches every part has as many, and the few that are left over are nobody's; of the others none is
    /// left out.
    pub fn new(passes: Passes, part: Part, batches: [usize; 3]) -> Self {
        let (index, of) = (u64::from(part.index), u64::from(part.of.max(1)));
        let share = |split: Split| {
            let all = batches[split as usize] as u64;
            if split == Split::Train { all / of } else { (all + of - 1 - index.min(of - 1)) / of }
        };
        Self { passes, part, batches: [share(Split::Train), share(Split::Valid), share(Split::Test)] }
    }

    /// Batches of a pass over the split, in this part.
    pub fn batches(&self, split: Split) -> u64 {
        self.batches[split as usize]
    }

    /// Training batches an epoch.
    pub fn train_batches(&self) -> u64 {
        self.batches(Split::Train)
    }

    /// Validation batches after each epoch that go through the slots.
    pub fn valid_batches(&self) -> u64 {
        if self.passes.validate { self.batches(Split::Valid) } else { 0 }
    }

    /// Test batches at the end that go through the slots.
    pub fn test_batches(&self) -> u64 {
        if self.passes.test { self.batches(Split::Test) } else { 0 }
    }

    /// The passes it was made from.
    pub fn passes(&self) -> Passes {
        self.passes
    }

    /// What a run begins with; `None` where the consumer says where to go.
    pub fn first_order(&self) -> Option<Order> {
        let Passes { epochs, validate, start, steered, .. } = self.passes;
        (!steered).then_some(Order {
            main: Split::Train,
            validate,
            split: Split::Train,
            epoch: start.epoch,
            // A cursor behind an epoch's last training batch stands before its validation: see `within`.
            batch: start.batch,
            epochs,
            then_end: false,
        })
    }

    /// How many sequence numbers training takes, validation included, if nothing ends it early.
    pub fn training_end(&self) -> u64 {
        self.first_order().map_or(0, |order| self.length(&order))
    }

    /// What stands at `sequence`.
    pub fn item(&self, sequence: u64, turn: Option<Turn>) -> Item {
        let (first, order) = match turn {
            None => (0, self.first_order()),
            Some(turn) if sequence < turn.sequence => return Item::Skipped,
            Some(Turn { order: None, .. }) => return Item::End,
            Some(turn) => (turn.sequence, turn.order),
        };
        let Some(order) = order else { return Item::Skipped };
        let offset = sequence - first;
        if offset < self.length(&order) {
            Item::Batch(self.key(&order, offset))
        } else if order.then_end {
            Item::End
        } else {
            Item::Skipped
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

    /// Where a turn may be when the consumer has given back at most every batch before `position`: behind everything a
    /// sampler can have begun by then.
    pub fn turn_after(&self, position: u64, feature_slots: usize, batch_slots: usize) -> u64 {
        // The producer can have filled feature slots up to position + F − 1, so it has freed no batch slot from
        // position + F on; a sampler can have begun what takes the slot of a freed one: up to position + F + S − 1.
        position + (feature_slots + batch_slots) as u64
    }

    /// Batches of one epoch of an order, validation included.
    fn epoch_batches(&self, order: &Order) -> u64 {
        let validation = if order.validates() { self.batches(Split::Valid) } else { 0 };
        self.batches(order.main) + validation
    }

    /// Where in its epoch an order begins.
    fn within(&self, order: &Order) -> u64 {
        let before = if order.split == order.main { 0 } else { self.batches(order.main) };
        before + u64::from(order.batch)
    }

    /// How many batches an order has.
    fn length(&self, order: &Order) -> u64 {
        if order.has_one_pass() {
            return self.batches(order.split).saturating_sub(u64::from(order.batch));
        }
        let epochs = u64::from(order.epochs.saturating_sub(order.epoch));
        (epochs * self.epoch_batches(order)).saturating_sub(self.within(order))
    }

    /// The batch of an order, which has that many.
    fn key(&self, order: &Order, offset: u64) -> BatchKey {
        let (split, epoch, batch) = if order.has_one_pass() {
            (order.split, order.epoch, u64::from(order.batch) + offset)
        } else {
            let absolute = self.within(order) + offset;
            let (epochs, within) =
                (absolute / self.epoch_batches(order), absolute % self.epoch_batches(order));
            let epoch = order.epoch + epochs as u32;
            match within.checked_sub(self.batches(order.main)) {
                None => (order.main, epoch, within),
                Some(batch) => (Split::Valid, epoch, batch),
            }
        };
        let batch = batch * u64::from(self.part.of) + u64::from(self.part.index);
        BatchKey { split, epoch, batch: batch as u32 }
    }
}

impl Order {
    fn validates(&self) -> bool {
        self.validate && self.main != Split::Valid
    }

    /// Whether it goes on behind its first pass.
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

    fn order(split: Split, epoch: u32, batch: u32) -> Order {
        Order { main: Train, validate: false, split, epoch, batch, epochs: 9, then_end: false }
    }

    fn keys(schedule: &Schedule) -> Vec<(Split, u32, u32)> {
        from(schedule, None, 0, schedule.training_end())
    }

    fn from(schedule: &Schedule, turn: Option<Turn>, first: u64, count: u64) -> Vec<(Split, u32, u32)> {
        (first..first + count)
            .map(|sequence| match schedule.item(sequence, turn) {
                Item::Batch(key) => (key.split, key.epoch, key.batch),
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
        assert_eq!(schedule.item(10, None), Item::Skipped);
        let turn = Some(Turn { sequence: 10, order: Some(Order { then_end: true, ..order(Test, 0, 0) }) });
        assert_eq!(schedule.item(11, turn), Item::Batch(BatchKey { split: Test, epoch: 0, batch: 1 }));
        assert_eq!(schedule.item(12, turn), Item::End);
        assert_eq!(schedule.end(turn), Some(12));
        let over = Some(Turn { sequence: 10, order: None });
        assert_eq!((schedule.item(10, over), schedule.end(over)), (Item::End, Some(10)));
    }

    #[test]
    fn a_resumed_schedule_is_the_rest_of_the_whole_one() {
        let whole = keys(&schedule(3, Cursor::default()));
        for (epoch, batch, done) in [(0, 2, 2), (1, 0, 5), (1, 3, 8), (2, 1, 11), (3, 0, 15)] {
            assert_eq!(keys(&schedule(3, Cursor { epoch, batch })), whole[done..], "{epoch}.{batch}");
        }
    }

    #[test]
    fn an_early_turn_lies_behind_everything_that_can_be_in_flight_and_skips_it() {
        let schedule = schedule(9, Cursor::default());
        let sequence = schedule.turn_after(5, 2, 4);
        assert_eq!(sequence, 11);
        let turn = Some(Turn { sequence, order: Some(order(Test, 0, 0)) });
        assert!((5..11).all(|s| schedule.item(s, turn) == Item::Skipped));
        assert!(matches!(schedule.item(11, turn), Item::Batch(BatchKey { split: Test, .. })));
    }

    #[test]
    fn a_steered_run_begins_with_nothing_and_goes_wherever_it_is_turned() {
        let passes = Passes { steered: true, ..Passes::default() };
        let schedule = Schedule::new(passes, WHOLE, [3, 2, 2]);
        assert_eq!(schedule.item(0, None), Item::Skipped);
        let at = |order| Some(Turn { sequence: 7, order: Some(order) });
        // Epochs of the main split follow one another.
        assert_eq!(
            from(&schedule, at(order(Train, 4, 2)), 7, 4),
            [(Train, 4, 2), (Train, 5, 0), (Train, 5, 1), (Train, 5, 2)]
        );
        // With validation between them, wherever it begins.
        let validated = Order { validate: true, ..order(Valid, 4, 1) };
        assert_eq!(from(&schedule, at(validated), 7, 2), [(Valid, 4, 1), (Train, 5, 0)]);
        // What is neither is one pass, and then the consumer has to say more.
        for split in [Valid, Test] {
            let turn = at(order(split, 4, 0));
            assert_eq!(from(&schedule, turn, 7, 2), [(split, 4, 0), (split, 4, 1)]);
            assert_eq!((schedule.item(9, turn), schedule.end(turn)), (Item::Skipped, None));
        }
        // The validation split may be the main one.
        let valid = Order { main: Valid, validate: true, ..order(Valid, 0, 1) };
        assert_eq!(from(&schedule, at(valid), 7, 3), [(Valid, 0, 1), (Valid, 1, 0), (Valid, 1, 1)]);
        // An order may end.
        let last = Order { epochs: 5, ..order(Train, 4, 2) };
        assert_eq!(schedule.item(8, at(last)), Item::Skipped);
    }

    #[test]
    fn the_parts_of_an_epoch_are_disjoint_equally_long_in_training_and_whole_otherwise() {
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
    fn a_turn_survives_its_words() {
        let orders = [
            order(Train, 0, 0),
            Order {
                main: Valid,
                validate: true,
                then_end: true,
                epochs: u32::MAX,
                ..order(Test, u32::MAX, 7)
            },
            Order { main: Test, epochs: 0, ..order(Valid, 1, u32::MAX) },
        ];
        for order in orders.into_iter().map(Some).chain([None]) {
            for sequence in [0, 12345, u64::MAX] {
                let turn = Turn { sequence, order };
                assert_eq!(Turn::from_words(turn.to_words()), turn);
            }
        }
    }
}
