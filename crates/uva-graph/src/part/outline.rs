//! The nodes and splits of a part, and its sizes before it is written.

use super::closure::Closure;
use super::members::Members;
use super::options::Cut;
use super::reach::whole_hops;
use crate::partition::parts::WrittenPart;
use crate::{Dataset, Split};

/// Bytes of the header of a `.npy` file, and of a part's `meta.json`, rounded up.
const HEADERS: u64 = 16 << 10;

/// The content of a part, in ids of the whole dataset.
pub(super) struct Outline<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) closure: Closure,
    pub(super) members: Members,
    /// The part's nodes of each split, in the order of the dataset's files.
    pub(super) splits: [Vec<i64>; 3],
    halo: u64,
}

impl<'a> Outline<'a> {
    /// Computes the outline of part `number`. Takes 2 bytes per node of the whole graph during the call, and 1.25
    /// afterwards.
    pub(super) fn of(cut: &Cut<'a>, number: usize) -> Outline<'a> {
        let Cut { dataset, hops, split_eval, .. } = *cut;
        let csc = dataset.csc();
        let is_own = |node: usize| usize::from(cut.owners[node]) == number;
        let own = |split: Split| -> Vec<i64> {
            dataset.split(split).iter().copied().filter(|&node| is_own(node as usize)).collect()
        };
        let mut splits = [own(Split::Train), Vec::new(), Vec::new()];
        if split_eval {
            (splits[1], splits[2]) = (own(Split::Valid), own(Split::Test));
        }
        let closure = Closure::of(&csc, splits.iter().flatten().copied(), hops);
        let members = closure.members();
        if !split_eval {
            // A list that is empty in the whole graph is never missing.
            let has_list = |node: usize| closure.has_list(node) || csc.degree(node) == 0;
            let whole = whole_hops(&csc, &members, hops, has_list);
            let near = |split: Split| -> Vec<i64> {
                let ids = dataset.split(split).iter().copied();
                ids.filter(|&node| whole[node as usize] >= hops).collect()
            };
            (splits[1], splits[2]) = (near(Split::Valid), near(Split::Test));
        }
        let halo = members.nodes().filter(|&node| !is_own(node)).count() as u64;
        Outline { dataset, closure, members, splits, halo }
    }

    /// The sizes of the part. `dir` is the name of its directory.
    pub(super) fn sizes(&self, dir: String) -> WrittenPart {
        let (dataset, csc) = (self.dataset, self.dataset.csc());
        let nodes = self.members.len() as u64;
        let edges = self.lists().map(|node| csc.degree(node) as u64).sum();
        let [train, valid, test] = [0, 1, 2].map(|split: usize| self.splits[split].len() as u64);
        let row_bytes = dataset.table().row_bytes() + dataset.labels().row_bytes();
        // Ends, original id and in-degree.
        let node_bytes = row_bytes as u64 + 8 + 8 + 4;
        let edge_row = dataset.edge_features().map_or(0, |table| table.row_bytes());
        let edge_bytes = (dataset.files().graph.edge_bytes() + edge_row) as u64;
        let bytes = nodes * node_bytes + edges * edge_bytes + 8 * (train + valid + test) + HEADERS;
        WrittenPart { dir, nodes, halo: self.halo, edges, train, valid, test, bytes }
    }

    /// The nodes whose lists the part has.
    pub(super) fn lists(&self) -> impl Iterator<Item = usize> + '_ {
        self.members.nodes().filter(|&node| self.closure.has_list(node))
    }
}
