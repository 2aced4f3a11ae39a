//! The graph and some parts of a partition in ranges, compared with its description.

use std::path::{Path, PathBuf};

use uva_mem::files::read_regular;

use super::arrays::Tables;
use super::directory::{RangeGraph, RangeRows};
use crate::description::part_of::{MOST_BYTES, fingerprint_of};
use crate::description::ranges_of::RangesOf;
use crate::kinds::own_rows::DividedFiles;
use crate::partition::parts::{RANGES, RangesSummary, WrittenRange};
use crate::partition::range_book::RangeBook;
use crate::partition::summary::{PARTITION_SUMMARY, summary_of};
use crate::{Csc, Dataset, GraphError, PartitionSummary, Split, Verify};
use uva_files::quote;

/// Why a partition cannot be opened as one in ranges. The file is `partition.json`.
#[derive(Debug, thiserror::Error)]
enum RangesProblem {
    #[error(
        "its layout is {found}, but this requires a partition in {RANGES} (`uvatrain partition --layout {RANGES}`)"
    )]
    Layout { found: String },
    #[error("\"boundaries\" {0}")]
    Book(#[from] crate::partition::range_book::BookProblem),
    #[error(
        "\"{key}\" of {directory} is {said}, but its files have {found}: they belong to another partition, or were edited"
    )]
    Differs { directory: String, key: &'static str, said: String, found: String },
}

/// A partition in ranges, with a subset of its parts open.
///
/// ```no_run
/// use std::path::Path;
/// use uva_graph::Verify;
/// use uva_graph::ranges::RangeParts;
///
/// # fn of_rank(rank: u32) -> Result<(), uva_graph::GraphError> {
/// let parts = RangeParts::open(Path::new("data/mine-4"), &[rank], Verify::Stamp)?;
/// let node = parts.graph().csc().indices.get(0);
/// match parts.row(node) {
///     Some(row) => println!("{node} has its row here: {} bytes", row.len()),
///     None => println!("ask part {} for its row {}", parts.book().owner(node), parts.book().local_row(node)),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RangeParts {
    path: PathBuf,
    summary: PartitionSummary,
    said: RangesSummary,
    book: RangeBook,
    graph: RangeGraph,
    /// Rows indexed by part; `None` for parts that are not open.
    rows: Vec<Option<RangeRows>>,
}

impl RangeParts {
    /// Opens the partition in the directory `path` with these parts. `partition.json`, the graph and the directories of
    /// these parts are required, and nothing else.
    ///
    /// Boundaries are compared with part sizes; shapes, fingerprints and the partition's identity are checked for
    /// everything opened. The graph is checked according to `how`; values of rows are not checked.
    ///
    /// # Errors
    /// If a file is missing or wrong, or two files are inconsistent: with the file, the value found and the expected
    /// value. [`GraphError::Usage`] if a part does not exist.
    pub fn open(path: &Path, parts: &[u32], how: Verify) -> Result<RangeParts, GraphError> {
        let description = path.join(PARTITION_SUMMARY);
        let refuse = |problem: RangesProblem| GraphError::invalid(&description, problem);
        let text = read_regular(&description, MOST_BYTES).map_err(GraphError::io(&description, "read"))?;
        let summary = summary_of(&description, &text)?;
        let Some(said) = summary.ranges().cloned() else {
            let found = summary.layout().map_or("that of a map alone".to_owned(), quote::shown);
            return Err(refuse(RangesProblem::Layout { found }));
        };
        let book = RangeBook::checked(said.boundaries.clone(), &summary.nodes);
        let book = book.map_err(|problem| refuse(problem.into()))?;
        let all = book.parts();
        let partition = fingerprint_of(&text);
        let of = |part: Option<u32>, of: &RangesOf, directory: &str| {
            let range = part.map_or(0..book.nodes(), |part| book.range(part as usize));
            let number =
                |part: Option<u32>| part.map_or("the graph".to_owned(), |part| format!("part {part}"));
            differing(
                directory,
                [
                    ("partition", &partition, &of.partition),
                    ("part", &number(part), &number(of.part)),
                    ("parts", &all.to_string(), &of.parts.to_string()),
                    ("first", &range.start.to_string(), &of.first.to_string()),
                    ("nodes", &(range.end - range.start).to_string(), &of.nodes.to_string()),
                ],
            )
        };
        let graph = RangeGraph::open(&path.join(&said.graph.dir), how)?;
        let edges = graph.csc().edges().to_string();
        let found = of(None, graph.of(), &said.graph.dir).or_else(|| {
            differing(
                &said.graph.dir,
                [
                    ("edges", &said.graph.edges.to_string(), &edges),
                    ("fingerprint", &said.graph.fingerprint, &graph.fingerprint()),
                ],
            )
        });
        if let Some(problem) = found {
            return Err(refuse(problem));
        }
        let mut rows: Vec<Option<RangeRows>> = (0..all).map(|_| None).collect();
        for &part in parts {
            let Some(written) = said.written.get(part as usize) else {
                let message = format!("{part}: {} has the parts 0 to {}", path.display(), all - 1);
                return Err(GraphError::usage("part", message));
            };
            let opened = RangeRows::open(&path.join(&written.dir))?;
            let range = book.range(part as usize);
            let ends = graph.csc().indptr;
            let edges = ends[range.end as usize] - ends[range.start as usize];
            let with_rows = opened.edge_features().map_or(edges, |table| table.rows as i64);
            let found = of(Some(part), opened.of(), &written.dir).or_else(|| {
                differing(
                    &written.dir,
                    [
                        ("edges", &written.edges.to_string(), &edges.to_string()),
                        ("edges", &written.edges.to_string(), &with_rows.to_string()),
                        ("fingerprint", &written.fingerprint, &opened.fingerprint()),
                    ],
                )
            });
            if let Some(problem) = found {
                return Err(refuse(problem));
            }
            rows[part as usize] = Some(opened);
        }
        Ok(RangeParts { path: path.to_owned(), summary, said, book, graph, rows })
    }

