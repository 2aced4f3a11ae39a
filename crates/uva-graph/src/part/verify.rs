//! Checks the parts of a partition against its description, its map, and the source dataset.

use std::ops::Range;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;
use uva_mem::files::read_regular;

use super::closure::Closure;
use crate::comparison::{row, values_of};
use crate::description::edge_values::EDGE_VALUES;
use crate::description::names;
use crate::description::part_of::MOST_BYTES;
use crate::partition::parts::WrittenPart;
use crate::partition::summary::{PARTITION_SUMMARY, summary_of};
use crate::{Dataset, ElementType, FeatureTable, GraphError, PartitionMap, PartitionSummary, Split, Verify};

/// The result of checking a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedParts {
    /// The parts that are present and were checked.
    pub parts: Vec<usize>,
    /// The parts that are absent.
    pub absent: Vec<usize>,
    /// Whether rows and lists were compared with those of the source dataset.
    pub with_source: bool,
}

/// A fault of a partition.
#[derive(Debug, thiserror::Error)]
enum CheckProblem {
    #[error(
        "it is not part {0} of the partition in its parent directory: it comes from another partition, or \
         directories were swapped"
    )]
    OtherPart(usize),
    #[error("\"{key}\" of part {part} is {said}, but the part has {found}")]
    Count { key: &'static str, part: usize, said: u64, found: u64 },
    #[error("node {node} has the original id {id}, which is not one of the map's {nodes} nodes")]
    Id { node: usize, id: i64, nodes: usize },
    #[error(
        "entry {entry} is node {node}, which belongs to part {owner} by partition.npy, not to part {part}"
    )]
    Foreign { entry: usize, node: i64, owner: u16, part: usize },
    #[error(
        "the list of node {node} has {found} of its {wanted} entries: lists within {hops} in-hops must be complete"
    )]
    Cut { node: usize, found: usize, wanted: usize, hops: u32 },
    #[error("node {node} is not within {hops} in-hops of the part's own nodes")]
    Far { node: usize, hops: u32 },
    #[error(
        "the {what} of node {node} (original id {id}) differ from those of the dataset that was partitioned"
    )]
    Differs { what: &'static str, node: usize, id: i64 },
    #[error(
        "these are not the nodes of this part, in order, in the split of the dataset that was partitioned"
    )]
    Split,
}

/// Checks the partition in the directory `path`: counts, map, and each part that is present, with all its values, its
/// counts, and its completeness within its hops. With `source`, also checks that every row and list equals that of the
/// source dataset. A map without parts is only compared with its description. Uses the current rayon pool.
///
/// # Errors
/// The first fault, with the file, the value found and the expected value.
pub fn verify_parts(path: &Path, source: Option<&Dataset>) -> Result<CheckedParts, GraphError> {
    let map = match source {
        Some(dataset) => PartitionMap::open(path, dataset)?,
        None => PartitionMap::open_alone(path, None)?,
    };
    let description = path.join(PARTITION_SUMMARY);
    let text = read_regular(&description, MOST_BYTES).map_err(GraphError::io(&description, "read"))?;
    let summary = summary_of(&description, &text)?;
    let written = summary.closures().map_or(&[][..], |parts| &parts.written);
    if let Some(dataset) = source {
        dataset.check_edges()?;
    }
    let node_of = source.and_then(Dataset::nodes_by_original_id);
    let mut checked = CheckedParts { parts: Vec::new(), absent: Vec::new(), with_source: source.is_some() };
    for (number, written) in written.iter().enumerate() {
        let directory = path.join(&written.dir);
        if !directory.is_dir() {
            checked.absent.push(number);
            continue;
        }
        let part = Dataset::open_verified(&directory, Verify::FullWithFeatures)?;
        if !part.part().is_some_and(|of| of.number as usize == number && of.is_of(&text)) {
            let file = directory.join(crate::description::meta::FILE_NAME);
            return Err(GraphError::invalid(&file, CheckProblem::OtherPart(number)));
        }
        let one = One { part: &part, number, map: &map, summary: &summary, description: &description };
        one.check_nodes()?;
        one.check_counts(written)?;
        one.check_lists()?;
        if let Some(dataset) = source {
            one.check_source(dataset, node_of.as_deref())?;
        }
        checked.parts.push(number);
    }
    Ok(checked)
}

