//! Writes the graph and the parts of a partition in ranges.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use uva_mem::files::read_regular;

use super::arrays::{EDGE_FEATURES, FEATURES, Tables, bytes_in, fingerprint_of_graph, hash_of_graph};
use crate::description::names;
use crate::description::part_of::{MOST_BYTES, fingerprint_of};
use crate::description::ranges_of::RangesOf;
use crate::hash::ArrayHash;
use crate::npy::{HEADER_BYTES, NpyArray};
use crate::part::directory_name;
use crate::partition::parts::{GRAPH, RANGES, RangesSummary, WrittenGraph, WrittenParts, WrittenRange};
use crate::partition::range_book::RangeBook;
use crate::partition::summary::PARTITION_SUMMARY;
use crate::reorder::{Copy, NodeOrder};
use crate::storage::files::{RowArray, edge_table, table_element};
use crate::storage::graph_files::GraphFiles;
use crate::{DATASET, Dataset, GraphError, Labels, Meta, PartitionMap, Progress, Split};
use uva_files::disk_space::{self, BytesOnDisk};
use uva_files::staging::{StagedDirectory, flush};

/// Bytes of the header of a `.npy` file.
const HEADER: u64 = HEADER_BYTES as u64;

/// Bytes per part of the description and of a directory's `meta.json`, rounded up.
const DESCRIPTIONS: u64 = 16 << 10;

/// Divides `dataset` by a map and writes the partition to the directory `out`, which must not exist.
///
/// The nodes of part `p` come before those of part `p + 1`, and within a part in ascending order of original ids. So
/// the files depend on the graph, the map and the order of the splits alone, and not on the order of the dataset.
///
/// `progress` is called periodically, on this thread; the current rayon pool does the work. Rows are copied in pieces
/// of some 64 MiB. In addition, writing takes [`memory_bytes`].
///
/// # Errors
/// If the map does not fit, the dataset is a part itself, or `out` exists. If an id of the dataset is not a node (its
/// stamp is older than the file), the disk has too little space, or a write fails. No files remain after an error.
///
/// # Panics
/// If the dataset was opened with [`Verify::HeadersOnly`](crate::Verify::HeadersOnly) and its content is wrong.
pub fn write_ranges(
    dataset: &Dataset,
    map: &PartitionMap,
    out: &Path,
    progress: &dyn Fn(Progress),
) -> Result<RangesSummary, GraphError> {
    check(dataset, map)?;
    check_space(dataset, map.parts, out)?;
    let staged = StagedDirectory::new(out, &DATASET)?;
    let written = stage_ranges(dataset, map, staged.path(), progress)?;
    staged.commit()?;
    Ok(written)
}

/// The memory that writing takes in addition to the map and the pieces of rows, in bytes.
#[must_use]
pub fn memory_bytes(dataset: &Dataset) -> u64 {
    let nodes = dataset.nodes() as u64;
    // While the order is made: owners, the node at each place in 8 bytes and again in 4, and for a reordered dataset
    // the place of each original id. Afterwards: the order, places and ends of lists.
    let inverse = if dataset.original_ids().is_some() { 8 } else { 0 };
    let id = if nodes <= 1 << 32 { 4 } else { 8 };
    nodes * (2 + 8 + inverse + id).max(2 + 8 + 2 * id)
}

/// Checks that the disk of `out` has space for a partition of `dataset` into `parts` parts.
///
/// # Errors
/// [`GraphError::Lacking`], with the required space.
pub fn check_space(dataset: &Dataset, parts: u32, out: &Path) -> Result<(), GraphError> {
    let (nodes, edges) = (dataset.nodes() as u64, dataset.edges() as u64);
    let splits: u64 = Split::ALL.iter().map(|split| dataset.split(*split).len() as u64).sum();
    let of_node = 8 + 8 + dataset.labels().row_bytes() as u64 + dataset.table().row_bytes() as u64;
    let edge_row = dataset.edge_features().map_or(0, |table| table.row_bytes());
    let of_edge = (dataset.files().graph.edge_bytes() + edge_row) as u64;
    let of_parts = u64::from(parts) * (2 * HEADER + DESCRIPTIONS);
    // The map has 2 bytes a node.
    let bytes = nodes * (of_node + 2) + edges * of_edge + 8 * splits + 10 * HEADER + DESCRIPTIONS + of_parts;
    Ok(disk_space::check(
        out,
        bytes,
        format_args!("the graph and the rows of {parts} parts take {}", BytesOnDisk(bytes)),
    )?)
}

