//! The tables of node types without features in a checkpoint: a table, its moments and the rows of the best epoch, each
//! an array of float32 [rows, columns] in a `.npy` file that is named by its content.

use std::io;
use std::path::{Path, PathBuf};

use uva_graph::npy::{NpyType, array_header};
use uva_mem::MappedFile;
use uva_mem::files::is_word;

use super::checkpoint_error::CheckpointError;
use super::durable::{self, StepObserver, on};
use super::state_file::{EmbeddingFiles, StoredFile, checksum_of};

const PREFIX: &str = "embedding-";
const SUFFIX: &str = ".npy";
/// What the names of tables and of their two moments have after the checksum.
const PARTS: [&str; 3] = ["", "-m", "-v"];

/// A table to be stored. Each array holds rows of float32.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingContent<'c> {
    /// The node type.
    pub name: &'c str,
    /// Rows of each array.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
    /// The rows.
    pub values: &'c [u8],
    /// Their first moments.
    pub first: &'c [u8],
    /// Their second moments.
    pub second: &'c [u8],
    /// The rows of the best epoch.
    pub best: Option<&'c [u8]>,
}

/// The table of a checkpoint, of which the sizes are checked.
#[derive(Debug)]
pub struct StoredEmbedding {
    /// The node type.
    pub name: String,
    /// Rows of each array.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
    /// The rows.
    pub values: EmbeddingRows,
    /// Their first moments.
    pub first: EmbeddingRows,
    /// Their second moments.
    pub second: EmbeddingRows,
    /// The rows of the best epoch, if the checkpoint has a best epoch.
    pub best: Option<EmbeddingRows>,
}

/// An array of a checkpoint, in a mapped file.
#[derive(Debug)]
pub struct EmbeddingRows {
    path: PathBuf,
    file: MappedFile,
    data: usize,
    checksum: String,
}

impl EmbeddingRows {
    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The byte of the file at which the rows begin.
    #[must_use]
    pub fn begin(&self) -> usize {
        self.data
    }

    /// The bytes of the rows. Reads the whole file, to compare it with its checksum.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`] if the file differs from what was written.
    pub fn checked(&self) -> Result<&[u8], CheckpointError> {
        let bytes = self.file.bytes();
        let found = format!("{:016x}", checksum_of(&[bytes]));
        if found != self.checksum {
            let problem = format!("its checksum is {found}, and {} was written", self.checksum);
            return Err(CheckpointError::Damaged { path: self.path.clone(), problem });
        }
        Ok(&bytes[self.data..])
    }
}

/// Whether this is exactly the form of the name of a table's file.
pub(super) fn is_embedding(name: &str) -> bool {
    checksum_in(name).is_some()
}

/// The checksum in the name of a table's file.
fn checksum_in(name: &str) -> Option<&str> {
    let stem = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let moment = PARTS[1..].iter().find_map(|part| stem.strip_suffix(part));
    let (of_type, checksum) = moment.unwrap_or(stem).rsplit_once('-')?;
    (is_word(checksum) && !of_type.is_empty() && !name.contains('/')).then_some(checksum)
}

/// Whether a file with the name of a table's file has the content that the name says.
pub(super) fn is_whole(path: &Path, name: &str) -> bool {
    let checksum = MappedFile::open(path).map(|file| format!("{:016x}", checksum_of(&[file.bytes()])));
    checksum.is_ok_and(|found| checksum_in(name) == Some(&found))
}