/// A part that is being checked.
struct One<'a> {
    part: &'a Dataset,
    number: usize,
    map: &'a PartitionMap,
    summary: &'a PartitionSummary,
    description: &'a Path,
}

impl One<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.part.path().join(name)
    }

    /// The original ids, which every part has.
    fn ids(&self) -> &[i64] {
        self.part.original_ids().unwrap_or_default()
    }

    /// The part that owns a node, by the part's own id.
    fn owner(&self, node: usize) -> Option<u16> {
        usize::try_from(self.ids()[node]).ok().and_then(|id| self.map.of.get(id)).copied()
    }

    fn check_nodes(&self) -> Result<(), GraphError> {
        if let Some(node) = (0..self.part.nodes()).find(|&node| self.owner(node).is_none()) {
            let problem = CheckProblem::Id { node, id: self.ids()[node], nodes: self.map.of.len() };
            return Err(GraphError::invalid(&self.file(names::ORIGINAL_IDS), problem));
        }
        for (entry, &node) in self.part.split(Split::Train).iter().enumerate() {
            if let Some(owner) = self.owner(node as usize).filter(|owner| usize::from(*owner) != self.number)
            {
                let problem = CheckProblem::Foreign { entry, node, owner, part: self.number };
                return Err(GraphError::invalid(&self.file(Split::Train.file_name()), problem));
            }
        }
        Ok(())
    }

    fn check_counts(&self, written: &WrittenPart) -> Result<(), GraphError> {
        let is_other =
            |node: &usize| self.owner(*node).is_some_and(|owner| usize::from(owner) != self.number);
        let halo = (0..self.part.nodes()).filter(is_other).count() as u64;
        let [train, valid, test] = Split::ALL.map(|split| self.part.split(split).len() as u64);
        let counts = [
            ("nodes", written.nodes, self.part.nodes() as u64),
            ("halo", written.halo, halo),
            ("edges", written.edges, self.part.edges() as u64),
            ("train", written.train, train),
            ("train", self.summary.train[self.number], train),
            ("valid", written.valid, valid),
            ("test", written.test, test),
        ];
        match counts.into_iter().find(|(_, said, found)| said != found) {
            None => Ok(()),
            Some((key, said, found)) => {
                let problem = CheckProblem::Count { key, part: self.number, said, found };
                Err(GraphError::invalid(self.description, problem))
            }
        }
    }

    /// Whether validation and test nodes were divided like training nodes.
    fn divides_evaluation(&self) -> bool {
        self.summary.closures().is_some_and(|parts| parts.split_eval)
    }

    /// Checks that all lists within the part's hops are present, and no node beyond.
    fn check_lists(&self) -> Result<(), GraphError> {
        let Some(of) = self.part.part() else { return Ok(()) };
        let splits: &[Split] = if self.divides_evaluation() { &Split::ALL } else { &[Split::Train] };
        let roots = splits.iter().flat_map(|split| self.part.split(*split)).copied();
        let csc = self.part.csc();
        let closure = Closure::of(&csc, roots, of.hops as u8);
        let members = closure.members();
        for node in 0..csc.nodes() {
            if members.place(node).is_none() {
                let problem = CheckProblem::Far { node, hops: of.hops };
                return Err(GraphError::invalid(&self.file(names::INDICES), problem));
            }
            let (found, wanted) = (csc.degree(node), csc.whole_degree(node));
            if closure.has_list(node) && found < wanted {
                let problem = CheckProblem::Cut { node, found, wanted, hops: of.hops };
                return Err(GraphError::invalid(&self.file(names::INDPTR), problem));
            }
        }
        Ok(())
    }

    /// Compares the part with the dataset, whose edges were checked, and `node_of` maps original ids to its nodes.
    fn check_source(&self, dataset: &Dataset, node_of: Option<&[usize]>) -> Result<(), GraphError> {
        let source = |node: usize| {
            let original = self.ids()[node] as usize;
            node_of.map_or(original, |nodes| nodes[original])
        };
        let differs = |node: usize| self.differing(dataset, node, source(node)).map(|found| (node, found));
        if let Some((node, (file, what))) = (0..self.part.nodes()).into_par_iter().find_map_first(differs) {
            let problem = CheckProblem::Differs { what, node, id: self.ids()[node] };
            return Err(GraphError::invalid(&self.file(file), problem));
        }
        let own = |node: &&i64| {
            let original = dataset.original_ids().map_or(**node, |ids| ids[**node as usize]);
            usize::from(self.map.of[original as usize]) == self.number
        };
        let splits: &[Split] = if self.divides_evaluation() { &Split::ALL } else { &[Split::Train] };
        for &split in splits {
            let wanted = dataset.split(split).iter().filter(own).map(|&node| node as usize);
            if !self.part.split(split).iter().map(|&node| source(node as usize)).eq(wanted) {
                return Err(GraphError::invalid(&self.file(split.file_name()), CheckProblem::Split));
            }
        }
        Ok(())
    }

    /// The file and name of a node's first value that differs from that of node `source` in the dataset.
    fn differing(
        &self,
        dataset: &Dataset,
        node: usize,
        source: usize,
    ) -> Option<(&'static str, &'static str)> {
        let (ours, theirs) = (self.part.csc(), dataset.csc());
        let (features, of_source) = (self.part.features(), dataset.features());
        if (features.dim, features.element) != (of_source.dim, of_source.element)
            || row(features.bytes, features.row_bytes(), node)
                != row(of_source.bytes, features.row_bytes(), source)
        {
            return Some((names::FEATURES, "features"));
        }
        let (labels, of_source) = (self.part.labels(), dataset.labels());
        if labels.row_bytes() != of_source.row_bytes()
            || row(labels.bytes(), labels.row_bytes(), node)
                != row(of_source.bytes(), labels.row_bytes(), source)
        {
            return Some((names::LABELS, "labels"));
        }
        if ours.whole_degree(node) != theirs.degree(source).min(i32::MAX as usize) {
            return Some((names::DEGREES, "in-degrees"));
        }
        if ours.degree(node) == 0 {
            // Lists at the last hop are omitted; other lists are empty only if they are empty in the dataset.
            return None;
        }
        let [own, whole] = [(ours, node), (theirs, source)]
            .map(|(csc, node)| csc.indptr[node] as usize..csc.indptr[node + 1] as usize);
        let original = |ids: Option<&[i64]>, id: i64| ids.map_or(id, |ids| ids[id as usize]);
        let list = own.clone().map(|entry| original(ours.original_ids, ours.indices.get(entry)));
        if !list.eq(whole.clone().map(|entry| original(theirs.original_ids, theirs.indices.get(entry)))) {
            return Some((names::INDICES, "neighbours"));
        }
        for spec in &EDGE_VALUES {
            let [ours, theirs] = [self.part, dataset].map(|dataset| dataset.edge_array(spec.values));
            if values_of(ours, own.clone()) != values_of(theirs, whole.clone()) {
                return Some((spec.file, spec.name));
            }
        }
        let same = rows(self.part.edge_features(), own) == rows(dataset.edge_features(), whole);
        (!same).then_some((names::EDGE_FEATURES, "edge features"))
    }
}

/// The rows of a list's entries, with their width and element type.
fn rows(table: Option<FeatureTable<'_>>, list: Range<usize>) -> Option<(usize, ElementType, &[u8])> {
    let table = table?;
    let size = table.row_bytes();
    Some((table.dim, table.element, &table.bytes[list.start * size..list.end * size]))
}
