//! How a dataset is cut into parts.

use crate::{Dataset, GraphError, Split};

/// The most hops of a part: batches have no more.
pub const MOST_HOPS: u32 = 32;

/// The most parts: the map has 16 bits for a node's.
pub const MOST_PARTS: usize = 65_535;

/// How a dataset is cut into parts.
#[derive(Debug, Clone, Copy)]
pub struct PartOptions<'a> {
    /// The part of each node, below `parts`.
    pub owners: &'a [u16],
    /// How many parts there are: 1 to [`MOST_PARTS`], and no more than training nodes.
    pub parts: usize,
    /// Within how many in-hops of its training nodes a part is whole: 1 to [`MOST_HOPS`].
    pub hops: u32,
    /// Whether validation and test nodes are divided as training nodes are, with all that is near them. Otherwise a part
    /// has those around which it is whole by itself, so that some may be in several parts, and some in none.
    pub split_eval: bool,
    /// The method that made the map, for people.
    pub method: &'a str,
}

impl PartOptions<'_> {
    /// Refuses what can't be written.
    ///
    /// # Errors
    /// [`GraphError::Usage`] with the option.
    pub(super) fn check(&self, dataset: &Dataset) -> Result<(), GraphError> {
        let refuse = |option: &str, message: String| Err(GraphError::usage(option, message));
        if dataset.part().is_some() {
            let path = dataset.path().display();
            return refuse("DATA", format!("{path} is a part itself: cut the dataset that it comes from"));
        }
        if !(1..=MOST_HOPS).contains(&self.hops) {
            return refuse("--hops", format!("{} hops: give 1 to {MOST_HOPS}", self.hops));
        }
        if !(1..=MOST_PARTS).contains(&self.parts) {
            return refuse("--map", format!("{} parts: there have to be 1 to {MOST_PARTS}", self.parts));
        }
        let (given, nodes) = (self.owners.len(), dataset.nodes());
        if given != nodes {
            let path = dataset.path().display();
            return refuse("--map", format!("it has {given} entries, but {path} has {nodes} nodes"));
        }
        let outside = self.owners.iter().position(|&part| usize::from(part) >= self.parts);
        if let Some(node) = outside {
            let (part, last) = (self.owners[node], self.parts - 1);
            return refuse("--map", format!("entry {node} is part {part}, outside 0 to {last}"));
        }
        let train = dataset.split(Split::Train);
        if train.is_empty() {
            return refuse("DATA", format!("{} has no training nodes to divide", dataset.path().display()));
        }
        let counts = self.train_counts(dataset);
        if let Some(part) = counts.iter().position(|&count| count == 0) {
            let (all, parts) = (train.len(), self.parts);
            return refuse(
                "--map",
                format!(
                    "part {part} has none of the {all} training nodes, so a rank with it would have nothing to train on: \
                     make a map of fewer than {parts} parts, or one that balances training nodes"
                ),
            );
        }
        Ok(())
    }

    /// The nodes of each part.
    pub(super) fn node_counts(&self) -> Vec<u64> {
        self.counts(self.owners.iter().copied())
    }

    /// The training nodes of each part.
    pub(super) fn train_counts(&self, dataset: &Dataset) -> Vec<u64> {
        self.counts(dataset.split(Split::Train).iter().map(|&node| self.owners[node as usize]))
    }

    fn counts(&self, owners: impl Iterator<Item = u16>) -> Vec<u64> {
        let mut counts = vec![0; self.parts];
        owners.for_each(|part| counts[usize::from(part)] += 1);
        counts
    }
}
