//! Where the CPU reads feature rows: from the mapped table, or from disk for each batch.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};
use uva_cuda::memory::HostMemory;
use uva_disk::{DiskError, ReaderKind, RowFile, TableShape};
use uva_graph::Dataset;
use uva_mem::files;
use uva_options::{OptionError, OptionValue, named};
use uva_rows::LOOK_AHEAD_MOST;

use crate::RuntimeError;
use crate::backend::Backend;

named! {
    /// Where feature rows are read.
    pub enum Features = Auto {
        /// From memory where the table fits into what is available, else from disk.
        Auto = "auto",
        /// From the mapped file, which the system keeps in memory as far as it can.
        Memory = "memory",
        /// From the file, for each batch anew and past the system's page cache.
        Disk = "disk",
    }
}

named! {
    /// How rows are read from disk.
    pub enum Reader = Auto {
        /// By the first of the others that the system allows.
        Auto = "auto",
        /// By io_uring: one thread, many reads under way.
        Uring = "uring",
        /// By several threads.
        Pread = "pread",
        /// From the mapped file, page by page.
        Mmap = "mmap",
    }
}

/// How many batches the producer looks ahead, where rows are read from disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LookAhead {
    /// As many as [`AUTO`](Self::AUTO), where the run's caches allow it.
    #[default]
    Auto,
    /// So many; 0 for none.
    Batches(usize),
}

impl LookAhead {
    /// The number that is taken unless one is given. The reads of two batches keep a disk busy while a third is handed
    /// over, and the fewest batch slots of any run have room for them.
    pub const AUTO: usize = 2;
}

impl FromStr for LookAhead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.parse() {
            Ok(batches) if batches <= LOOK_AHEAD_MOST => Ok(Self::Batches(batches)),
            _ => Err(format!("give a number of batches from 0 to {LOOK_AHEAD_MOST}, or auto")),
        }
    }
}

impl fmt::Display for LookAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Batches(batches) => write!(f, "{batches}"),
        }
    }
}

impl OptionValue for LookAhead {
    fn of_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Value {
        match self {
            Self::Auto => "auto".into(),
            Self::Batches(batches) => (*batches).into(),
        }
    }

    fn of_json(value: &Value) -> Option<Self> {
        match value.as_u64() {
            Some(batches) => Self::of_text(&batches.to_string()),
            None => Self::of_text(value.as_str()?),
        }
    }
}

impl Reader {
    fn kind(self) -> Option<ReaderKind> {
        match self {
            Self::Auto => None,
            Self::Uring => Some(ReaderKind::Uring),
            Self::Pread => Some(ReaderKind::Pread),
            Self::Mmap => Some(ReaderKind::Mmap),
        }
    }
}

/// Where rows are read, as a role needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowsFrom {
    Memory,
    Disk(Reader),
    /// With rows kept in memory as batches come, and read ahead of them.
    DiskAhead(Reader, KeptRows),
}

/// Rows of a table on disk that are kept in memory as batches come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptRows {
    /// At most so many.
    pub rows: usize,
    /// Whether rows are read ahead.
    pub look_ahead: bool,
}

/// Where the rows of a run are read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureChoice {
    /// Never [`Features::Auto`].
    pub(crate) features: Features,
    reason: String,
    disk: Option<DiskChoice>,
}

/// The reader that works here.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DiskChoice {
    reader: ReaderKind,
    how: String,
    passed_over: Vec<String>,
}

impl FeatureChoice {
    /// What these options come to on this machine, for a run on this backend. Tries the reader.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] where rows cannot come from disk; [`RuntimeError::Missing`] for a reader that the system
    /// refuses.
    pub fn new(
        (features, reader): (Features, Reader),
        dataset: &Dataset,
        backend: &Backend,
    ) -> Result<Self, RuntimeError> {
        let on_gpu = backend.device_slots().map(|_| backend.gather_name());
        let is_open = (features, reader) == (Features::Auto, Reader::Auto);
        let (features, reason) = match (features, on_gpu) {
            (Features::Disk, Some(gather)) => {
                let reason = format!(
                    "rows of disk are read by the CPU into host memory, and this run has `gather={gather}`: give \
                     `gather=cpu`, or leave `features` out"
                );
                return Err(OptionError::new("features", features, reason).into());
            }
            (Features::Auto, Some(gather)) => {
                (Features::Memory, format!("`gather={gather}` reads a table in memory"))
            }
            (Features::Disk, None) if dataset.hops().is_some() => {
                let reason =
                    format!("{FILES_OF_HOPS}, and its rows are not read from disk: leave `features` out");
                return Err(OptionError::new("features", features, reason).into());
            }
            (_, None) if dataset.hops().is_some() => (Features::Memory, FILES_OF_HOPS.to_owned()),
            (Features::Auto, None) if lies_in_memory(dataset) => {
                (Features::Memory, "the file system keeps the table in memory".to_owned())
            }
            (Features::Auto, None) => by_memory(dataset.features().bytes.len() as u64),
            (asked, _) => (asked, ASKED_FOR.to_owned()),
        };
        if features != Features::Disk {
            return Ok(Self { features, reason, disk: None });
        }
        match row_file(dataset, reader) {
            Ok(file) => {
                let passed_over = file.passed_over().to_vec();
                let disk = DiskChoice { reader: file.reader(), how: file.how(), passed_over };
                Ok(Self { features, reason, disk: Some(disk) })
            }
            // Nobody asked for the disk, and a mapped file is read everywhere.
            Err(RuntimeError::Missing(why)) if is_open => {
                let reason = format!("{reason}, and no reader works here: {why}");
                Ok(Self { features: Features::Memory, reason, disk: None })
            }
            Err(error) => Err(error),
        }
    }