/// Checks that the dataset and the map can be written in ranges.
fn check(dataset: &Dataset, map: &PartitionMap) -> Result<(), GraphError> {
    let refuse = |option: &str, message: String| Err(GraphError::usage(option, message));
    let path = dataset.path().display();
    if dataset.part().is_some() {
        return refuse("DATA", format!("{path} is a part itself: partition the dataset that it comes from"));
    }
    let (given, nodes) = (map.of.len(), dataset.nodes());
    if given != nodes {
        return refuse("map", format!("it has {given} entries, but {path} has {nodes} nodes"));
    }
    Ok(())
}

/// Like [`write_ranges`], but writes into the existing `directory`, which has none of these files. For callers that add
/// files before they rename it. Disk space is not checked; see [`check_space`].
///
/// # Errors
/// As [`write_ranges`], but files remain.
///
/// # Panics
/// As [`write_ranges`].
pub fn stage_ranges(
    dataset: &Dataset,
    map: &PartitionMap,
    directory: &Path,
    progress: &dyn Fn(Progress),
) -> Result<RangesSummary, GraphError> {
    check(dataset, map)?;
    dataset.check_edges()?;
    dataset.check_copy()?;
    let book = RangeBook::of_sizes(&map.sizes());
    let mut description = map.described(dataset, &map.by_node(dataset)?, 0);
    let order = order_of(dataset, map, &book)?;
    let copy = Copy::of(dataset, &order);
    let meta = meta_of(dataset);

    let graph = directory.join(GRAPH);
    fs::create_dir(&graph).map_err(GraphError::io(&graph, "create"))?;
    copy.graph(&graph, progress)?;
    let files = GraphFiles::open(&graph, meta.clone())?;
    let mut written = RangesSummary {
        layout: RANGES.to_owned(),
        boundaries: book.boundaries().to_vec(),
        graph: WrittenGraph {
            dir: GRAPH.to_owned(),
            edges: dataset.edges() as u64,
            bytes: bytes_in(&graph)?,
            fingerprint: fingerprint_of_graph(&files),
            hash: hash_of_graph(&files),
        },
        written: Vec::new(),
    };
    let rows = Rows { dataset, copy: &copy, book: &book, meta: &meta, done: Cell::new(0), progress };
    for part in 0..book.parts() {
        let sizes = rows.write(part, &files, &directory.join(directory_name(part)))?;
        written.written.push(sizes);
    }

    let path = directory.join(PARTITION_SUMMARY);
    description.written = Some(WrittenParts::Ranges(written.clone()));
    PartitionMap { parts: map.parts, of: map.of.clone(), summary: Some(description) }.write(directory)?;
    let text = read_regular(&path, MOST_BYTES).map_err(GraphError::io(&path, "read"))?;
    let of = RangesOf {
        part: None,
        parts: map.parts,
        first: 0,
        nodes: book.nodes(),
        dataset: dataset.name().to_owned(),
        fingerprint: dataset.fingerprint(),
        partition: fingerprint_of(&text),
    };
    describe(&graph, &meta, of.clone(), GRAPH)?;
    for (part, said) in written.written.iter().enumerate() {
        let range = book.range(part);
        let of = RangesOf { part: Some(part as u32), first: range.start, nodes: said.rows, ..of.clone() };
        describe(&directory.join(&said.dir), &meta, of, &said.dir)?;
    }
    Ok(written)
}

/// Writes `meta.json` of a directory with complete arrays, and syncs the directory to disk.
fn describe(directory: &Path, meta: &Meta, of: RangesOf, name: &str) -> Result<(), GraphError> {
    let name = Some(format!("{}-{name}", of.dataset));
    Meta { name, ranges: Some(of), ..meta.clone() }.write(directory)?;
    Ok(flush(directory)?)
}

