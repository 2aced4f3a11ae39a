//! The origin of the rows of a run's batches, as data: its branches, their properties and their memory.

use std::fmt;

use uva_cuda::memory::PinPages;
use uva_graph::{Dataset, NodeType};
use uva_rows::cache::eviction::Eviction;
use uva_rows::cache::map_bytes;
use uva_rows::kept_row_bytes;

use super::buffers::{begun_room, spliced_room, training_bytes, upload_room};
use crate::control::aggregate_counts::SumsMade;
use crate::machine::memory::{MemoryHolder, MemoryKind, MemoryLine};
use crate::options::reader::DiskReader;
use crate::plan::RunPlan;

/// The origin of the rows of a run's batches. A leaf is a place from which rows are read. A branch is an operation on
/// the rows of the tree below it, before they reach a feature slot. The tree of a run is [chosen](Self::of) from its
/// plan alone, so every role has the same one.
///
/// The root of a run with feature slots on a GPU is a source that a kernel or a copy reads (`Pinned`, `Device`,
/// `Staged`, `Split`, `Spliced`, or `Cached` over `Pinned`), one of the branches `Upload`, `Begun` and
/// `SummedOnDevice`, `Tables` over `Direct` or `Device` for a hop set, or `Types` of `Pinned` or `Device`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowTree {
    /// A mapped file.
    Mapped,
    /// A copy of the file in memory, on 2 MiB pages.
    Copied,
    /// A file, read for each batch without the system's page cache.
    File(DiskReader),
    /// The rows of this rank from its mapped file, and those of other ranks through the exchange.
    Remote,
    /// A table in page-locked memory, which kernels read over the link.
    Pinned,
    /// A table in the memory of the GPU.
    Device,
    /// A file from which cuFile reads into feature slots.
    Direct,
    /// A cache of rows before a tree: in the memory of the GPU if a kernel reads it, otherwise in host memory.
    Cached(RowCacheKind, Box<Self>),
    /// Rows of batches kept in host memory, before a file.
    LookAhead {
        /// Maximum number of rows that are kept.
        rows: usize,
        /// Whether the rows of later batches are read ahead.
        reads_ahead: bool,
        /// The file, or a cache of chosen rows before it.
        of: Box<Self>,
    },
    /// Rows widened to float32.
    Widened(Box<Self>),
    /// Sums by the lists of the outermost layer, made by CPU threads.
    Summed(Box<Self>),
    /// This many tables of a hop set, each from the tree below.
    Tables(usize, Box<Self>),
    /// The rows of node types, of each type with features from its own tree.
    Types(Vec<(NodeType, Self)>),
    /// Rows of a hop set by split: training rows from one tree, rows of the other splits from another.
    BySplit {
        /// Training rows.
        train: Box<Self>,
        /// Rows of the validation and test splits.
        others: Box<Self>,
    },
    /// Rows that CPU threads gather by id into page-locked memory, copied to the slot.
    Staged(Box<Self>),
    /// The CPU's work on a batch's rows in page-locked memory, copied to the slot: rows, sums, or rows of hops.
    Upload(Box<Self>),
    /// Some of a batch's rows from one tree, and the others from another at the same time.
    Split(Box<Self>, Box<Self>),
    /// Rows in a cache on the GPU, together with the other rows from the tree below, copied to the GPU.
    Spliced(Box<Self>),
    /// Sums that CPU threads begin with the rows of the tree below, and a kernel continues with the rows in a cache on
    /// the GPU.
    Begun(Box<Self>),
    /// Sums that a kernel makes of gathered rows.
    SummedOnDevice(Box<Self>),
}

/// The rows that a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowCacheKind {
    /// Rows that do not change.
    Chosen,
    /// Rows that batches read, until others replace them.
    Evicting {
        /// The eviction policy.
        policy: &'static Eviction,
        /// Maximum number of rows.
        rows: usize,
    },
}

