//! Checks all files present of a partition in ranges.

use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;

use super::arrays::bytes_in;
use super::compare;
use super::parts::RangeParts;
use crate::description::names;
use crate::partition::parts::RangesSummary;
use crate::partition::summary::PARTITION_SUMMARY;
use crate::{Dataset, GraphError, PartitionMap, Split, Verify};

/// The result of checking a partition in ranges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedRanges {
    /// The parts whose rows are present and were checked.
    pub parts: Vec<usize>,
    /// The parts that are absent.
    pub absent: Vec<usize>,
    /// Whether rows and lists were compared with those of the source dataset.
    pub with_source: bool,
}

/// A fault of a partition in ranges.
#[derive(Debug, thiserror::Error)]
enum CheckProblem {
    #[error(
        "node {node} has the original id {id}, which is part {mapped}'s by partition.npy, and the node lies in the range of \
         part {part}"
    )]
    Owner { node: usize, id: i64, mapped: u16, part: usize },
    #[error("node {node} has the original id {id}, and there are {nodes} nodes")]
    Id { node: usize, id: i64, nodes: usize },
    #[error(
        "node {node} has the original id {id}, less than the {before} before it: within a part they ascend"
    )]
    Order { node: usize, id: i64, before: i64 },
    #[error("\"{key}\" of part {part} is {said}, and graph has {found}")]
    Count { key: &'static str, part: usize, said: u64, found: u64 },
    #[error(
        "\"edge_cut\" is {said}, and graph has {found} entries of lists whose node is in another part than the list's"
    )]
    EdgeCut { said: u64, found: u64 },
    #[error("\"{key}\" of {directory} is {said}, and the arrays in it have {found}: an array was changed")]
    Arrays { directory: String, key: &'static str, said: String, found: String },
}

/// Checks the partition in the directory `path`: boundaries, counts, the map and original ids must be consistent, and
/// the graph must be valid. All elements of the arrays must be those that were written, and no feature value may be NaN
/// or infinite. With `source`, also checks that every row, list and split equals that of the source dataset. Absent
/// parts are skipped. Uses the current rayon pool.
///
/// # Errors
/// The first fault, with the file, the value found and the expected value.
pub fn verify_ranges(path: &Path, source: Option<&Dataset>) -> Result<CheckedRanges, GraphError> {
    let map = match source {
        Some(dataset) => PartitionMap::open(path, dataset)?,
        None => PartitionMap::open_alone(path, None)?,
    };
    let parts = RangeParts::open_those_here(path, Verify::Full)?;
    let description = path.join(PARTITION_SUMMARY);
    let refuse = |problem| Err(GraphError::invalid(&description, problem));
    check_ids(&parts, &map)?;
    if let Some(problem) = wrong_count(&parts) {
        return refuse(problem);
    }
    let (said, found) = (parts.summary().edge_cut, edge_cut(&parts));
    if said != found {
        return refuse(CheckProblem::EdgeCut { said, found });
    }
    let of_graph = &parts.written().graph;
    let graph = parts.graph();
    let whole = (&of_graph.dir, (of_graph.bytes, &of_graph.hash), (bytes_in(graph.path())?, graph.hash()));
    let mut arrays = vec![whole];
    for rows in parts.here().filter_map(|part| Some((&parts.written().written[part], parts.rows(part)?))) {
        let (said, rows) = rows;
        rows.check_finite()?;
        arrays.push((&said.dir, (said.bytes, &said.hash), (bytes_in(rows.path())?, rows.hash())));
    }
    for (directory, (said_bytes, said_hash), (bytes, hash)) in arrays {
        let numbers = (said_bytes.to_string(), bytes.to_string());
        for (key, said, found) in [("bytes", &numbers.0, &numbers.1), ("hash", said_hash, &hash)] {
            if said != found {
                let (directory, said, found) = (directory.clone(), said.clone(), found.clone());
                return refuse(CheckProblem::Arrays { directory, key, said, found });
            }
        }
    }
    if let Some(dataset) = source {
        compare::with_source(&parts, dataset)?;
    }
    let here: Vec<usize> = parts.here().collect();
    let absent = (0..parts.book().parts()).filter(|part| !here.contains(part)).collect();
    Ok(CheckedRanges { parts: here, absent, with_source: source.is_some() })
}