/// Writes the files of a table, except those that the current checkpoint has: a name contains the checksum of its content.
pub(super) fn write(
    directory: &Path,
    content: &EmbeddingContent<'_>,
    current: &[String],
    observer: StepObserver<'_>,
) -> Result<EmbeddingFiles, CheckpointError> {
    let EmbeddingContent { name, rows, columns, .. } = *content;
    let header = header(rows, columns)
        .ok_or_else(|| CheckpointError::Refused(format!("a table of {rows} rows of {columns} elements")))?;
    let mut whole = current.to_vec();
    let mut store = |part: &str, rows: &[u8]| -> Result<StoredFile, CheckpointError> {
        let parts = [&header[..], rows];
        let checksum = format!("{:016x}", checksum_of(&parts));
        let file = format!("{PREFIX}{name}-{checksum}{part}{SUFFIX}");
        let bytes = (header.len() + rows.len()) as u64;
        let there = directory.join(&file).metadata().is_ok_and(|found| found.len() == bytes);
        if !(there && whole.contains(&file)) {
            durable::replace(directory, &file, parts, observer)?;
            whole.push(file.clone());
        }
        Ok(StoredFile { file, bytes, checksum })
    };
    let [values, first, second] = PARTS;
    // The rows of the best epoch are often the last ones, and then the same file.
    let best = content.best.map(|best| store(values, best)).transpose()?;
    Ok(EmbeddingFiles {
        name: name.to_owned(),
        rows,
        columns,
        values: store(values, content.values)?,
        first: store(first, content.first)?,
        second: store(second, content.second)?,
        best,
    })
}

/// Opens the files of a table and checks their sizes. `state` is `checkpoint.json`.
pub(super) fn open(
    state: &Path,
    directory: &Path,
    files: &EmbeddingFiles,
) -> Result<StoredEmbedding, CheckpointError> {
    let EmbeddingFiles { name, rows, columns, values, first, second, best } = files;
    let (rows, columns) = (*rows, *columns);
    let damaged = |path: &Path, problem: String| CheckpointError::Damaged { path: path.to_owned(), problem };
    let header = header(rows, columns);
    let expected = header.as_ref().and_then(|header| bytes(rows, columns)?.checked_add(header.len()));
    let (Some(header), Some(expected)) = (header, expected) else {
        let problem = format!("its table of {name} has {rows} rows of {columns} elements");
        return Err(damaged(state, problem));
    };
    let array = |stored: &StoredFile| -> Result<EmbeddingRows, CheckpointError> {
        let file = &stored.file;
        if !is_embedding(file) {
            return Err(damaged(state, format!("it names {file:?} as rows of {name}")));
        }
        let path = directory.join(file);
        let mapped = match MappedFile::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(state, format!("its rows of {name}, {file}, do not exist")));
            }
            other => on("read", &path, other)?,
        };
        let found = mapped.bytes().len();
        if found != expected || stored.bytes != found as u64 {
            let problem = format!(
                "it has {found} bytes, {} were written, and {rows} rows of {columns} elements take {expected}",
                stored.bytes
            );
            return Err(damaged(&path, problem));
        }
        if !mapped.bytes().starts_with(&header) {
            return Err(damaged(&path, format!("it is not an array of {rows} rows of {columns} float32")));
        }
        Ok(EmbeddingRows { path, file: mapped, data: header.len(), checksum: stored.checksum.clone() })
    };
    Ok(StoredEmbedding {
        name: name.clone(),
        rows,
        columns,
        values: array(values)?,
        first: array(first)?,
        second: array(second)?,
        best: best.as_ref().map(array).transpose()?,
    })
}

fn bytes(rows: usize, columns: usize) -> Option<usize> {
    rows.checked_mul(columns)?.checked_mul(size_of::<f32>())
}

fn header(rows: usize, columns: usize) -> Option<Vec<u8>> {
    array_header(NpyType::F32, &[rows as u64, columns as u64])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_tables_are_taken_for_such() {
        for name in ["embedding-a-0123456789abcdef.npy", "embedding-a-m-0123456789abcdef-v.npy"] {
            assert_eq!(checksum_in(name), Some("0123456789abcdef"), "{name}");
        }
        for name in [
            "embedding--0123456789abcdef.npy",
            "embedding-a-0123456789abcde.npy",
            "embedding-a-0123456789ABCDEF.npy",
            "embedding-a-0123456789abcdef-w.npy",
            "embedding-a/b-0123456789abcdef.npy",
            "embedding-a.npy",
            "tensors-0123456789abcdef.safetensors",
        ] {
            assert!(!is_embedding(name), "{name}");
        }
    }
}
