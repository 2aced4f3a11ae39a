//! The map from nodes to parts: `partition.npy`, with its description `partition.json`.
//!
//! A map is indexed by the *original* id of a node, so it is the same for a dataset and for a reordered copy of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Map;
use uva_mem::files::write_new;

use crate::npy::{NpyArray, NpyType, write_array};
pub use crate::partition::checks::MOST_PARTS;
use crate::partition::summary::read_summary;
pub use crate::partition::summary::{PARTITION_FORMAT, PARTITION_SUMMARY, PartitionSource, PartitionSummary};
use crate::{Dataset, GraphError, Split};
use uva_files::quote;

/// The part of each node, uint16 \[N\], by original id.
pub const PARTITION: &str = "partition.npy";
/// The method of a map of unknown origin.
const GIVEN: &str = "given";

/// A fault of a map.
#[derive(Debug, thiserror::Error)]
enum MapProblem {
    #[error("node {node} is in part {part}, but there are {parts} parts, numbered from 0")]
    Part { node: usize, part: u16, parts: u32 },
    #[error("node {node} has the part {}, but parts are numbered from 0 to {}", u16::MAX, MOST_PARTS - 1)]
    NoPart { node: usize },
    #[error(
        "the map is of the dataset {map} ({name}), but {} is {dataset}: a map of the same dataset is needed \
         (uvatrain partition)", path.display()
    )]
    OtherDataset { map: String, name: String, path: PathBuf, dataset: String },
    #[error(
        "\"{key}\" of part {part} is {said}, but partition.npy has {found}: the two are not of one partition, or one was \
         edited"
    )]
    Count { key: &'static str, part: usize, said: u64, found: u64 },
    #[error("node {node} of the dataset has the original id {id}, outside the map of {nodes} nodes")]
    NoSuchNode { node: usize, id: i64, nodes: usize },
}

/// The part of each node of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionMap {
    /// The number of parts. A part may be empty.
    pub parts: u32,
    /// The part of each node, by original id; all below `parts`.
    pub of: Vec<u16>,
    /// The content of `partition.json`; `None` for a map without it.
    pub summary: Option<PartitionSummary>,
}

impl PartitionMap {
    /// Reads a partition of `dataset`: a directory with `partition.npy` and `partition.json`, or the array's path. An
    /// array without `partition.json` next to it may come from any program; the number of parts is then its largest
    /// value + 1.
    ///
    /// # Errors
    /// If a file is missing, is not a partition, belongs to another dataset, or the counts of the two files differ. The
    /// error has the file, the value found and the expected value.
    pub fn open(path: &Path, dataset: &Dataset) -> Result<PartitionMap, GraphError> {
        let map = PartitionMap::open_alone(path, Some(dataset.nodes()))?;
        let Some(summary) = &map.summary else { return Ok(map) };
        let described = summary_path(path);
        let refuse = |problem| Err(GraphError::invalid(&described, problem));
        let fingerprint = dataset.fingerprint();
        if summary.dataset.fingerprint != fingerprint {
            return refuse(MapProblem::OtherDataset {
                map: quote::shown(&summary.dataset.fingerprint),
                name: quote::shown(&summary.dataset.name),
                path: dataset.path().to_owned(),
                dataset: fingerprint,
            });
        }
        let train = map.counts(map.split(dataset, Split::Train)?);
        match differing("train", &summary.train, &train) {
            Some(problem) => refuse(problem),
            None => Ok(map),
        }
    }

