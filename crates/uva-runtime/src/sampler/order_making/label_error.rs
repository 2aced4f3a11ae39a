//! The deviation of the labels in an order's batches from those of all training seeds.

use rayon::prelude::*;
use uva_graph::{Dataset, Labels, Split};
use uva_sample::EpochOrder;

use crate::RuntimeError;

/// Number of first epochs whose batches determine the mean error.
const EPOCHS: u32 = 8;

/// The classes of the training seeds, by their positions.
pub(super) enum SeedLabels<'d> {
    /// Each seed has one class.
    Single { of: &'d [i64], nodes: &'d [i64], classes: usize },
    /// Each seed may have several classes, or none.
    Rates { labels: Labels<'d>, nodes: &'d [i64], classes: usize },
}

impl<'d> SeedLabels<'d> {
    /// The classes of a dataset's training split; `None` if it has no classes.
    pub fn of(dataset: &'d Dataset) -> Option<Self> {
        let (labels, classes) = (dataset.labels(), dataset.classes());
        let nodes = dataset.split(Split::Train);
        match labels {
            Labels::Absent | Labels::Regression { .. } => None,
            Labels::Single(of) if nodes.iter().all(|node| of[*node as usize] >= 0) => {
                Some(Self::Single { of, nodes, classes })
            }
            Labels::Single(_) | Labels::Multi { .. } => Some(Self::Rates { labels, nodes, classes }),
        }
    }

    /// Bytes for measuring errors of orders of `seeds` seeds: an epoch's order for each of these threads.
    pub fn bytes(seeds: usize, threads: usize) -> u64 {
        // A position, a mark, and a key with its position if few seeds are shuffled.
        (4 + 1 + size_of::<(u64, u32)>() as u64) * seeds as u64 * threads.min(EPOCHS as usize) as u64
    }

    fn classes(&self) -> usize {
        match self {
            Self::Single { classes, .. } | Self::Rates { classes, .. } => *classes,
        }
    }

    /// Adds the classes of a seed to counts.
    fn count(&self, position: u32, counts: &mut [u64]) {
        let position = position as usize;
        match self {
            Self::Single { of, nodes, .. } => counts[of[nodes[position] as usize] as usize] += 1,
            Self::Rates { labels: Labels::Single(of), nodes, .. } => {
                if let Ok(class) = usize::try_from(of[nodes[position] as usize]) {
                    counts[class] += 1;
                }
            }
            Self::Rates { labels: Labels::Multi { classes, values }, nodes, .. } => {
                let row = &values[nodes[position] as usize * classes..][..*classes];
                counts.iter_mut().zip(row).for_each(|(count, has)| *count += u64::from(*has != 0));
            }
            Self::Rates { .. } => {}
        }
    }

    /// The factor of the absolute differences of the classes' shares. For single classes half of their sum is the total
    /// variation between two distributions; rates that do not add up to 1 are averaged.
    fn factor(&self) -> f64 {
        match self {
            Self::Single { .. } => 0.5,
            Self::Rates { classes, .. } => 1.0 / (*classes).max(1) as f64,
        }
    }

    /// The mean error of the batches of the first epochs in this order. `new` makes the order once per epoch, since
    /// epochs are counted in parallel.
    ///
    /// # Errors
    /// Errors of making the order.
    pub fn error(
        &self,
        new: &(dyn Fn() -> Result<EpochOrder, RuntimeError> + Sync),
    ) -> Result<f64, RuntimeError> {
        let of_epoch = |epoch: u32| {
            let mut order = new()?;
            order.prepare(epoch)?;
            Ok::<_, RuntimeError>((self.sum_of_errors(&order), order.batches()))
        };
        let sums: Vec<(f64, usize)> = (0..EPOCHS).into_par_iter().map(of_epoch).collect::<Result<_, _>>()?;
        // Summed in order, so that the sum does not depend on threads.
        let (sum, batches) =
            sums.iter().fold((0.0, 0), |(sum, all), (of, batches)| (sum + of, all + batches));
        Ok(if batches == 0 { 0.0 } else { sum / batches as f64 })
    }

    /// The errors of the batches of the epoch that `order` is prepared for.
    fn sum_of_errors(&self, order: &EpochOrder) -> f64 {
        let mut of_all = vec![0_u64; self.classes()];
        let nodes = match self {
            Self::Single { nodes, .. } | Self::Rates { nodes, .. } => nodes,
        };
        // Not truncated: an order has positions of 32 bits.
        (0..nodes.len() as u32).for_each(|position| self.count(position, &mut of_all));
        let mut of_batch = vec![0_u64; self.classes()];
        let mut sum = 0.0;
        for batch in 0..order.batches() {
            let seeds = order.batch(batch);
            of_batch.fill(0);
            seeds.iter().for_each(|position| self.count(*position, &mut of_batch));
            let share = |count: u64, of: usize| count as f64 / of as f64;
            let differences = of_batch.iter().zip(&of_all);
            let differences =
                differences.map(|(batch, all)| (share(*batch, seeds.len()) - share(*all, nodes.len())).abs());
            sum += self.factor() * differences.sum::<f64>();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use uva_sample::{Follow, SeedSequences, Sequenced};

    use super::*;

    fn error(labels: &SeedLabels<'_>, positions: Vec<u32>, batch_size: usize) -> f64 {
        let len = positions.len();
        let sequences = SeedSequences::new(positions, 1, len);
        let sequenced = Sequenced { sequences, follow: Follow::Segments(len) };
        let new = || Ok(EpochOrder::new(0, Split::Train, len, (true, Some(&sequenced)), batch_size, false)?);
        labels.error(&new).unwrap()
    }

    #[test]
    fn batches_like_the_whole_have_no_error_and_those_of_one_class_the_most() {
        let of = [0, 0, 1, 1, 9, 9];
        // Nodes 4 and 5 are not in training.
        let labels = SeedLabels::Single { of: &of, nodes: &[0, 1, 2, 3], classes: 10 };
        assert_eq!(error(&labels, vec![0, 2, 1, 3], 2), 0.0);
        assert_eq!(error(&labels, vec![0, 1, 2, 3], 2), 0.5);
        // Batches of 3 and 1: 2/3 and 1/3 against halves is 1/6; one class alone is 1/2.
        assert!((error(&labels, vec![0, 1, 2, 3], 3) - (1.0 / 6.0 + 0.5) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn of_several_classes_a_node_the_errors_of_their_rates_are_averaged() {
        let multi = Labels::Multi { classes: 2, values: &[1, 1, 1, 1, 1, 0, 1, 0] };
        let labels = SeedLabels::Rates { labels: multi, nodes: &[0, 1, 2, 3], classes: 2 };
        // The rate of the first class is 1 everywhere; of the second it is ½ in all, and 1 or 0 in a batch.
        assert_eq!(error(&labels, vec![0, 1, 2, 3], 2), 0.25);
        assert_eq!(error(&labels, vec![0, 2, 1, 3], 2), 0.0);
        // A node without a class counts as a node with none of the classes.
        let labels = SeedLabels::Rates { labels: Labels::Single(&[0, -1]), nodes: &[0, 1], classes: 1 };
        assert_eq!(error(&labels, vec![0, 1], 1), 0.5);
    }
}