impl RowTree {
    /// The trees directly below.
    fn below(&self) -> impl Iterator<Item = &Self> {
        let (first, second) = match self {
            Self::Types(_)
            | Self::Mapped
            | Self::Copied
            | Self::File(_)
            | Self::Remote
            | Self::Pinned
            | Self::Device
            | Self::Direct => (None, None),
            Self::Cached(_, of)
            | Self::LookAhead { of, .. }
            | Self::Widened(of)
            | Self::Summed(of)
            | Self::Tables(_, of)
            | Self::Staged(of)
            | Self::Upload(of)
            | Self::Spliced(of)
            | Self::Begun(of)
            | Self::SummedOnDevice(of) => (Some(of), None),
            Self::Split(first, second) | Self::BySplit { train: first, others: second } => {
                (Some(first), Some(second))
            }
        };
        let types = match self {
            Self::Types(types) => &types[..],
            _ => &[],
        };
        let of_types = types.iter().map(|(_, tree)| tree);
        first.into_iter().chain(second).map(|tree| &**tree).chain(of_types)
    }

    /// Whether `is` holds for this tree, or for one below.
    pub(crate) fn any(&self, is: &dyn Fn(&Self) -> bool) -> bool {
        is(self) || self.below().any(|tree| tree.any(is))
    }

    /// The file itself in place of a copy, for a few rows.
    pub(crate) fn in_place(self) -> Self {
        match self {
            Self::Copied => Self::Mapped,
            other => other,
        }
    }

    /// Whether rows are read from disk, by any reader.
    #[must_use]
    pub fn reads_disk(&self) -> bool {
        self.any(&|tree| matches!(tree, Self::File(_) | Self::Direct))
    }

    /// The place where the producer sums; `None` if it does not sum.
    #[must_use]
    pub fn sums(&self) -> Option<SumsMade> {
        match self {
            Self::Summed(_) => Some(SumsMade::Host),
            Self::Upload(of) => of.sums().map(|_| SumsMade::HostForGpu),
            Self::Begun(_) => Some(SumsMade::HostAndCache),
            Self::SummedOnDevice(_) => Some(SumsMade::Gpu),
            _ => None,
        }
    }

    /// Maximum number of rows of tables on disk that are kept in host memory; `None` if rows are not kept.
    #[must_use]
    pub fn kept_rows(&self) -> Option<usize> {
        match self {
            Self::LookAhead { rows, .. } => Some(*rows),
            _ => self.below().filter_map(Self::kept_rows).reduce(|all, rows| all + rows),
        }
    }

    /// The tree below the cache of chosen rows; `None` without such a cache.
    pub(crate) fn behind_chosen(&self) -> Option<&Self> {
        match self {
            Self::Cached(RowCacheKind::Chosen, of) => Some(of),
            _ => self.below().find_map(Self::behind_chosen),
        }
    }

    /// The cache in the memory of the GPU that a kernel reads together with this tree's rows, if there is one.
    pub(crate) fn device_cache(&self) -> Option<RowCacheKind> {
        match self {
            Self::Cached(kind, of) if **of == Self::Pinned => Some(*kind),
            Self::Begun(_) => Some(RowCacheKind::Chosen),
            _ => self.below().find_map(Self::device_cache),
        }
    }