/// Compares the described sizes of the graph and of each part present with those of their arrays, without reading the
/// arrays. `path` is the partition's directory.
///
/// # Errors
/// The first size that differs.
pub fn check_sizes(said: &RangesSummary, path: &Path) -> Result<(), GraphError> {
    let parts = said.written.iter().map(|part| (&part.dir, part.bytes));
    for (dir, bytes) in [(&said.graph.dir, said.graph.bytes)].into_iter().chain(parts) {
        let directory = path.join(dir);
        let found = if directory.is_dir() { bytes_in(&directory)? } else { bytes };
        if found != bytes {
            let (directory, said, found) = (dir.clone(), bytes.to_string(), found.to_string());
            let problem = CheckProblem::Arrays { directory, key: "bytes", said, found };
            return Err(GraphError::invalid(&path.join(PARTITION_SUMMARY), problem));
        }
    }
    Ok(())
}

/// Checks that each range has the original ids that the map gives its part, ascending.
fn check_ids(parts: &RangeParts, map: &PartitionMap) -> Result<(), GraphError> {
    let ids = parts.graph().original_ids();
    let refuse = |problem| GraphError::invalid(&parts.graph().path().join(names::ORIGINAL_IDS), problem);
    for part in 0..parts.book().parts() {
        let range = parts.book().range(part);
        for node in range.start as usize..range.end as usize {
            let id = ids[node];
            let Some(&mapped) = usize::try_from(id).ok().and_then(|id| map.of.get(id)) else {
                return Err(refuse(CheckProblem::Id { node, id, nodes: map.of.len() }));
            };
            if usize::from(mapped) != part {
                return Err(refuse(CheckProblem::Owner { node, id, mapped, part }));
            }
            if node > range.start as usize && ids[node - 1] >= id {
                return Err(refuse(CheckProblem::Order { node, id, before: ids[node - 1] }));
            }
        }
    }
    Ok(())
}

/// The first count of split nodes that differs from that of the graph.
fn wrong_count(parts: &RangeParts) -> Option<CheckProblem> {
    let of_split = |split: Split| {
        let mut counts = vec![0_u64; parts.book().parts()];
        parts.split(split).iter().for_each(|&node| counts[parts.owner(node)] += 1);
        counts
    };
    let [train, valid, test] = Split::ALL.map(of_split);
    let written = &parts.written().written;
    let ends = parts.csc().indptr;
    for (part, written) in written.iter().enumerate() {
        let range = parts.book().range(part);
        let edges = (ends[range.end as usize] - ends[range.start as usize]).cast_unsigned();
        let counts = [
            ("train", parts.summary().train[part], train[part]),
            ("train", written.train, train[part]),
            ("valid", written.valid, valid[part]),
            ("test", written.test, test[part]),
            ("edges", written.edges, edges),
        ];
        if let Some((key, said, found)) = counts.into_iter().find(|(_, said, found)| said != found) {
            return Some(CheckProblem::Count { key, part, said, found });
        }
    }
    None
}

/// The number of list entries whose node is in another part than the list.
fn edge_cut(parts: &RangeParts) -> u64 {
    let (csc, book) = (parts.csc(), parts.book());
    let of_part = |part: usize| {
        let range = book.range(part);
        let own = range.start.cast_signed()..range.end.cast_signed();
        let entries = csc.indptr[range.start as usize] as usize..csc.indptr[range.end as usize] as usize;
        entries.into_par_iter().filter(|&entry| !own.contains(&csc.indices.get(entry))).count() as u64
    };
    (0..book.parts()).map(of_part).sum()
}
