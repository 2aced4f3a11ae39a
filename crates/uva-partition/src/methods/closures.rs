//! PaGraph's partition of training nodes by their closures.

use std::cmp::Reverse;

use uva_graph::{GraphError, Progress};

use crate::graphs::graph::OriginalGraph;

/// The maximum number of nodes in the closures of all training nodes together.
const MOST_VISITS: u64 = 1_000_000_000_000;

/// Training nodes between two estimates of the total number of visits.
const ESTIMATED_AFTER: usize = 1000;

/// The part of each node.
///
/// Training nodes are assigned in the order of `train`. Node `v` goes to the part `i` with the largest `(common(i) + 1)
/// · (T / k − train(i)) / (closure(i) + 1)`: `common(i)` counts the part's training nodes within `hops` in-hops of `v`,
/// `closure(i)` all nodes within `hops` of the part's training nodes. Ties go to the part with the fewest training
/// nodes, then to the first. No part gets more than `⌈T / k⌉`, and only `T mod k` parts get that many if that is not 0.
/// So the numbers of training nodes differ by at most one.
///
/// Other nodes are assigned in the order of their ids. Each goes to the part with the fewest nodes among those whose
/// closures contain it, or among all parts if none does; ties go to the first.
///
/// # Errors
/// If it would take too long.
pub(crate) fn assign(
    graph: &OriginalGraph<'_>,
    train: &[u32],
    parts: u32,
    hops: u32,
    progress: &dyn Fn(Progress),
) -> Result<Vec<u16>, GraphError> {
    let nodes = graph.nodes();
    let mut divided = Divided::of(nodes, train.len(), parts);
    let mut closure = Closure { seen: vec![0; nodes], turn: 0, found: Vec::new() };
    let mut visits = 0_u64;
    for (done, &node) in train.iter().enumerate() {
        if done.is_multiple_of(64) {
            progress(Progress { stage: "closures", done: done as u64, total: train.len() as u64 });
        }
        let found = closure.of_node(graph, node, hops);
        visits += found.len() as u64;
        if (done + 1).is_multiple_of(ESTIMATED_AFTER) {
            check_visits(visits, done + 1, train.len())?;
        }
        divided.add(node, found);
    }
    Ok(divided.with_others())
}

/// Bytes required for this many nodes and parts: a bit for each node and part, and the data of each node.
pub(crate) fn bytes(nodes: usize, parts: u32) -> u64 {
    let sets = (nodes.div_ceil(64) as u64 * 8).saturating_mul(u64::from(parts));
    // The turn in which each node was found, the nodes found, and the part of each node, twice.
    sets.saturating_add(nodes as u64 * (4 + 4 + 4 + 2))
}

fn check_visits(visits: u64, done: usize, train: usize) -> Result<(), GraphError> {
    let all = u128::from(visits) * train as u128 / done as u128;
    if all <= u128::from(MOST_VISITS) {
        return Ok(());
    }
    let message = format!(
        "the closures of all training nodes have about {all} nodes, {} each, and pagraph goes over {MOST_VISITS} at most: \
         take fewer `hops`, or bgl",
        visits / done as u64
    );
    Err(GraphError::usage("method", message))
}

/// The nodes within some in-hops of a node.
struct Closure {
    /// For each node, the last turn in which it was found.
    seen: Vec<u32>,
    turn: u32,
    found: Vec<u32>,
}

impl Closure {
    /// The closure of a node, which begins with the node.
    fn of_node(&mut self, graph: &OriginalGraph<'_>, node: u32, hops: u32) -> &[u32] {
        self.turn += 1;
        self.found.clear();
        self.found.push(node);
        self.seen[node as usize] = self.turn;
        let mut begin = 0;
        for _ in 0..hops {
            let end = self.found.len();
            for at in begin..end {
                for neighbour in graph.in_list(self.found[at]) {
                    if std::mem::replace(&mut self.seen[neighbour as usize], self.turn) != self.turn {
                        self.found.push(neighbour);
                    }
                }
            }
            begin = end;
        }
        &self.found
    }
}

/// The parts so far.
struct Divided {
    /// The part of each training node that has one.
    of: Vec<Option<u16>>,
    train: Vec<u64>,
    /// The nodes of each part's closure, as bits.
    closures: Vec<Vec<u64>>,
    closure_nodes: Vec<u64>,
    all_train: u64,
}