    /// The memory for rows in the run of this plan, which has this tree: files, tables, and buffers before the slots.
    /// The rows of a cache are not included.
    #[must_use]
    pub fn memory(&self, dataset: &Dataset, plan: &RunPlan) -> Vec<MemoryLine> {
        let line = MemoryLine::new;
        let table = dataset.feature_rows().map_or(0, |table| table.bytes.len() as u64);
        let of_slots = |bytes: usize| (bytes as u64).saturating_mul(plan.options.feature_slots as u64);
        let with = |of: &Self, lines: Vec<MemoryLine>| [of.memory(dataset, plan), lines].concat();
        let lines = match self {
            Self::Mapped => vec![MemoryLine::once("file of the features", MemoryKind::Mapped, table)],
            Self::Copied => {
                let file = MemoryLine::once("file of the features", MemoryKind::Mapped, table);
                vec![file, line("copy of the features", MemoryKind::Host, table)]
            }
            Self::File(_) | Self::Remote | Self::Direct => Vec::new(),
            Self::Pinned => vec![pinned(plan, "feature table", table)],
            Self::Device => vec![line("feature table", MemoryKind::Device, table)],
            Self::Types(types) => {
                let tables = |is: &dyn Fn(&Self) -> bool| -> u64 {
                    let such = types.iter().filter(|(_, tree)| tree.any(is));
                    such.filter_map(|(of, _)| dataset.rows(*of)).map(|table| table.bytes.len() as u64).sum()
                };
                let kept = types.iter().map(|(of, tree)| {
                    let shape = dataset.table_of(*of).map(|table| (dataset.nodes_of(*of), table.row_bytes()));
                    tree.kept_rows().zip(shape).map_or(0, |(rows, shape)| kept_bytes(rows, shape))
                });
                vec![
                    pinned(plan, "feature tables", tables(&|tree| *tree == Self::Pinned)),
                    line("feature tables", MemoryKind::Device, tables(&|tree| *tree == Self::Device)),
                    MemoryLine::once(
                        "files of the features",
                        MemoryKind::Mapped,
                        tables(&|tree| *tree == Self::Mapped),
                    ),
                    line("rows read ahead, at most", MemoryKind::Host, kept.sum()),
                ]
            }
            Self::Tables(_, of) => match **of {
                Self::Mapped => {
                    vec![MemoryLine::once(
                        "files of the hops",
                        MemoryKind::Mapped,
                        training_bytes(dataset, plan),
                    )]
                }
                Self::Device => {
                    vec![line("training rows", MemoryKind::Device, training_bytes(dataset, plan))]
                }
                _ => Vec::new(),
            },
            // Rows of the other splits are few, and used for a short time.
            Self::BySplit { train, .. } => {
                let staged = line("staging of rows", MemoryKind::Pinned, of_slots(upload_room(plan)));
                with(train, vec![staged])
            }
            Self::Cached(_, of) | Self::Widened(of) | Self::Summed(of) | Self::Staged(of) => {
                of.memory(dataset, plan)
            }
            Self::LookAhead { rows, of, .. } => {
                let bytes = kept_bytes(*rows, (plan.table_rows, plan.layout.table_row_bytes()));
                with(of, vec![line("rows read ahead, at most", MemoryKind::Host, bytes)])
            }
            Self::Upload(of) => {
                let what = if of.sums().is_some() { "staging of sums" } else { "staging of rows" };
                with(of, vec![line(what, MemoryKind::Pinned, of_slots(upload_room(plan)))])
            }
            // Pages that both read belong to the pinned table.
            Self::Split(first, _) => first.memory(dataset, plan),
            Self::Spliced(of) => {
                let room = spliced_room(plan);
                let rows = line("rows without the cached ones", MemoryKind::Device, room as u64);
                with(of, vec![rows, line("staging of rows", MemoryKind::Pinned, of_slots(room))])
            }
            Self::Begun(of) => {
                let room = of_slots(begun_room(plan));
                let sums = line("begun sums", MemoryKind::Device, room);
                with(of, vec![sums, line("staging of sums", MemoryKind::Pinned, room)])
            }
            Self::SummedOnDevice(of) => {
                let rows = plan.slot_room().nodes.saturating_mul(plan.layout.table_row_bytes());
                with(of, vec![line("rows that are summed", MemoryKind::Device, rows as u64)])
            }
        };
        lines.into_iter().filter(|line| line.bytes > 0).collect()
    }

    /// The places where the hits of a batch, and the rows that cross the link, are counted.
    pub(crate) fn counting(&self) -> Counting {
        Counting {
            // CPU threads count the rows that they bring. A kernel's report counts the hits that a kernel finds.
            hits_in_header: matches!(self, Self::Upload(_) | Self::Spliced(_)),
            // A cache below an upload is on the host's side of the link.
            hits_cross_link: matches!(self, Self::Upload(_)),
            crosses_link: !self.any(&|tree| *tree == Self::Device),
            from_disk: self.reads_disk(),
            sums: self.sums(),
        }
    }
}

