//! From where the CPU reads rows: mapped files, or files read for each batch.

use serde::{Deserialize, Serialize};
use uva_disk::{DiskError, ReaderKind, RowFile, TableShape};
use uva_graph::{Dataset, NodeType};
use uva_options::named;

use crate::RuntimeError;

named! {
    /// Source of feature rows.
    pub enum Features = Auto {
        /// Memory if the table fits into the available memory, else disk.
        Auto = "auto",
        /// The mapped file, which the system keeps in memory as far as it can.
        Memory = "memory",
        /// The file, read again for each batch without the system's page cache.
        Disk = "disk",
    }
}

named! {
    /// The pages of files that CPU threads read in random order.
    pub enum HostPages = Auto {
        /// 2 MiB pages for files that are on smaller ones, if the run is long enough to gain from it.
        Auto = "auto",
        /// The pages of the mapped files.
        Mapped = "mapped",
        /// 2 MiB pages.
        Huge = "huge",
    }
}

/// The files of which processes read a copy on 2 MiB pages. The process that plans a run chooses them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedFiles {
    /// The feature table.
    pub rows: bool,
    /// `indptr.npy`.
    pub indptr: bool,
    /// `indices.npy`.
    pub indices: bool,
}

uva_options::json_values!(CopiedFiles);

named! {
    /// Method of reading rows from disk.
    pub enum DiskReader = Auto {
        /// The first method that the system allows.
        Auto = "auto",
        /// cuFile, from the files of a hop set into the memory of the GPU that trains.
        Cufile = "cufile",
        /// io_uring: one thread, many concurrent reads.
        Uring = "uring",
        /// Reads by several threads.
        Pread = "pread",
        /// The mapped file, page by page.
        Mmap = "mmap",
    }
}

impl DiskReader {
    /// Which reader brings rows into host memory; `None`: the first that works.
    pub(crate) fn kind(self) -> Option<ReaderKind> {
        match self {
            // What cuFile does not bring, any of the others does.
            Self::Auto | Self::Cufile => None,
            Self::Uring => Some(ReaderKind::Uring),
            Self::Pread => Some(ReaderKind::Pread),
            Self::Mmap => Some(ReaderKind::Mmap),
        }
    }
}

/// Opens the feature table of a node type for reads from disk.
///
/// # Errors
/// [`RuntimeError::Missing`] for a reader that the system refuses; [`RuntimeError::Failed`] for a file that is no longer
/// what the dataset was opened with; [`RuntimeError::Input`] for one that cannot be read.
pub(crate) fn row_file(
    dataset: &Dataset,
    node_type: NodeType,
    reader: DiskReader,
) -> Result<RowFile, RuntimeError> {
    let file = dataset.rows_file(node_type).zip(dataset.table_of(node_type));
    let ((path, offset, state), table) =
        file.ok_or_else(|| RuntimeError::failed("a hop set has no feature table"))?;
    let shape = TableShape { offset, rows: dataset.nodes_of(node_type), row_bytes: table.row_bytes() };
    let opened = RowFile::open(path, shape, reader.kind()).and_then(|file| file.since(state));
    opened.map_err(|error| disk_error(error, reader))
}

/// Why rows cannot be read by this reader, and what to do.
pub(crate) fn disk_error(error: DiskError, reader: DiskReader) -> RuntimeError {
    match error {
        DiskError::Refused { .. } if reader == DiskReader::Auto => {
            RuntimeError::missing(error.to_string()).with_remedy("`features=memory` reads the mapped file")
        }
        DiskError::Refused { .. } => {
            RuntimeError::missing(error.to_string()).with_option("reader", reader).with_remedy(
                "`reader=auto` uses the first reader that works, and `features=memory` reads the mapped file",
            )
        }
        DiskError::Changed { .. } => RuntimeError::failed(error.to_string()),
        _ => RuntimeError::input(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_of_the_crate_below_has_an_option_of_its_name() {
        for kind in ReaderKind::ALL {
            let reader = DiskReader::from_name(kind.name()).unwrap();
            assert_eq!(reader.kind(), Some(kind));
        }
        // The others are auto, and the one that reads into a GPU's memory.
        assert_eq!(DiskReader::ALL.len(), ReaderKind::ALL.len() + 2);
    }
}
