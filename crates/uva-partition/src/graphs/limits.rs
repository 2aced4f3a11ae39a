//! Sizes of parts, and their limits on nodes and training nodes.

use crate::graphs::weighted::Size;

/// The sizes of parts, and their limits: 1.05 times the mean, but at least the mean rounded up.
#[derive(Clone, Debug)]
pub(crate) struct PartSizes {
    pub(crate) nodes: Vec<u64>,
    pub(crate) train: Vec<u64>,
    most_nodes: u64,
    most_train: u64,
}

impl PartSizes {
    /// The sizes of these parts of the nodes.
    pub(crate) fn of(of: &[u16], parts: u32, size: impl Fn(u32) -> Size) -> PartSizes {
        let mut sizes = PartSizes {
            nodes: vec![0; parts as usize],
            train: vec![0; parts as usize],
            most_nodes: 0,
            most_train: 0,
        };
        for (node, &part) in (0..).zip(of) {
            let Size { nodes, train } = size(node);
            sizes.nodes[usize::from(part)] += nodes;
            sizes.train[usize::from(part)] += train;
        }
        sizes.most_nodes = most(sizes.nodes.iter().sum(), parts);
        sizes.most_train = most(sizes.train.iter().sum(), parts);
        sizes
    }

    /// Whether a part has room for this size.
    pub(crate) fn has_room(&self, part: usize, size: Size) -> bool {
        self.nodes[part] + size.nodes <= self.most_nodes
            && (size.train == 0 || self.train[part] + size.train <= self.most_train)
    }

    /// Whether a part has too many nodes of this kind.
    pub(crate) fn is_over(&self, part: usize, size: Size) -> bool {
        self.nodes[part] > self.most_nodes || size.train > 0 && self.train[part] > self.most_train
    }

    /// Whether any part has too many nodes, or training nodes.
    pub(crate) fn any_is_over(&self) -> bool {
        let any = Size { nodes: 1, train: 1 };
        (0..self.nodes.len()).any(|part| self.is_over(part, any))
    }

    /// Moves this size from one part to another.
    pub(crate) fn move_one(&mut self, from: usize, to: usize, size: Size) {
        self.nodes[from] -= size.nodes;
        self.nodes[to] += size.nodes;
        self.train[from] -= size.train;
        self.train[to] += size.train;
    }
}

/// The largest share of `all` that one of `parts` parts may have.
fn most(all: u64, parts: u32) -> u64 {
    let parts = u64::from(parts);
    (21 * all / (20 * parts)).max(all.div_ceil(parts))
}
