//! The seeds of a split by node type.

use uva_graph::NodeType;

/// The seeds of a batch that are of one node type.
#[derive(Clone, Default)]
pub(crate) struct SeedsOfType {
    pub ids: Vec<i64>,
    /// The position of each in the list of its type.
    pub positions: Vec<i64>,
}

/// The seeds of a split, type by type. Positions of an epoch's order run through all lists.
pub(crate) struct SeedLists<'a> {
    lists: Vec<(NodeType, &'a [i64])>,
}

impl<'a> SeedLists<'a> {
    pub fn new(lists: Vec<(NodeType, &'a [i64])>) -> Self {
        Self { lists }
    }

    /// Divides the seeds at these positions by their types, in whose lists they keep their order.
    pub fn divide(&self, positions: &[u32], of_types: &mut [SeedsOfType]) {
        for seeds in of_types.iter_mut() {
            seeds.ids.clear();
            seeds.positions.clear();
        }
        for &position in positions {
            let mut position = position as usize;
            for (of, ids) in &self.lists {
                if let Some(&id) = ids.get(position) {
                    let seeds = &mut of_types[of.index()];
                    seeds.ids.push(id);
                    seeds.positions.push(position as i64);
                    break;
                }
                position -= ids.len();
            }
        }
    }
}