    /// Like [`open`](Self::open), without the dataset. `nodes` is the required number of nodes, if known. The
    /// fingerprint and the counts of training nodes are not checked.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_alone(path: &Path, nodes: Option<usize>) -> Result<PartitionMap, GraphError> {
        let array = match path.is_dir() {
            true => path.join(PARTITION),
            false => path.to_owned(),
        };
        let described = summary_path(path);
        let summary = match read_summary(&described) {
            Err(GraphError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound && !path.is_dir() =>
            {
                None
            }
            read => Some(read?),
        };
        let array = NpyArray::open(&array)?;
        match (array.shape(), nodes) {
            ([_], None) => {}
            ([found], Some(nodes)) if *found == nodes => {}
            (_, Some(nodes)) => {
                return Err(array.wrong_shape(format!("[{nodes}], a part for each node of the dataset")));
            }
            (_, None) => return Err(array.wrong_shape("[nodes], a part for each node")),
        }
        let of = array.elements::<u16>(NpyType::U16)?.to_vec();
        // Other programs mark a node without a part with this value.
        if let Some(node) = of.iter().position(|part| *part == u16::MAX) {
            return Err(GraphError::invalid(array.path(), MapProblem::NoPart { node }));
        }
        let parts = match &summary {
            Some(summary) => summary.parts,
            None => of.iter().max().map_or(1, |largest| u32::from(*largest) + 1),
        };
        if let Some(node) = of.iter().position(|part| u32::from(*part) >= parts) {
            let problem = MapProblem::Part { node, part: of[node], parts };
            return Err(GraphError::invalid(array.path(), problem));
        }
        let map = PartitionMap { parts, of, summary };
        if let Some(summary) = &map.summary
            && let Some(problem) = differing("nodes", &summary.nodes, &map.sizes())
        {
            return Err(GraphError::invalid(&described, problem));
        }
        Ok(map)
    }

    /// Writes `partition.npy` and, if there is a summary, `partition.json` into `directory`, which has neither yet.
    ///
    /// # Errors
    /// If a file exists or cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), GraphError> {
        write_array(&directory.join(PARTITION), NpyType::U16, &[], &self.of)?;
        let Some(summary) = &self.summary else { return Ok(()) };
        let path = directory.join(PARTITION_SUMMARY);
        let mut text = serde_json::to_string_pretty(summary).map_err(|e| GraphError::invalid(&path, e))?;
        text.push('\n');
        write_new(&path, text.as_bytes()).map_err(GraphError::io(&path, "write"))
    }

    /// The number of nodes of each part.
    #[must_use]
    pub fn sizes(&self) -> Vec<u64> {
        self.counts(self.of.iter().copied())
    }

    /// The part of each node of `dataset`, indexed by the dataset's ids.
    ///
    /// # Errors
    /// If the dataset was reordered, and the map lacks an original id.
    pub fn by_node(&self, dataset: &Dataset) -> Result<Cow<'_, [u16]>, GraphError> {
        let Some(ids) = dataset.original_ids() else { return Ok(Cow::Borrowed(&self.of)) };
        let of = (0..).zip(ids).map(|(node, &id)| self.part_of(dataset, node, id));
        of.collect::<Result<Vec<u16>, _>>().map(Cow::Owned)
    }

    /// The parts of the nodes of a split of `dataset`, in the split's order.
    ///
    /// # Errors
    /// As [`by_node`](Self::by_node).
    pub fn split(&self, dataset: &Dataset, split: Split) -> Result<Vec<u16>, GraphError> {
        let ids = dataset.original_ids();
        let of = dataset.split(split).iter().map(|&node| {
            let original = ids.map_or(node, |ids| ids[node as usize]);
            self.part_of(dataset, node as usize, original)
        });
        of.collect()
    }

    fn part_of(&self, dataset: &Dataset, node: usize, id: i64) -> Result<u16, GraphError> {
        let part = usize::try_from(id).ok().and_then(|id| self.of.get(id));
        part.copied().ok_or_else(|| {
            let problem = MapProblem::NoSuchNode { node, id, nodes: self.of.len() };
            GraphError::invalid(&dataset.path().join(crate::description::names::ORIGINAL_IDS), problem)
        })
    }

    /// The description for parts of `dataset` written with this map: the map's own, if any. `owners` is the part of
    /// each node, indexed by the dataset's ids; `hops` is used for a map without a description.
    pub(crate) fn described(&self, dataset: &Dataset, owners: &[u16], hops: u32) -> PartitionSummary {
        let csc = dataset.csc();
        let cut_of_list = |node: usize| {
            let edges = csc.indptr[node] as usize..csc.indptr[node + 1] as usize;
            edges.filter(|&edge| owners[csc.indices.get(edge) as usize] != owners[node]).count() as u64
        };
        let train = dataset.split(Split::Train).iter().map(|&node| owners[node as usize]);
        let known = self.summary.clone().unwrap_or_else(|| PartitionSummary {
            format: PARTITION_FORMAT,
            dataset: PartitionSource { name: String::new(), fingerprint: String::new() },
            parts: self.parts,
            method: GIVEN.to_owned(),
            seed: 0,
            hops,
            nodes: self.sizes(),
            train: self.counts(train),
            blocks: None,
            edge_cut: 0,
            seconds: BTreeMap::new(),
            other: Map::new(),
            written: None,
        });
        let source = PartitionSource { name: dataset.name().to_owned(), fingerprint: dataset.fingerprint() };
        let edge_cut = (0..csc.nodes()).map(cut_of_list).sum();
        PartitionSummary { dataset: source, edge_cut, written: None, ..known }
    }

    fn counts(&self, parts: impl IntoIterator<Item = u16>) -> Vec<u64> {
        let mut counts = vec![0; self.parts as usize];
        parts.into_iter().for_each(|part| counts[usize::from(part)] += 1);
        counts
    }
}

