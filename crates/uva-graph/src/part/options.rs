//! How a dataset is cut into parts.

use std::borrow::Cow;

use crate::{Dataset, GraphError, PartitionMap, Split};

pub use crate::description::part_of::MOST_HOPS;

/// How a dataset is cut into parts.
#[derive(Debug, Clone, Copy)]
pub struct PartOptions<'a> {
    /// The part of each node. Each part requires a training node.
    pub map: &'a PartitionMap,
    /// Number of in-hops around its training nodes within which a part is complete: 1 to [`MOST_HOPS`].
    pub hops: u32,
    /// Whether validation and test nodes are divided like training nodes, with their neighbourhoods. Otherwise a part
    /// has those validation and test nodes around which it is complete anyway; some may be in several parts, and some
    /// in no part.
    pub split_eval: bool,
}

/// Checked options for one dataset.
pub(super) struct Cut<'a> {
    pub(super) dataset: &'a Dataset,
    /// The part of each node, by the dataset's own ids.
    pub(super) owners: Cow<'a, [u16]>,
    pub(super) hops: u8,
    pub(super) split_eval: bool,
    /// The training nodes of each part.
    pub(super) train: Vec<u64>,
}

impl<'a> PartOptions<'a> {
    /// Checks the options.
    ///
    /// # Errors
    /// [`GraphError::Usage`] with the option; [`GraphError::Invalid`] if the map belongs to another dataset.
    pub(super) fn of(&self, dataset: &'a Dataset) -> Result<Cut<'a>, GraphError> {
        let refuse = |option: &str, message: String| Err(GraphError::usage(option, message));
        let path = dataset.path().display();
        if dataset.part().is_some() {
            return refuse("DATA", format!("{path} is a part itself: cut the dataset that it comes from"));
        }
        if !(1..=MOST_HOPS).contains(&self.hops) {
            return refuse(
                "hops",
                format!("invalid number of hops {}: expected 1 to {MOST_HOPS}", self.hops),
            );
        }
        let (given, nodes) = (self.map.of.len(), dataset.nodes());
        if given != nodes {
            return refuse("map", format!("it has {given} entries, but {path} has {nodes} nodes"));
        }
        let owners = self.map.by_node(dataset)?;
        let mut train = vec![0; self.map.parts as usize];
        for &node in dataset.split(Split::Train) {
            train[usize::from(owners[node as usize])] += 1;
        }
        let all: u64 = train.iter().sum();
        if all == 0 {
            return refuse("DATA", format!("{path} has no training nodes to divide"));
        }
        if let Some(part) = train.iter().position(|&count| count == 0) {
            let parts = train.len();
            return refuse(
                "map",
                format!(
                    "part {part} of {parts} has none of the {all} training nodes, so a rank with it would have nothing to \
                     train on: make fewer parts, or a map that balances training nodes"
                ),
            );
        }
        Ok(Cut { dataset, owners, hops: self.hops as u8, split_eval: self.split_eval, train })
    }
}
