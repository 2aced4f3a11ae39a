//! `batch_verdict` compared with its rules: batches one after another, each whole or not, finite or not.

use std::ffi::c_void;

use uva_kernel_sim::launch;
use uva_kernels::verdict::{
    BATCH_VERDICT, BATCHES, CORRECT, LABELLED, LOSS, LOSSES, NUMBERS, STATE, VerdictArguments, VerdictState,
};

/// The stamp of a batch's report.
const STAMP: i64 = 41;
const WHOLE: [i64; 4] = [7, STAMP, 7, -1];

#[derive(Clone, Copy)]
struct Batch {
    /// Mean loss, right answers, labels; `None`: no seeds.
    own: Option<(f64, i64, i64)>,
    report: Option<[i64; 4]>,
}

fn good(loss: f64) -> Batch {
    Batch { own: Some((loss, 3, 5)), report: Some(WHOLE) }
}

/// The state that the device keeps.
#[derive(Default)]
struct Device {
    numbers: [f64; NUMBERS],
    wide: bool,
}

impl Device {
    /// The reading of a batch, and whether its step is skipped.
    fn judge(&mut self, batch: Batch, first: bool) -> ([f64; NUMBERS], bool) {
        let (loss, correct, labelled) = batch.own.unwrap_or((0.0, 0, 0));
        let single = loss as f32;
        let report = batch.report.unwrap_or_default();
        // One element more than necessary, which must not change.
        let (mut reading, mut skipped) = ([-7.0; NUMBERS + 1], [-7.0_f32; 2]);
        let loss_at = if self.wide { (&raw const loss) as u64 } else { (&raw const single) as u64 };
        let address = |there: bool, address: u64| if there { address } else { 0 };
        let there = batch.own.is_some();
        let mut arguments = VerdictArguments {
            loss: address(there, loss_at),
            correct: address(there, (&raw const correct) as u64),
            labelled: address(there, (&raw const labelled) as u64),
            wide: self.wide.into(),
            words: address(batch.report.is_some(), report.as_ptr() as u64),
            places: [1, 3],
            expected: [STAMP, -1],
            first: first.into(),
            numbers: self.numbers.as_mut_ptr() as u64,
            reading: reading.as_mut_ptr() as u64,
            skipped: skipped.as_mut_ptr() as u64,
        };
        arguments.check().unwrap();
        let parameters = [std::ptr::from_mut(&mut arguments).cast::<c_void>()];
        // SAFETY: one parameter, of the kernel's type; all memory that it refers to has the given sizes.
        unsafe { launch(BATCH_VERDICT, [1, 1, 1], [1, 1, 1], 0, parameters.as_ptr()) }.unwrap();
        assert_eq!((reading[NUMBERS], skipped[1]), (-7.0, -7.0), "something is written past the end");
        let reading: [f64; NUMBERS] = reading[..NUMBERS].try_into().unwrap();
        assert_eq!(reading.map(f64::to_bits), self.numbers.map(f64::to_bits));
        assert!(skipped[0] == 0.0 || skipped[0] == 1.0);
        (reading, skipped[0] == 1.0)
    }
}

#[test]
fn sums_are_of_the_batches_since_the_last_reading() {
    for wide in [false, true] {
        let mut device = Device { wide, ..Device::default() };
        let (reading, skipped) = device.judge(good(0.5), true);
        assert!(!skipped && VerdictState::of(reading[STATE]) == VerdictState::Good);
        assert_eq!(
            [BATCHES, LOSS, LOSSES, CORRECT, LABELLED].map(|at| reading[at]),
            [1.0, 0.5, 2.5, 3.0, 5.0]
        );
        let (reading, _) = device.judge(good(0.25), false);
        assert_eq!(
            [BATCHES, LOSS, LOSSES, CORRECT, LABELLED].map(|at| reading[at]),
            [2.0, 0.25, 3.75, 6.0, 10.0]
        );
        let (reading, _) = device.judge(good(2.0), true);
        assert_eq!(
            [BATCHES, LOSS, LOSSES, CORRECT, LABELLED].map(|at| reading[at]),
            [3.0, 2.0, 10.0, 3.0, 5.0]
        );
    }
}

#[test]
fn a_batch_without_labels_or_seeds_is_good_and_no_step() {
    let mut device = Device::default();
    device.judge(good(1.0), true);
    for own in [None, Some((f64::NAN, 0, 0))] {
        for report in [None, Some(WHOLE)] {
            let before = device.numbers[BATCHES];
            let (reading, skipped) = device.judge(Batch { own, report }, false);
            assert!(skipped && VerdictState::of(reading[STATE]) == VerdictState::Good);
            assert_eq!((reading[BATCHES], reading[LOSS], reading[LABELLED]), (before + 1.0, 0.0, 5.0));
        }
    }
    assert!(!device.judge(good(1.0), false).1);
}

#[test]
fn the_first_bad_batch_is_written_down_and_every_later_step_is_skipped() {
    let not_finite =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(|loss| (good(loss), VerdictState::Diverged));
    let torn = [[7, STAMP - 1, 7, -1], [7, STAMP, 7, 0], [0; 4]];
    let torn = torn.map(|report| (Batch { report: Some(report), ..good(1.0) }, VerdictState::NotWhole));
    // An unfinished batch with garbage is reported as unfinished first.
    let both = (Batch { report: Some([0; 4]), ..good(f64::NAN) }, VerdictState::NotWhole);
    let unseeded = (Batch { own: None, report: Some([0; 4]) }, VerdictState::NotWhole);
    for wide in [false, true] {
        for (bad, state) in not_finite.into_iter().chain(torn).chain([both, unseeded]) {
            let mut device = Device { wide, ..Device::default() };
            device.judge(good(0.5), true);
            let (reading, skipped) = device.judge(bad, false);
            assert!(skipped);
            assert_eq!((VerdictState::of(reading[STATE]), reading[BATCHES]), (state, 1.0));
            assert_eq!((reading[LOSSES], reading[CORRECT], reading[LABELLED]), (2.5, 3.0, 5.0));
            let told = reading[LOSS];
            assert!(state != VerdictState::Diverged || !told.is_finite());
            for later in [good(0.5), good(f64::NAN), Batch { own: None, report: None }] {
                let (reading, skipped) = device.judge(later, false);
                assert!(skipped);
                assert_eq!((VerdictState::of(reading[STATE]), reading[BATCHES]), (state, 1.0));
                assert_eq!(reading[LOSS].to_bits(), told.to_bits());
            }
        }
    }
}
