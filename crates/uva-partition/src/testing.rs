//! Small datasets for tests.

use std::path::Path;

use uva_graph::npy::{NpyType, write_array};
use uva_graph::{Dataset, Progress};
use uva_sample::philox::{RandomPurpose, StreamKey};

/// A graph: the list of each node, and the training nodes.
#[derive(Clone, Debug)]
pub(crate) struct Lists {
    pub(crate) lists: Vec<Vec<usize>>,
    pub(crate) train: Vec<usize>,
}

impl Lists {
    /// Writes the graph as a dataset to `directory`.
    pub(crate) fn dataset(&self, directory: &Path) -> Dataset {
        self.in_order(directory, None)
    }

    /// Writes the graph with node `order[p]` at place `p`.
    pub(crate) fn reordered(&self, directory: &Path, order: &[usize]) -> Dataset {
        self.in_order(directory, Some(order))
    }

    fn in_order(&self, directory: &Path, order: Option<&[usize]>) -> Dataset {
        std::fs::create_dir_all(directory).unwrap();
        let nodes = self.lists.len();
        let identity: Vec<usize> = (0..nodes).collect();
        let node_at = order.unwrap_or(&identity);
        let mut place_of = vec![0_i64; nodes];
        (0..).zip(node_at).for_each(|(place, &node)| place_of[node] = place);
        let (mut ends, mut indices) = (vec![0_i64], Vec::new());
        for &node in node_at {
            indices.extend(self.lists[node].iter().map(|&entry| place_of[entry]));
            ends.push(indices.len() as i64);
        }
        let train: Vec<i64> = self.train.iter().map(|&node| place_of[node]).collect();
        let write = |name: &str, values: &[i64]| {
            write_array(&directory.join(name), NpyType::I64, &[], values).unwrap();
        };
        write("indptr.npy", &ends);
        write("indices.npy", &indices);
        write("train_idx.npy", &train);
        write("valid_idx.npy", &[]);
        write("test_idx.npy", &[]);
        if let Some(order) = order {
            write("orig_id.npy", &order.iter().map(|&node| node as i64).collect::<Vec<_>>());
        }
        write_array(&directory.join("feat.npy"), NpyType::F32, &[1], &vec![0_f32; nodes]).unwrap();
        Dataset::open(directory).unwrap()
    }

    /// A random graph: `groups` groups of ids modulo `groups`. Each node has `degree` entries in its list, `within` per
    /// cent of which are drawn from its own group, the others from all nodes. One node in `train_every` trains.
    pub(crate) fn planted(
        seed: u64,
        nodes: usize,
        groups: usize,
        degree: usize,
        within: u32,
        train_every: usize,
    ) -> Lists {
        let lists = (0..nodes).map(|node| {
            let mut words = words(seed, node);
            let entry = |_| {
                let any = words.bounded(nodes as u32) as usize;
                let in_group = any - any % groups + node % groups;
                if words.bounded(100) < within && in_group < nodes { in_group } else { any }
            };
            (0..degree).map(entry).collect()
        });
        let lists: Vec<Vec<usize>> = lists.collect();
        Lists { lists, train: (0..nodes).step_by(train_every).collect() }
    }
}

/// Random words of a node, for graphs.
fn words(seed: u64, node: usize) -> uva_sample::philox::PhiloxStream {
    let split = uva_graph::Split::Train;
    let purpose = RandomPurpose::Subgraphs;
    StreamKey { seed, node: node as u64, purpose, layer: 0, batch: 0, epoch: 0, split }.stream()
}

/// A permutation of `0..nodes` that moves all but a few.
pub(crate) fn shuffled(nodes: usize) -> Vec<usize> {
    crate::graphs::order::by_key(nodes, 99).into_iter().map(|node| node as usize).collect()
}

/// Runs in a pool with this many threads.
pub(crate) fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

/// A progress callback that does nothing.
pub(crate) fn unwatched(_: Progress) {}
