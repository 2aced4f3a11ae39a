//! The verdict on a training batch, made on the device: `kernels/verdict.cuh`.

use crate::arrays::KernelArray;
use crate::source::VERDICT_CUH;

/// The entry point. It is launched as one thread.
pub const BATCH_VERDICT: &str = "batch_verdict";

/// Numbers that the device keeps, f64 each.
pub const NUMBERS: usize = place("UVA_VERDICT_NUMBERS");

/// The place of the state of training, see [`VerdictState::of`].
pub const STATE: usize = place("UVA_VERDICT_STATE");
/// Good batches so far.
pub const BATCHES: usize = place("UVA_VERDICT_BATCHES");
/// The last judged batch's mean loss; 0 if no seed of it has a label.
pub const LOSS: usize = place("UVA_VERDICT_LOSS");
/// The sum of all labels' losses since the last reading.
pub const LOSSES: usize = place("UVA_VERDICT_LOSSES");
/// Correct predictions since the last reading.
pub const CORRECT: usize = place("UVA_VERDICT_CORRECT");
/// Labels since the last reading.
pub const LABELLED: usize = place("UVA_VERDICT_LABELLED");

const fn place(name: &str) -> usize {
    crate::header::constant(VERDICT_CUH, name) as usize
}

/// The state of training, by the number at [`STATE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictState {
    /// Every batch so far was good.
    Good,
    /// The loss of the first bad batch is not finite.
    Diverged,
    /// The first bad batch was incomplete.
    NotWhole,
}

impl VerdictState {
    /// The state that the number means. A number that the kernel never writes means an incomplete batch.
    pub fn of(number: f64) -> Self {
        const GOOD: f64 = place("UVA_VERDICT_GOOD") as f64;
        const DIVERGED: f64 = place("UVA_VERDICT_DIVERGED") as f64;
        match number {
            GOOD => Self::Good,
            DIVERGED => Self::Diverged,
            _ => Self::NotWhole,
        }
    }
}

shared_struct! {
    in VERDICT_CUH;
    /// The input and output of the verdict. Addresses are the device's.
    pub struct VerdictArguments {
        /// The batch's mean loss, one number. 0 if the batch has no seed.
        pub loss: u64,
        /// int64: correct predictions. 0 if `loss` is 0.
        pub correct: u64,
        /// int64: labels. 0 if `loss` is 0.
        pub labelled: u64,
        /// 0 for a loss in float32, 1 for float64.
        pub wide: u64,
        /// int64: the report of the batch. 0 for memory that cannot be revoked.
        pub words: u64,
        /// The words that show whether the batch was complete.
        pub places: [u64; 2],
        /// Their values if it was.
        pub expected: [i64; 2],
        /// 1 for the first batch of a reading, else 0: the sums are reset.
        pub first: u64,
        /// float64, [`NUMBERS`]: kept from batch to batch, all 0 before the first.
        pub numbers: u64,
        /// float64, [`NUMBERS`], in pinned host memory: a copy of `numbers` after this batch.
        pub reading: u64,
        /// float32: 1 if the batch's step is to be skipped, else 0. It is skipped if this batch or an earlier one is
        /// bad, or no seed has a label.
        pub skipped: u64,
    }
}

impl VerdictArguments {
    /// The arrays of these arguments.
    pub fn arrays(&self) -> [KernelArray; 7] {
        let seeds = u64::from(self.loss != 0);
        let words = self.places.iter().max().map_or(0, |&last| last.saturating_add(1));
        [
            KernelArray::read("the loss", self.loss, seeds, if self.wide == 0 { 4 } else { 8 }),
            KernelArray::read("the right answers", self.correct, seeds, 8),
            KernelArray::read("the labels", self.labelled, seeds, 8),
            KernelArray::read("the report", self.words, words, 8).if_any(),
            KernelArray::write("the numbers", self.numbers, NUMBERS as u64, 8),
            KernelArray::write("the reading", self.reading, NUMBERS as u64, 8),
            KernelArray::write("the skipped step", self.skipped, 1, 4),
        ]
    }

    /// Checks the arguments.
    ///
    /// # Errors
    /// The reason why no memory can match these arguments.
    pub fn check(&self) -> Result<(), String> {
        let refuse = |what: String| Err(format!("a batch cannot be judged: {what}"));
        self.arrays().iter().find_map(KernelArray::refusal).map_or(Ok(()), refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_no_memory_can_satisfy_are_refused() {
        let good = VerdictArguments {
            loss: 0x1004,
            correct: 0x2008,
            labelled: 0x3008,
            wide: 0,
            words: 0x4008,
            places: [0, 3],
            expected: [7, -1],
            first: 1,
            numbers: 0x5008,
            reading: 0x6008,
            skipped: 0x7004,
        };
        good.check().unwrap();
        VerdictArguments { words: 0, ..good }.check().unwrap();
        VerdictArguments { loss: 0, correct: 0, labelled: 0, ..good }.check().unwrap();
        for (wrong, told) in [
            (VerdictArguments { wide: 1, ..good }, "the loss"),
            (VerdictArguments { correct: 0, ..good }, "the right answers"),
            (VerdictArguments { labelled: 0, ..good }, "the labels"),
            (VerdictArguments { places: [0, u64::MAX], ..good }, "the report"),
            (VerdictArguments { numbers: 0, ..good }, "the numbers"),
            (VerdictArguments { reading: 0x6004, ..good }, "the reading"),
            (VerdictArguments { skipped: 0, ..good }, "the skipped step"),
        ] {
            let error = wrong.check().unwrap_err();
            assert!(error.contains(told), "{error} should contain {told}");
        }
    }

    #[test]
    fn a_number_that_the_kernel_never_writes_means_a_batch_that_was_not_whole() {
        assert_eq!(
            [0.0, -0.0, 1.0].map(VerdictState::of),
            [VerdictState::Good, VerdictState::Good, VerdictState::Diverged]
        );
        for number in [2.0, -1.0, f64::NAN, 0.5, 1e9] {
            assert_eq!(VerdictState::of(number), VerdictState::NotWhole, "{number}");
        }
    }
}
