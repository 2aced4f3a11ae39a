//! Validation of `partition.json`. None of its values is used as a size, an id or a name before.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use crate::description::part_of::MOST_HOPS;
use crate::partition::parts::{ClosureSummary, RangesSummary, WrittenParts};
use crate::partition::range_book::RangeBook;

/// Maximum number of parts: part numbers have 16 bits.
pub const MOST_PARTS: u32 = 65_535;

/// The largest count of nodes, edges or bytes: ids and offsets are int64.
const MOST: u64 = i64::MAX as u64;

/// An invalid key.
#[derive(Debug, thiserror::Error)]
#[error("\"{key}\" {problem}")]
pub(crate) struct Wrong {
    key: &'static str,
    problem: String,
}

pub(crate) fn wrong(key: &'static str, problem: String) -> Wrong {
    Wrong { key, problem }
}

fn require(holds: bool, key: &'static str, problem: impl FnOnce() -> String) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(wrong(key, problem())) }
}

/// Whether a directory name in a description refers to a sibling of the description. The description is untrusted.
pub(crate) fn is_beside(directory: &str) -> bool {
    let mut components = Path::new(directory).components();
    matches!((components.next(), components.next()), (Some(Component::Normal(_)), None))
        // `components` ignores a trailing slash, and `.` after one.
        && !directory.contains('/')
}

/// The values to check.
pub(crate) struct Checked<'a> {
    pub(crate) parts: u32,
    pub(crate) hops: u32,
    pub(crate) nodes: &'a [u64],
    pub(crate) train: &'a [u64],
    pub(crate) blocks: Option<[u64; 2]>,
    pub(crate) edge_cut: u64,
    pub(crate) written: Option<&'a WrittenParts>,
}

impl Checked<'_> {
    /// Checks every key that other code depends on.
    ///
    /// # Errors
    /// The first invalid key.
    pub(crate) fn check(&self) -> Result<(), Wrong> {
        let Self { parts, hops, nodes, train, blocks, edge_cut, written } = *self;
        require((1..=MOST_PARTS).contains(&parts), "parts", || {
            format!("is {parts}, it has to be 1 to {MOST_PARTS}")
        })?;
        require(hops <= MOST_HOPS, "hops", || format!("is {hops}, and there are at most {MOST_HOPS}"))?;
        for (key, entries) in [("nodes", nodes), ("train", train)] {
            require(entries.len() == parts as usize, key, || {
                format!("has {} entries, it needs {parts}, one for each part", entries.len())
            })?;
        }
        let all = sum(nodes.iter().copied());
        require(all <= MOST, "nodes", || "has more nodes than ids can name".to_owned())?;
        for (part, (&train, &nodes)) in train.iter().zip(nodes).enumerate() {
            require(train <= nodes, "train", || {
                format!("of part {part} is {train}, and the part has {nodes} nodes")
            })?;
        }
        if let Some([before, after]) = blocks {
            require(after <= before && before <= all, "blocks", || {
                format!("is [{before}, {after}]: merging makes fewer, of at most {all} nodes")
            })?;
        }
        require(edge_cut <= MOST, "edge_cut", || format!("is {edge_cut}, more than there can be edges"))?;
        match written {
            None => Ok(()),
            Some(WrittenParts::Closure(parts)) => self.closures(parts, all),
            Some(WrittenParts::Ranges(ranges)) => self.ranges(ranges),
        }
    }

    fn closures(&self, said: &ClosureSummary, all: u64) -> Result<(), Wrong> {
        self.directories(said.written.len(), said.written.iter().map(|part| part.dir.as_str()))?;
        for (part, written) in said.written.iter().enumerate() {
            let own = self.nodes[part];
            let nodes = written.nodes;
            require(nodes <= all, "written", || {
                format!("gives part {part} {nodes} nodes, and all parts have {all}")
            })?;
            require(written.halo <= nodes && nodes - written.halo <= own, "written", || {
                format!(
                    "gives part {part} {nodes} nodes, of which {} are of other parts, and \"nodes\" {own}",
                    written.halo
                )
            })?;
            self.splits(part, nodes, [written.train, written.valid, written.test])?;
            require(written.edges <= MOST, "written", || too_many_edges(part, written.edges))?;
        }
        Ok(())
    }

    /// Checks that a part has the counted training nodes, and that a split has each node at most once.
    fn splits(&self, part: usize, nodes: u64, [train, valid, test]: [u64; 3]) -> Result<(), Wrong> {
        let counted = self.train[part];
        require(train == counted, "written", || {
            format!("gives part {part} {train} training nodes, and \"train\" {counted}")
        })?;
        require(valid <= nodes && test <= nodes, "written", || {
            format!("gives part {part} {valid} validation and {test} test nodes, and {nodes} in all")
        })
    }

    fn ranges(&self, said: &RangesSummary) -> Result<(), Wrong> {
        let directories = said.written.iter().map(|part| part.dir.as_str());
        self.directories(said.written.len(), directories.chain([said.graph.dir.as_str()]))?;
        RangeBook::check(&said.boundaries, self.nodes)
            .map_err(|problem| wrong("boundaries", problem.to_string()))?;
        for (part, written) in said.written.iter().enumerate() {
            let nodes = self.nodes[part];
            require(written.rows == nodes, "written", || {
                format!("gives part {part} {} rows, and \"nodes\" {nodes}", written.rows)
            })?;
            self.splits(part, nodes, [written.train, written.valid, written.test])?;
            require(written.bytes <= MOST, "written", || {
                format!("gives part {part} {} bytes, more than a file can have", written.bytes)
            })?;
        }
        let (edges, bytes) = (said.graph.edges, said.graph.bytes);
        let found = sum(said.written.iter().map(|part| part.edges));
        require(edges == found && edges <= MOST, "graph", || {
            format!("has {edges} edges, and the parts together {found}")
        })?;
        // An entry of a list has at least four bytes.
        require(bytes <= MOST && edges <= bytes / 4, "graph", || {
            format!("has {bytes} bytes for {edges} edges")
        })?;
        require(self.edge_cut <= edges, "edge_cut", || {
            format!("is {}, and the graph has {edges} edges", self.edge_cut)
        })
    }

    /// Checks that each part and, for ranges, the graph has a directory of its own next to the description.
    fn directories<'d>(
        &self,
        written: usize,
        directories: impl Iterator<Item = &'d str>,
    ) -> Result<(), Wrong> {
        require(written == self.parts as usize, "written", || {
            format!("has {written} entries, it needs {}, one for each part", self.parts)
        })?;
        let mut seen = BTreeSet::new();
        for directory in directories {
            let shown = || uva_files::quote::shown(directory);
            require(is_beside(directory), "dir", || {
                format!("is '{}', which is not the name of a directory next to this file", shown())
            })?;
            require(seen.insert(directory), "dir", || format!("is '{}' twice", shown()))?;
        }
        Ok(())
    }
}

fn too_many_edges(part: usize, edges: u64) -> String {
    format!("gives part {part} {edges} edges, more than there can be")
}

/// The sum, saturating at the largest 64-bit number.
fn sum(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_a_description_is_in_the_same_folder() {
        for beside in ["part-0", "graph", "a b"] {
            assert!(is_beside(beside), "{beside}");
        }
        for elsewhere in ["", ".", "..", "/tmp", "../part-0", "part-0/..", "part-0/", "part-0/.", "a/b"] {
            assert!(!is_beside(elsewhere), "{elsewhere}");
        }
    }
}