/// The memory of `rows` rows kept of a table of this many rows, of this many bytes each, with their map.
fn kept_bytes(rows: usize, (table_rows, row_bytes): (usize, usize)) -> u64 {
    if rows == 0 { 0 } else { rows as u64 * kept_row_bytes(row_bytes) + map_bytes(table_rows) }
}

/// A page-locked table.
fn pinned(plan: &RunPlan, what: &'static str, bytes: u64) -> MemoryLine {
    let line = MemoryLine::new(what, MemoryKind::Pinned, bytes);
    // Pages in place are those of the file. Otherwise each process has a copy.
    let in_place = plan.backend.cuda().is_some_and(|cuda| cuda.table_pages == PinPages::InPlace);
    if in_place { MemoryLine { held: MemoryHolder::Once, ..line } } else { line }
}

/// The way in which a batch's rows are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counting {
    /// Whether the header of a batch on a GPU has its hits, rather than the report of its gather.
    pub hits_in_header: bool,
    /// Whether rows that hit a cache cross the link to the GPU as well.
    pub hits_cross_link: bool,
    /// Whether rows cross the link, if slots are on a GPU.
    pub crosses_link: bool,
    /// Whether rows are read from disk.
    pub from_disk: bool,
    /// The place where the producer sums, if it does.
    pub sums: Option<SumsMade>,
}

/// A line for people, from the place of reading to the slot.
impl fmt::Display for RowTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mapped => f.write_str("mapped file"),
            Self::Copied => f.write_str("copy of the file on 2 MiB pages"),
            Self::File(DiskReader::Auto) => f.write_str("file read for each batch"),
            Self::File(reader) => write!(f, "file read for each batch by {reader}"),
            Self::Remote => f.write_str("rows of this rank, the others by exchange"),
            Self::Pinned => f.write_str("page-locked table, read over the link by kernels"),
            Self::Device => f.write_str("table in GPU memory"),
            Self::Direct => f.write_str("files read into the slots by cuFile"),
            Self::Cached(RowCacheKind::Chosen, of) => write!(f, "{of}, with a cache of chosen rows"),
            Self::Cached(RowCacheKind::Evicting { policy, .. }, of) => {
                write!(f, "{of}, with an evicting cache ({})", policy.name)
            }
            Self::LookAhead { reads_ahead: true, of, .. } => write!(f, "{of}, read ahead"),
            Self::LookAhead { reads_ahead: false, of, .. } => {
                write!(f, "{of}, with rows kept as batches read them")
            }
            Self::Widened(of) => write!(f, "{of}, widened to float32"),
            Self::Summed(of) => write!(f, "{of}, summed by CPU threads"),
            Self::Tables(1, of) => write!(f, "1 table: {of}"),
            Self::Tables(tables, of) => write!(f, "{tables} tables: {of}"),
            Self::Types(types) => {
                let mut lines: Vec<(String, usize)> = Vec::new();
                for line in types.iter().map(|(_, tree)| tree.to_string()) {
                    match lines.iter_mut().find(|(known, _)| *known == line) {
                        Some((_, tables)) => *tables += 1,
                        None => lines.push((line, 1)),
                    }
                }
                for (at, (line, tables)) in lines.iter().enumerate() {
                    let (and, what) =
                        (if at == 0 { "" } else { "; " }, if *tables == 1 { "table" } else { "tables" });
                    write!(f, "{and}{tables} {what}: {line}")?;
                }
                if lines.is_empty() { f.write_str("no features") } else { Ok(()) }
            }
            Self::BySplit { train, others } => write!(f, "training rows: {train}; other rows: {others}"),
            Self::Staged(of) | Self::Upload(of) => write!(f, "{of}, copied to the GPU"),
            Self::Split(first, second) => write!(f, "shared between {first} and {second}"),
            Self::Spliced(of) => write!(f, "{of}, copied to the GPU next to cached rows"),
            Self::Begun(of) => write!(f, "{of}, and continued by a kernel with cached rows"),
            Self::SummedOnDevice(of) => write!(f, "{of}, summed by a kernel"),
        }
    }
}