/// Whether a directory holds a partition.
#[must_use]
pub fn is_partition(directory: &Path) -> bool {
    directory.join(PARTITION_SUMMARY).is_file()
}

/// The path of the description of the map at `path`.
fn summary_path(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.join(PARTITION_SUMMARY),
        false => path.with_file_name(PARTITION_SUMMARY),
    }
}

fn differing(key: &'static str, said: &[u64], found: &[u64]) -> Option<MapProblem> {
    let part = said.iter().zip(found).position(|(said, found)| said != found)?;
    Some(MapProblem::Count { key, part, said: said[part], found: found[part] })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A graph of five nodes, of which three train; `order` renumbers them.
    fn dataset(directory: &Path, order: Option<&[i64]>) -> Dataset {
        std::fs::create_dir_all(directory).unwrap();
        let write = |name: &str, values: &[i64]| {
            write_array(&directory.join(name), NpyType::I64, &[], values).unwrap();
        };
        write("indptr.npy", &[0, 1, 2, 3, 4, 5]);
        write("indices.npy", &[1, 2, 3, 4, 0]);
        write("label.npy", &[0; 5]);
        // Nodes 0, 1 and 3 train; with the ids that `order` gives them.
        let place = |node: i64| match order {
            Some(order) => order.iter().position(|id| *id == node).unwrap() as i64,
            None => node,
        };
        write("train_idx.npy", &[0, 1, 3].map(place));
        write("valid_idx.npy", &[]);
        write("test_idx.npy", &[]);
        if let Some(order) = order {
            write("orig_id.npy", order);
        }
        write_array(&directory.join("feat.npy"), NpyType::F32, &[1], &[0_f32; 5]).unwrap();
        Dataset::open(directory).unwrap()
    }

    fn map(dataset: &Dataset) -> PartitionMap {
        let summary = PartitionSummary {
            format: PARTITION_FORMAT,
            dataset: PartitionSource { name: "five".to_owned(), fingerprint: dataset.fingerprint() },
            parts: 2,
            method: "range".to_owned(),
            seed: 0,
            hops: 2,
            nodes: vec![3, 2],
            train: vec![2, 1],
            blocks: None,
            edge_cut: 2,
            seconds: BTreeMap::new(),
            other: Map::new(),
            written: None,
        };
        PartitionMap { parts: 2, of: vec![0, 0, 0, 1, 1], summary: Some(summary) }
    }

    #[test]
    fn a_map_is_read_as_it_was_written_by_its_directory_or_its_file() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = dataset(&temp.path().join("data"), None);
        let (out, mut written) = (temp.path().join("out"), map(&dataset));
        std::fs::create_dir(&out).unwrap();
        // Keys of other writers are kept.
        let other =
            serde_json::json!([{"method": "bgl", "cut": 0.5, "less": -1, "none": null, "is": [true, "x"]}]);
        written.summary.as_mut().unwrap().other.insert("candidates".to_owned(), other);
        written.write(&out).unwrap();
        assert_eq!(PartitionMap::open(&out, &dataset).unwrap(), written);
        assert_eq!(PartitionMap::open(&out.join(PARTITION), &dataset).unwrap(), written);
        assert!(is_partition(&out) && !is_partition(dataset.path()));
        assert!(written.write(&out).is_err(), "it is there already");

        let alone = temp.path().join("alone.npy");
        std::fs::copy(out.join(PARTITION), &alone).unwrap();
        let alone = PartitionMap::open(&alone, &dataset).unwrap();
        assert_eq!((alone.parts, alone.of, alone.summary), (2, written.of, None));
    }

    #[test]
    fn a_map_that_marks_a_node_without_a_part_is_refused_with_the_node() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("map.npy");
        write_array(&path, NpyType::U16, &[], &[0_u16, 1, u16::MAX]).unwrap();
        let error = PartitionMap::open_alone(&path, None).unwrap_err().to_string();
        assert!(
            error.contains("node 2 has the part 65535, but parts are numbered from 0 to 65534"),
            "{error}"
        );
    }

    #[test]
    fn a_map_is_indexed_by_original_ids() {
        let temp = tempfile::tempdir().unwrap();
        let reordered = dataset(&temp.path().join("data"), Some(&[3, 0, 4, 1, 2]));
        let map = map(&reordered);
        assert_eq!(map.by_node(&reordered).unwrap()[..], [1, 0, 1, 0, 0]);
        assert_eq!(map.split(&reordered, Split::Train).unwrap(), [0, 0, 1]);
        map.write(temp.path()).unwrap();
        PartitionMap::open(temp.path(), &reordered).unwrap();

        let part = dataset(&temp.path().join("part"), Some(&[3, 0, 9, 1, 2]));
        let refused = map.by_node(&part).unwrap_err().to_string();
        assert!(refused.contains("original id 9, outside the map of 5 nodes"), "{refused}");
    }

    #[test]
    fn what_is_of_another_dataset_or_was_edited_is_refused_with_what_differs() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = dataset(&temp.path().join("data"), None);
        let refused = |name: &str, change: &dyn Fn(&mut PartitionMap)| {
            let mut map = map(&dataset);
            change(&mut map);
            let out = temp.path().join(name);
            std::fs::create_dir(&out).unwrap();
            map.write(&out).unwrap();
            let error = PartitionMap::open(&out, &dataset).unwrap_err();
            assert!(error.is_bad_input(), "{error}");
            error.to_string()
        };
        let said = |map: &mut PartitionMap, change: &dyn Fn(&mut PartitionSummary)| {
            change(map.summary.as_mut().unwrap());
        };
        let message = refused("fingerprint", &|map| said(map, &|s| s.dataset.fingerprint = "00".into()));
        assert!(message.contains("the dataset 00 (five)") && message.contains(&dataset.fingerprint()));
        let message = refused("count", &|map| map.of[0] = 1);
        assert!(message.contains("\"nodes\" of part 0 is 3, but partition.npy has 2"), "{message}");
        let message = refused("train", &|map| map.of.swap(2, 3));
        assert!(message.contains("\"train\" of part 0 is 2, but partition.npy has 3"), "{message}");
        let message = refused("part", &|map| map.of[4] = 7);
        assert!(message.contains("node 4 is in part 7, but there are 2 parts"), "{message}");
        let message = refused("length", &|map| map.of.truncate(4));
        assert!(message.contains("it has to be [5], a part for each node"), "{message}");
        let message = refused("format", &|map| said(map, &|s| s.format = 9));
        assert!(message.contains("\"format\" is 9"), "{message}");
        let message = refused("parts", &|map| said(map, &|s| s.parts = 0));
        assert!(message.contains("\"parts\" is 0"), "{message}");
        let message = refused("entries", &|map| said(map, &|s| s.train.truncate(1)));
        assert!(message.contains("\"train\" has 1 entries, it needs 2"), "{message}");
        let missing = PartitionMap::open(dataset.path(), &dataset).unwrap_err();
        assert!(missing.to_string().contains(PARTITION_SUMMARY) && missing.is_bad_input(), "{missing}");
    }
}
