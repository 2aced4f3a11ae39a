//! How many nodes and training nodes a part may have, and how many it has.

/// The sizes of parts, and their limits: 1.05 times the mean, and the mean rounded up at least.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    pub(crate) nodes: Vec<u64>,
    pub(crate) train: Vec<u64>,
    most_nodes: u64,
    most_train: u64,
}

impl Sizes {
    /// Of these parts of the nodes.
    pub(crate) fn of(of: &[u16], parts: u32, trains: impl Fn(u32) -> bool) -> Sizes {
        let mut sizes = Sizes {
            nodes: vec![0; parts as usize],
            train: vec![0; parts as usize],
            most_nodes: 0,
            most_train: 0,
        };
        for (node, &part) in (0..).zip(of) {
            sizes.nodes[usize::from(part)] += 1;
            sizes.train[usize::from(part)] += u64::from(trains(node));
        }
        sizes.most_nodes = most(sizes.nodes.iter().sum(), parts);
        sizes.most_train = most(sizes.train.iter().sum(), parts);
        sizes
    }

    /// Whether a part has room for one more node.
    pub(crate) fn has_room(&self, part: usize, trains: bool) -> bool {
        self.nodes[part] < self.most_nodes && (!trains || self.train[part] < self.most_train)
    }

    /// Whether a part has too many nodes of this node's kind.
    pub(crate) fn is_over(&self, part: usize, trains: bool) -> bool {
        self.nodes[part] > self.most_nodes || trains && self.train[part] > self.most_train
    }

    /// Moves a node.
    pub(crate) fn move_one(&mut self, from: usize, to: usize, trains: bool) {
        self.nodes[from] -= 1;
        self.nodes[to] += 1;
        self.train[from] -= u64::from(trains);
        self.train[to] += u64::from(trains);
    }
}

/// The most of `all` that one of `parts` parts may have.
fn most(all: u64, parts: u32) -> u64 {
    let parts = u64::from(parts);
    (21 * all / (20 * parts)).max(all.div_ceil(parts))
}