impl Divided {
    fn of(nodes: usize, train: usize, parts: u32) -> Divided {
        let parts = parts as usize;
        Divided {
            of: vec![None; nodes],
            train: vec![0; parts],
            closures: vec![vec![0; nodes.div_ceil(64)]; parts],
            closure_nodes: vec![0; parts],
            all_train: train as u64,
        }
    }

    /// Assigns a training node with this closure to a part.
    fn add(&mut self, node: u32, closure: &[u32]) {
        let mut common = vec![0_u64; self.train.len()];
        for part in closure.iter().filter_map(|&near| self.of[near as usize]) {
            common[usize::from(part)] += 1;
        }
        let part = self.best(&common);
        self.of[node as usize] = Some(part as u16);
        self.train[part] += 1;
        for &near in closure {
            let (word, bit) = (near as usize / 64, 1 << (near % 64));
            if self.closures[part][word] & bit == 0 {
                self.closures[part][word] |= bit;
                self.closure_nodes[part] += 1;
            }
        }
    }

    fn best(&self, common: &[u64]) -> usize {
        let parts = self.train.len() as u64;
        let (least, over) = (self.all_train / parts, self.all_train % parts);
        // Parts that already have one node more than the others can have.
        let longer = self.train.iter().filter(|train| **train > least).count() as u64;
        let has_room =
            |part: &usize| self.train[*part] < least || self.train[*part] == least && longer < over;
        let score = |part: usize| {
            let numerator =
                u128::from(common[part] + 1) * u128::from(self.all_train - parts * self.train[part]);
            (numerator, u128::from(self.closure_nodes[part] + 1))
        };
        let better = |a: &usize, b: &usize| {
            let ((a_over, a_under), (b_over, b_under)) = (score(*a), score(*b));
            let of_scores = (a_over * b_under).cmp(&(b_over * a_under));
            let of_ties = Reverse((self.train[*a], *a)).cmp(&Reverse((self.train[*b], *b)));
            of_scores.then(of_ties)
        };
        // Some part has room as long as training nodes remain.
        (0..self.train.len()).filter(has_room).max_by(better).unwrap_or(0)
    }

    /// The part of every node.
    fn with_others(self) -> Vec<u16> {
        let mut sizes = self.train.clone();
        let mut of = Vec::with_capacity(self.of.len());
        for (node, part) in self.of.iter().enumerate() {
            let part = part.unwrap_or_else(|| {
                let (word, bit) = (node / 64, 1_u64 << (node % 64));
                let smallest = |among: &dyn Fn(usize) -> bool| {
                    (0..sizes.len()).filter(|part| among(*part)).min_by_key(|part| (sizes[*part], *part))
                };
                let holder = smallest(&|part| self.closures[part][word] & bit != 0);
                let part = holder.or_else(|| smallest(&|_| true)).unwrap_or(0);
                sizes[part] += 1;
                part as u16
            });
            of.push(part);
        }
        of
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lists, unwatched};
    use crate::{Method, PartitionOptions, partition};

    #[test]
    fn numbers_of_training_nodes_differ_by_one_even_where_a_closure_is_large() {
        // Two groups of four are connected. Nodes 8 and 9 have closures that are too large for any part to attract
        // them.
        let mut lists: Vec<Vec<usize>> =
            (0..8).map(|node| (node / 4 * 4..node / 4 * 4 + 4).collect()).collect();
        lists.extend([(10..110).collect(), (10..110).collect()]);
        lists.resize(110, Vec::new());
        let lists = Lists { lists, train: vec![8, 0, 4, 1, 5, 2, 6, 3, 7, 9] };
        let temp = tempfile::tempdir().unwrap();
        let options = PartitionOptions { method: Method::Pagraph, hops: 1, ..PartitionOptions::of_parts(3) };
        let found = partition(&lists.dataset(temp.path()), &options, &unwatched).unwrap();
        let mut train = found.train.clone();
        train.sort_unstable();
        assert_eq!(train, [3, 3, 4]);
        // The first group is whole; the other had to be split.
        assert!((1..4).all(|node| found.of[node] == found.of[0]), "{:?}", &found.of[..10]);
    }
}