    /// Like [`open`](Self::open), with all parts whose directories exist.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_those_here(path: &Path, how: Verify) -> Result<RangeParts, GraphError> {
        let summary = PartitionSummary::read(path)?;
        let written = summary.ranges().map_or(&[][..], |said| &said.written);
        let is_here = |(_, of): &(u32, &WrittenRange)| path.join(&of.dir).is_dir();
        let here: Vec<u32> = (0..).zip(written).filter(is_here).map(|(part, _)| part).collect();
        RangeParts::open(path, &here, how)
    }

    /// A dataset of the graph and the rows of one part; other ranks have the other rows.
    ///
    /// # Errors
    /// [`GraphError::Usage`] if that part is not open.
    pub fn dataset(mut self, part: u32) -> Result<Dataset, GraphError> {
        let Some(rows) = self.rows.get_mut(part as usize).and_then(Option::take) else {
            return Err(GraphError::usage("part", format!("{part}: its rows are not open")));
        };
        let RangesOf { dataset: name, fingerprint, .. } = self.graph.of().clone();
        let path = self.graph.path().to_owned();
        let (graph, checks) = self.graph.into_files();
        // Edge features are not exchanged between ranks, so the dataset has none.
        let Tables { features: (table, element), edge_features: _ } = rows.into_tables();
        let (part, boundaries) = (part as usize, self.book.boundaries().to_vec());
        let files = DividedFiles { graph, fingerprint, part, boundaries, table, element };
        Ok(Dataset::of_divided(path, name, files, checks))
    }

    /// The partition's directory, as passed by the caller.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The description.
    #[must_use]
    pub fn summary(&self) -> &PartitionSummary {
        &self.summary
    }

    /// The keys of the description about ranges.
    #[must_use]
    pub fn written(&self) -> &RangesSummary {
        &self.said
    }

    /// The book: the owner of each id and the location of its row.
    #[must_use]
    pub fn book(&self) -> &RangeBook {
        &self.book
    }

    /// The part that owns `id`.
    ///
    /// # Panics
    /// If `id` is not a node.
    #[inline]
    #[must_use]
    pub fn owner(&self, id: i64) -> usize {
        self.book.owner(id)
    }

    /// The row of `id` in the tables of its owner.
    ///
    /// # Panics
    /// If `id` is not a node.
    #[inline]
    #[must_use]
    pub fn local_row(&self, id: i64) -> usize {
        self.book.local_row(id)
    }

    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &RangeGraph {
        &self.graph
    }

    /// The lists of the graph.
    #[must_use]
    pub fn csc(&self) -> Csc<'_> {
        self.graph.csc()
    }

    /// The nodes of a split, in the order of the source dataset.
    #[must_use]
    pub fn split(&self, split: Split) -> &[i64] {
        self.graph.split(split)
    }

    /// The rows of a part; `None` if it is not open, or there is not such a part.
    #[must_use]
    pub fn rows(&self, part: usize) -> Option<&RangeRows> {
        self.rows.get(part)?.as_ref()
    }

    /// The parts that are open, ascending.
    pub fn here(&self) -> impl Iterator<Item = usize> + '_ {
        self.rows.iter().enumerate().filter(|(_, rows)| rows.is_some()).map(|(part, _)| part)
    }

    /// The feature row of `id`; `None` if its part is not open.
    ///
    /// # Panics
    /// If `id` is not a node.
    #[must_use]
    pub fn row(&self, id: i64) -> Option<&[u8]> {
        let table = self.rows(self.owner(id))?.features();
        let (row, bytes) = (self.local_row(id), table.row_bytes());
        Some(&table.bytes[row * bytes..(row + 1) * bytes])
    }
}

/// The first pair of described and found values that differ.
fn differing<const N: usize>(
    directory: &str,
    compared: [(&'static str, &String, &String); N],
) -> Option<RangesProblem> {
    let (key, said, found) = compared.into_iter().find(|(_, said, found)| said != found)?;
    let (said, found) = (quote::shown(said), quote::shown(found));
    Some(RangesProblem::Differs { directory: quote::shown(directory), key, said, found })
}