    /// As the metrics' first line has it.
    #[must_use]
    pub fn in_force(&self) -> Value {
        let mut said = json!({ "from": self.features.name(), "reason": self.reason });
        if let Some(DiskChoice { reader, how, passed_over }) = &self.disk {
            said["reader"] = reader.name().into();
            said["how"] = how.as_str().into();
            said["passed_over"] = passed_over.as_slice().into();
        }
        said
    }

    /// Lines for people; none where rows are read from memory.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let Some(DiskChoice { reader, how, passed_over }) = &self.disk else { return Vec::new() };
        let remedy = match self.reason.as_str() {
            ASKED_FOR => "",
            _ => {
                ". Rows that several batches need are read for each: --host-cache auto keeps the most-read ones in memory, \
                 and --features memory maps the table"
            }
        };
        let first = format!("feature rows are read from disk by {reader} ({how}): {}{remedy}", self.reason);
        std::iter::once(first).chain(passed_over.iter().cloned()).collect()
    }
}

const ASKED_FOR: &str = "asked for";
const FILES_OF_HOPS: &str = "the files of a hop set are mapped";

/// Whether the feature table is on a file system in memory. What the system counts as available leaves such files out.
fn lies_in_memory(dataset: &Dataset) -> bool {
    dataset.features_file().is_some_and(|(path, _)| files::lies_in_memory(path))
}

/// Memory where a table of so many bytes fits into what is available.
fn by_memory(table: u64) -> (Features, String) {
    let gib = |bytes: u64| format!("{:.2} GiB", bytes as f64 / (1_u64 << 30) as f64);
    let Ok(memory) = HostMemory::read() else {
        return (Features::Memory, "the system does not say how much memory is available".to_owned());
    };
    let (available, bound) = memory.tightest_limit();
    let (features, fits) =
        if table <= available { (Features::Memory, "fits") } else { (Features::Disk, "does not fit") };
    let (table, available) = (gib(table), gib(available));
    (features, format!("the table of {table} {fits} into the {available} available of {bound}"))
}

/// Opens the dataset's feature table for reads from disk.
///
/// # Errors
/// [`RuntimeError::Missing`] for a reader that the system refuses; [`RuntimeError::Input`] for a file that is no longer
/// what was opened.
pub(crate) fn row_file(dataset: &Dataset, reader: Reader) -> Result<RowFile, RuntimeError> {
    let (path, offset) =
        dataset.features_file().ok_or_else(|| RuntimeError::Input(FILES_OF_HOPS.to_owned()))?;
    let table = dataset.features();
    let shape = TableShape { offset, rows: table.rows, row_bytes: table.row_bytes() };
    RowFile::open(path, shape, reader.kind()).map_err(|error| match error {
        DiskError::Refused { .. } if reader == Reader::Auto => {
            RuntimeError::Missing(format!("{error}. --features memory reads the mapped file"))
        }
        DiskError::Refused { .. } => RuntimeError::Missing(format!(
            "--reader {reader}: {error}. --reader auto takes what works here, and --features memory reads the mapped file"
        )),
        _ => RuntimeError::Input(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_larger_than_the_available_memory_is_read_from_disk_and_a_small_one_is_not() {
        let (features, reason) = by_memory(u64::MAX);
        assert_eq!(features, Features::Disk);
        assert!(
            reason.contains("GiB does not fit into the ") && reason.contains(" available of "),
            "{reason}"
        );
        let (features, reason) = by_memory(1);
        assert_eq!(features, Features::Memory);
        assert!(reason.contains("GiB fits into the "), "{reason}");
    }

    #[test]
    fn every_reader_of_the_crate_below_has_an_option_of_its_name() {
        for kind in ReaderKind::ALL {
            let reader = Reader::from_name(kind.name()).unwrap();
            assert_eq!(reader.kind(), Some(kind));
        }
        assert_eq!(Reader::ALL.len(), ReaderKind::ALL.len() + 1);
    }
}
