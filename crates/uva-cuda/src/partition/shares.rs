//! Shares of multiprocessors: one arithmetic for MPS, green contexts and bounded grids.

use super::reach::mps_multiprocessors;

/// The steps in which a mechanism allocates multiprocessors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareSteps {
    /// The minimum number.
    pub least: u32,
    /// The unit: every number is a multiple of it.
    pub step: u32,
}

impl ShareSteps {
    /// Every number: a bounded grid, and MPS.
    pub const SINGLE: Self = Self { least: 1, step: 1 };

    /// Green contexts on a device of this compute capability, by the driver's documentation. With a context, the driver
    /// reports the actual steps.
    pub fn of_green(capability: (u32, u32)) -> Self {
        let (least, step) = match capability.0 {
            9.. => (8, 8),
            8 => (4, 2),
            _ => (2, 2),
        };
        Self { least, step }
    }

    /// One split into equal groups that gives each role at least `wanted` multiprocessors: the size of a group, and
    /// each role's number of groups.
    pub fn groups(self, wanted: &[u32]) -> (u32, Vec<u32>) {
        let rounded = wanted.iter().map(|wanted| wanted.max(&self.least).next_multiple_of(self.step));
        let common = rounded.clone().reduce(greatest_common_divisor).unwrap_or(self.least);
        let size = common.max(self.least.next_multiple_of(self.step));
        (size, rounded.map(|wanted| wanted.div_ceil(size)).collect())
    }
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

/// The roles' shares of the multiprocessors in per cent. The consumer has the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The producer's share.
    pub producer: u32,
    /// A GPU sampler's share, if there is one.
    pub sampler: Option<u32>,
}

/// The roles' multiprocessors. No two roles have one in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// The producer's multiprocessors.
    pub producer: u32,
    /// A GPU sampler's multiprocessors, if there is one.
    pub sampler: Option<u32>,
    /// The rest for training; 0 if the others take all or more.
    pub consumer: u32,
}

impl Shares {
    /// The rest for training, in per cent.
    pub fn consumer(self) -> u32 {
        100_u32.saturating_sub(self.producer + self.sampler.unwrap_or(0))
    }

    /// The multiprocessors of each role on a device that has `all`.
    pub fn divide(self, all: u32, steps: ShareSteps) -> Division {
        let wanted: Vec<u32> = [Some(self.producer), self.sampler]
            .into_iter()
            .flatten()
            .map(|share| mps_multiprocessors(share, all))
            .collect();
        let (size, groups) = steps.groups(&wanted);
        let given: Vec<u32> = groups.iter().map(|groups| groups * size).collect();
        Division {
            producer: given[0],
            sampler: given.get(1).copied(),
            consumer: all.saturating_sub(given.iter().sum()),
        }
    }

    /// The multiprocessors of producer and sampler in a process that was `granted` this many for both: the sampler's
    /// part rounded down as MPS does, never none, and the rest. `None` if no rest is left.
    pub fn divide_granted(self, granted: u32) -> Option<(u32, Option<u32>)> {
        let sampler = self.sampler.map(|sampler| {
            let both = u64::from(self.producer) + u64::from(sampler);
            ((u64::from(granted) * u64::from(sampler) / both.max(1)) as u32).max(1)
        });
        let producer = granted.checked_sub(sampler.unwrap_or(0)).filter(|producer| *producer > 0)?;
        Some((producer, sampler))
    }
}

impl Division {
    /// Whether the device has that many multiprocessors.
    pub fn fits(self, all: u32) -> bool {
        self.producer + self.sampler.unwrap_or(0) <= all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_mechanisms_divide_by_the_same_shares() {
        let shares = Shares { producer: 10, sampler: Some(10) };
        let hopper = ShareSteps::of_green((9, 0));
        assert_eq!(
            shares.divide(132, ShareSteps::SINGLE),
            Division { producer: 13, sampler: Some(13), consumer: 106 }
        );
        assert_eq!(shares.divide(132, hopper), Division { producer: 16, sampler: Some(16), consumer: 100 });
        // MPS rounds each share down separately.
        assert_eq!((mps_multiprocessors(10, 132), mps_multiprocessors(shares.consumer(), 132)), (13, 105));
        let alone = Shares { producer: 25, sampler: None };
        assert_eq!(alone.divide(132, hopper), Division { producer: 40, sampler: None, consumer: 92 });
        assert_eq!((alone.consumer(), alone.divide(82, ShareSteps::SINGLE).producer), (75, 20));
    }

    #[test]
    fn unequal_shares_are_whole_groups_of_one_split() {
        assert_eq!(ShareSteps::of_green((9, 0)).groups(&[16, 33]), (8, vec![2, 5]));
        assert_eq!(ShareSteps::of_green((9, 0)).groups(&[13, 9]), (16, vec![1, 1]));
        // 10 and 14 have only 2 in common, which is less than a group may be.
        assert_eq!(ShareSteps::of_green((8, 0)).groups(&[10, 13]), (4, vec![3, 4]));
        assert_eq!(ShareSteps::SINGLE.groups(&[5, 7]), (1, vec![5, 7]));
        for steps in [ShareSteps::SINGLE, ShareSteps::of_green((8, 6)), ShareSteps::of_green((9, 0))] {
            for (one, other) in (1..40).flat_map(|one| (1..40).map(move |other| (one, other))) {
                let (size, groups) = steps.groups(&[one, other]);
                assert!(size >= steps.least && size.is_multiple_of(steps.step), "{steps:?}: {size}");
                assert!(groups[0] * size >= one && groups[1] * size >= other, "{steps:?}: {one}, {other}");
            }
        }
    }

    #[test]
    fn a_small_device_says_that_the_groups_do_not_fit() {
        let shares = Shares { producer: 10, sampler: Some(10) };
        let division = shares.divide(12, ShareSteps::of_green((9, 0)));
        assert!(!division.fits(12) && division.consumer == 0, "{division:?}");
        assert!(shares.divide(12, ShareSteps::SINGLE).fits(12));
    }

    #[test]
    fn two_roles_of_one_process_divide_its_whole_share() {
        let shares = Shares { producer: 20, sampler: Some(30) };
        // 50 % of 132.
        assert_eq!(shares.divide_granted(66), Some((27, Some(39))));
        assert_eq!(Shares { sampler: None, ..shares }.divide_granted(26), Some((26, None)));
        // The smallest share gets one, and one is not enough for two.
        assert_eq!(Shares { producer: 98, sampler: Some(1) }.divide_granted(5), Some((4, Some(1))));
        assert_eq!(shares.divide_granted(2), Some((1, Some(1))));
        assert_eq!(shares.divide_granted(1), None);
    }
}
