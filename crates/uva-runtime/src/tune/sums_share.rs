//! The share of a run's batches that the producer sums, and the batches in it.
//!
//! A batch's number determines whether it belongs to the share: for samplers and a producer the number among the
//! training batches (the sequence number for other batches), for workers the sequence number. Numbers are divided by
//! their remainder into [`SumsShare::parts`] *parts*. A share is a number of parts, and a larger share includes the
//! parts of every smaller one. A step up or down therefore changes the way of one part.
//!
//! Workers that make whole batches are the parts themselves: a worker makes the batches of one remainder. Each worker
//! therefore keeps its way until a step moves it.

use crate::options::{LoaderOptions, Prepare};

/// Parts of the batches of samplers and a producer. With fewer parts, the best share may be further from the possible
/// ones. With more, a step changes less than the noise between windows of equal shares. A pattern of four batches is
/// short enough for two slots to even it out in part.
const PARTS_OF_A_PRODUCER: u32 = 4;

/// A share of a run's batches that the producer, or the worker that makes them, sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumsShare {
    summed: u32,
    of: u32,
}

impl SumsShare {
    /// A share of `summed` out of `of` parts; all of them if `summed` is larger.
    #[must_use]
    pub fn new(summed: u32, of: u32) -> Self {
        Self { summed: summed.min(of), of }
    }

    /// The number of parts of the batches in a run with these options.
    #[must_use]
    pub fn parts(options: &LoaderOptions) -> u32 {
        match options.prepare {
            Prepare::Roles => PARTS_OF_A_PRODUCER,
            Prepare::Whole => options.samplers as u32,
        }
    }

    /// Number of summed parts.
    #[must_use]
    pub fn summed(self) -> u32 {
        self.summed
    }

    /// Number of all parts.
    #[must_use]
    pub fn of(self) -> u32 {
        self.of
    }

    /// The share of the batches, from 0 to 1.
    #[must_use]
    pub fn value(self) -> f64 {
        f64::from(self.summed) / f64::from(self.of.max(1))
    }

    /// Whether no batch is summed.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.summed == 0
    }

    /// Whether all batches are summed.
    #[must_use]
    pub fn is_all(self) -> bool {
        self.summed == self.of
    }

    /// The name in the metrics of the speed with it: `off`, `host`, or a fraction.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            _ if self.is_none() => "off".to_owned(),
            _ if self.is_all() => "host".to_owned(),
            Self { summed, of } => format!("{summed}/{of}"),
        }
    }

    /// The place of sums, as a sentence without a full stop.
    #[must_use]
    pub fn sentence(self) -> String {
        match self {
            _ if self.is_none() => "the consumer sums".to_owned(),
            _ if self.is_all() => "the producer sums".to_owned(),
            Self { summed, of } => format!("the producer sums {summed} of {of} batches"),
        }
    }

    /// Whether the batch of this number belongs to the share.
    pub(crate) fn has(self, number: u64) -> bool {
        let part = (number % u64::from(self.of.max(1))) as u32;
        // Parts join a share in the order of their bit-reversed numbers, so that the parts of a share are spread.
        let before = (0..self.of).filter(|other| other.reverse_bits() < part.reverse_bits()).count();
        (before as u32) < self.summed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(share: SumsShare) -> Vec<u64> {
        (0..u64::from(share.of())).filter(|&sequence| share.has(sequence)).collect()
    }

    #[test]
    fn a_share_has_its_batches_of_each_period_and_those_of_smaller_shares() {
        for of in 1..=120 {
            let mut smaller: Vec<u64> = Vec::new();
            for summed in 0..=of {
                let share = SumsShare::new(summed, of);
                let found = parts(share);
                assert_eq!(found.len() as u32, summed, "{share:?}");
                assert!(smaller.iter().all(|part| found.contains(part)), "{share:?}: {found:?}");
                let later = (0..u64::from(of)).filter(|part| share.has(part + 7 * u64::from(of)));
                assert!(later.eq(found.iter().copied()), "{share:?}");
                smaller = found;
            }
        }
    }

    #[test]
    fn the_batches_of_a_share_are_spread() {
        assert_eq!(parts(SumsShare::new(2, 4)), [0, 2]);
        assert_eq!(parts(SumsShare::new(3, 4)), [0, 1, 2]);
        assert_eq!(parts(SumsShare::new(2, 6)), [0, 4]);
        assert_eq!(parts(SumsShare::new(4, 8)), [0, 2, 4, 6]);
        // The distance from one to the next is less than twice that of an even spread.
        for of in 1..=64_u32 {
            for summed in 1..=of {
                let found = parts(SumsShare::new(summed, of));
                let after = found.iter().skip(1).copied().chain([found[0] + u64::from(of)]);
                let widest = found.iter().zip(after).map(|(at, next)| next - at).max().unwrap();
                let most = of.div_ceil(summed).next_power_of_two();
                assert!(widest <= u64::from(most), "{summed} of {of}: {found:?}");
            }
        }
    }

    #[test]
    fn pure_shares_have_the_names_of_their_ways() {
        let of_four = |summed| SumsShare::new(summed, 4);
        assert_eq!([0, 1, 4, 9].map(|summed| of_four(summed).name()), ["off", "1/4", "host", "host"]);
        assert_eq!(of_four(3).value(), 0.75);
        assert!(of_four(3).sentence().contains("3 of 4"), "{}", of_four(3).sentence());
        // With one worker only the pure shares exist.
        assert_eq!(SumsShare::new(1, 1).name(), "host");
    }
}
