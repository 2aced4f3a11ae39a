//! The files of IGB: tables with or without a header, sets of classes, the splits of its loader.

use std::path::{Path, PathBuf};

use uva_graph::GraphError;
use uva_graph::npy::NpyType;

use crate::import::reading::stream::ArrayStream;

/// Columns of a table without a header.
pub(super) const RAW_COLUMNS: usize = 1024;

/// Nodes of `full`: from IGB's README and loader.
const FULL_NODES: u64 = 269_346_174;

/// A set of classes.
#[derive(Debug, Clone, Copy)]
pub(super) enum ClassSet {
    /// 19 classes.
    Coarse,
    /// 2983 classes.
    Fine,
}

impl ClassSet {
    pub(super) fn classes(self) -> u64 {
        match self {
            ClassSet::Coarse => 19,
            ClassSet::Fine => 2983,
        }
    }

    pub(super) fn file(self) -> &'static str {
        match self {
            ClassSet::Coarse => "node_label_19.npy",
            ClassSet::Fine => "node_label_2K.npy",
        }
    }

    /// The nodes of `full` that have a label: from IGB's README and loader.
    fn labelled_of_full(self) -> u64 {
        match self {
            ClassSet::Coarse => 227_130_858,
            ClassSet::Fine => 157_675_969,
        }
    }
}

/// The directory of the arrays: SRC, or `processed` in it.
pub(super) fn processed(source: &Path) -> PathBuf {
    let inner = source.join("processed");
    if inner.is_dir() { inner } else { source.to_owned() }
}

/// A table with a header, or one with rows of shape `row` without a header.
pub(super) fn table(path: &Path, row: &[usize]) -> Result<ArrayStream, GraphError> {
    let row_bytes = 4 * row.iter().product::<usize>() as u64;
    let mut start = [0; 6];
    let begins_as_npy = uva_mem::files::open_regular(path)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start))
        .map(|()| start == *b"\x93NUMPY")
        .or_else(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Ok(true),
            _ => Err(error),
        })
        .map_err(GraphError::io(path, "open"))?;
    let bytes = std::fs::metadata(path).map_err(GraphError::io(path, "look at"))?.len();
    if begins_as_npy || !bytes.is_multiple_of(row_bytes) {
        return ArrayStream::open(path);
    }
    let rows = (bytes / row_bytes) as usize;
    ArrayStream::open_raw(path, NpyType::F32, [&[rows], row].concat())
}

/// The number of papers that have a label, which are the first ones.
pub(super) fn labelled(papers: u64, set: ClassSet) -> u64 {
    if papers == FULL_NODES { set.labelled_of_full() } else { papers }
}

/// The splits of this many labelled papers.
pub(super) fn splits(nodes: u64) -> [Vec<i64>; 3] {
    // As the loader computes them: 60 % and 20 % in doubles, rounded down.
    let train = (nodes as f64 * 0.6) as u64;
    let valid = (nodes as f64 * 0.2) as u64;
    let ids = |from: u64, to: u64| (from as i64..to as i64).collect();
    [ids(0, train), ids(train, train + valid), ids(train + valid, nodes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_cut_where_igbs_loader_cuts_them() {
        assert_eq!(splits(100_000).map(|ids| ids.len()), [60_000, 20_000, 20_000]);
        // int(7 * 0.6) is 4, int(7 * 0.2) is 1.
        assert_eq!(splits(7), [vec![0, 1, 2, 3], vec![4], vec![5, 6]]);
        assert!(splits(0).iter().all(Vec::is_empty));
    }
}
