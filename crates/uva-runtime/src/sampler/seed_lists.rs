//! The seeds of a split by node type.

use uva_graph::{Dataset, NodeType, SeedTimes, Split};

use super::cache::SampledGraph;
use crate::{LoaderOptions, RuntimeError};

/// The seeds of a batch that are of one node type.
#[derive(Clone, Default)]
pub(crate) struct SeedsOfType {
    pub ids: Vec<i64>,
    /// The position of each in the list of its type.
    pub positions: Vec<i64>,
    /// The time of each; empty if no rule reads them.
    pub times: Vec<i64>,
}

/// The seeds of a split, type by type. Positions of an epoch's order run through all lists.
pub(crate) struct SeedLists<'a> {
    lists: Vec<(NodeType, &'a [i64], Option<SeedTimes<'a>>)>,
}

impl<'a> SeedLists<'a> {
    /// The seeds that a graph has for a split, which a run with these options samples around.
    pub fn of(
        graph: &SampledGraph<'a>,
        dataset: &'a Dataset,
        options: &LoaderOptions,
        split: Split,
    ) -> Result<Self, RuntimeError> {
        let lists = graph.seeds(split).into_iter().map(|(of, ids)| {
            let times = options.seed_times_of(dataset, of, split)?;
            Ok((of, ids, times))
        });
        Ok(Self { lists: lists.collect::<Result<_, RuntimeError>>()? })
    }

    /// Divides the seeds at these positions by their types, in whose lists they keep their order.
    pub fn divide(&self, positions: &[u32], of_types: &mut [SeedsOfType]) {
        for seeds in of_types.iter_mut() {
            seeds.ids.clear();
            seeds.positions.clear();
            seeds.times.clear();
        }
        for &position in positions {
            let mut position = position as usize;
            for (of, ids, times) in &self.lists {
                if let Some(&id) = ids.get(position) {
                    let seeds = &mut of_types[of.index()];
                    seeds.ids.push(id);
                    seeds.positions.push(position as i64);
                    seeds.times.extend(times.map(|times| times.of(position, id)));
                    break;
                }
                position -= ids.len();
            }
        }
    }
}
