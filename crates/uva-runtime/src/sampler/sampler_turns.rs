//! The assignment of batches to samplers, for samplers of one run and for those that ranks share.

use crate::LoaderOptions;
use crate::options::Prepare;

impl LoaderOptions {
    /// The number of a sampler or worker among those of all ranks, for a separate CPU core.
    pub(crate) fn number_of_all(&self, index: usize) -> usize {
        match self.shared_samplers {
            true => index,
            false => self.part.index as usize * self.samplers + index,
        }
    }

    /// At most how many processes sample: samplers may have one each, and workers are threads of one.
    pub(crate) fn sampling_processes(&self) -> usize {
        match self.prepare {
            Prepare::Roles => self.samplers,
            Prepare::Whole => 1,
        }
    }

    /// The sampler that makes the batch of this sequence number. Each makes every `W`-th batch. If ranks share
    /// samplers, the batches of one step are assigned to as many samplers as there are ranks, so that a sampler never
    /// makes a whole step alone.
    pub(crate) fn sampler_of(&self, sequence: u64) -> usize {
        let first = if self.shared_samplers { u64::from(self.part.index) } else { 0 };
        ((sequence + first) % self.samplers as u64) as usize
    }

    /// The sequence numbers of the batches that this sampler makes.
    pub(crate) fn sequences_of_sampler(&self, index: usize) -> impl Iterator<Item = u64> {
        let first = (0..self.samplers as u64).find(|sequence| self.sampler_of(*sequence) == index);
        first.into_iter().flat_map(|first| (first..).step_by(self.samplers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::part::Part;

    #[test]
    fn samplers_make_equally_many_batches_of_every_rank_and_no_step_alone() {
        for (samplers, ranks) in [(1, 1), (1, 3), (2, 2), (3, 2), (2, 4), (4, 3)] {
            let of_rank = |index| {
                let part = Part { index, of: ranks };
                LoaderOptions { samplers, part, shared_samplers: true, ..LoaderOptions::default() }
            };
            for index in 0..ranks {
                let options = of_rank(index);
                for sampler in 0..samplers {
                    let mut made = options.sequences_of_sampler(sampler);
                    let first: Vec<u64> = made.by_ref().take(5).collect();
                    assert!(first.iter().all(|sequence| options.sampler_of(*sequence) == sampler));
                    assert!(first.windows(2).all(|two| two[1] - two[0] == samplers as u64));
                }
            }
            let mut of_step: Vec<usize> = (0..ranks).map(|rank| of_rank(rank).sampler_of(7)).collect();
            of_step.sort_unstable();
            of_step.dedup();
            assert_eq!(of_step.len(), samplers.min(ranks as usize));
        }
    }
}