/// The metadata of the dataset, without keys that no longer hold. Feature types and the number of classes are kept.
fn meta_of(dataset: &Dataset) -> Meta {
    let mut meta = Meta { part: None, ranges: None, ..dataset.meta().in_format_1() };
    if let (Labels::Single(_), classes @ 1..) = (dataset.labels(), dataset.classes()) {
        meta.classes = Some(classes as u64);
    }
    meta
}

/// The nodes part by part, and within a part in ascending order of original ids.
fn order_of(dataset: &Dataset, map: &PartitionMap, book: &RangeBook) -> Result<NodeOrder, GraphError> {
    // The node of each original id. The map has an entry for each of the ids, and they are distinct, so every id
    // occurs.
    let node_of = dataset.nodes_by_original_id();
    let mut next = book.boundaries().to_vec();
    let mut first = vec![0_i64; dataset.nodes()];
    for (original, &part) in map.of.iter().enumerate() {
        let place = &mut next[usize::from(part)];
        first[*place as usize] = node_of.as_ref().map_or(original, |nodes| nodes[original]) as i64;
        *place += 1;
    }
    NodeOrder::from_first(dataset.nodes(), &first)
}

/// The rows of parts while they are written.
struct Rows<'a> {
    dataset: &'a Dataset,
    copy: &'a Copy<'a>,
    book: &'a RangeBook,
    meta: &'a Meta,
    /// Rows written so far, for the progress of all parts together.
    done: Cell<u64>,
    progress: &'a dyn Fn(Progress),
}

impl Rows<'_> {
    /// Writes the tables of a part into `directory`, which must not exist. `graph` is the graph in the new order.
    fn write(&self, part: usize, graph: &GraphFiles, directory: &Path) -> Result<WrittenRange, GraphError> {
        fs::create_dir(directory).map_err(GraphError::io(directory, "create"))?;
        let ids = self.book.range(part);
        let places = ids.start as usize..ids.end as usize;
        let (owned, total, done, all) =
            (ids.end - ids.start, self.book.nodes(), self.done.get(), self.progress);
        let told = |stage: &'static str| {
            move |progress: Progress| {
                let share = u128::from(progress.done) * u128::from(owned);
                let rows = share.checked_div(u128::from(progress.total)).unwrap_or(0) as u64;
                all(Progress { stage, done: done + rows, total });
            }
        };
        let files = self.dataset.files();
        let path = directory.join(names::FEATURES);
        let mut of_nodes = ArrayHash::new(FEATURES);
        self.copy.rows(
            &files.table().array,
            places.clone(),
            ("features", &path),
            &told("features"),
            |bytes| {
                of_nodes.add(bytes);
            },
        )?;
        let mut of_edges = ArrayHash::new(EDGE_FEATURES);
        if let Some(RowArray { array: rows, .. }) = files.first_edge_table() {
            let path = directory.join(names::EDGE_FEATURES);
            let progress = told("edge features");
            self.copy.edge_rows(rows, places.clone(), ("edge features", &path), &progress, |bytes| {
                of_edges.add(bytes);
            })?;
        }
        self.done.set(done + owned);
        let [first, end] = [places.start, places.end].map(|place| self.copy.ends()[place] as usize);
        let features = NpyArray::open(&path)?;
        let element = table_element(directory, self.meta, &features, (places.len(), "as it was written"))?;
        let edge_features = edge_table(directory, self.meta, (end - first, "as it was written"))?;
        let tables = Tables { features: (features, element), edge_features };
        let [train, valid, test] = Split::ALL.map(|split| {
            let ids = graph.split(split).iter();
            ids.filter(|id| places.contains(&(**id as usize))).count() as u64
        });
        Ok(WrittenRange {
            dir: directory_name(part),
            rows: places.len() as u64,
            edges: (end - first) as u64,
            train,
            valid,
            test,
            bytes: bytes_in(directory)?,
            fingerprint: tables.fingerprint(),
            hash: format!("{:016x}", of_nodes.finish().wrapping_add(of_edges.finish())),
        })
    }
}
