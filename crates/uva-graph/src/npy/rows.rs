//! An array of a known shape whose rows are written in any order, for jobs that may be interrupted and resumed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use uva_mem::files::UnfinishedFile;
use uva_mem::mix;

use super::header::NpyType;
use super::writer::{HEADER_BYTES, header};
use crate::GraphError;

/// A `.npy` file being filled by one process. The file has its full size from the beginning, filled with zeros, and a
/// record after the array has the job and the progress. The record also marks the file as written by this program.
/// [`commit`](Self::commit) renames the file, and [`finish`](Self::finish) truncates the record.
#[derive(Debug)]
pub struct NpyRows {
    file: UnfinishedFile,
    job: u64,
    /// The offset at which the array ends and the record begins.
    end: u64,
    row_bytes: u64,
    rows: u64,
}

/// Progress of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Units of work whose rows are written.
    pub units: u64,
    /// Whether all rows are written.
    pub complete: bool,
}

/// The content found at the path of an unfinished array.
#[derive(Debug)]
pub enum FoundRows {
    /// The path does not exist.
    Missing,
    /// A file that another process is writing.
    Held,
    /// An unfinished array of this job.
    Same(NpyRows, Done),
    /// An unfinished array of another job, or of another shape.
    Other(UnfinishedFile),
    /// A file that this program did not write, and the reason for that conclusion.
    Foreign(String),
}

/// The record: the mark, the job, the units, whether it is complete, and a hash of these.
const RECORD_BYTES: usize = 40;
const MARK: [u8; 8] = *b"uvarows1";

impl NpyRows {
    /// Creates the file at `path`, locked. `job` identifies the content of the rows.
    ///
    /// # Errors
    /// If a system call fails; `None` if the path exists.
    pub fn create(
        path: &Path,
        kind: NpyType,
        shape: &[usize],
        job: u64,
    ) -> Result<Option<NpyRows>, GraphError> {
        let (header, row_bytes, rows) = described(path, kind, shape)?;
        let end = HEADER_BYTES as u64 + row_bytes * rows;
        let prepare = |file: &File| {
            file.write_all_at(&header, 0)?;
            // This does not allocate space, but fails if the file exceeds the size limit.
            file.set_len(end)?;
            file.write_all_at(&record(job, Done::default()), end)
        };
        match UnfinishedFile::create(path, prepare) {
            Ok(file) => Ok(Some(NpyRows { file, job, end, row_bytes, rows })),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(GraphError::io(path, "create")(error)),
        }
    }

    /// Opens and locks the file that an earlier process left at `path`.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn find(path: &Path, kind: NpyType, shape: &[usize], job: u64) -> Result<FoundRows, GraphError> {
        let file = match UnfinishedFile::open(path) {
            Ok(file) => file,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::NotFound => Ok(FoundRows::Missing),
                    io::ErrorKind::WouldBlock => Ok(FoundRows::Held),
                    io::ErrorKind::InvalidInput => Ok(FoundRows::Foreign(error.to_string())),
                    _ => Err(GraphError::io(path, "open")(error)),
                };
            }
        };
        let examined = || -> io::Result<Option<(u64, u64, Option<Done>)>> {
            let length = file.file().metadata()?.len();
            let Some(end) = length.checked_sub(RECORD_BYTES as u64) else { return Ok(None) };
            let mut found = [0; RECORD_BYTES];
            file.file().read_exact_at(&mut found, end)?;
            Ok(read_record(&found).map(|(job, done)| (end, job, done)))
        };
        let found = examined().map_err(GraphError::io(path, "read"))?;
        let Some((found_end, found_job, done)) = found else {
            return Ok(FoundRows::Foreign("it does not end as uvatrain's unfinished arrays do".to_owned()));
        };
        let (header, row_bytes, rows) = described(path, kind, shape)?;
        let end = HEADER_BYTES as u64 + row_bytes * rows;
        let mut found_header = [0; HEADER_BYTES];
        let is_same = found_job == job
            && found_end == end
            && file.file().read_exact_at(&mut found_header, 0).is_ok()
            && found_header == header[..];
        Ok(match done.filter(|_| is_same) {
            Some(done) => FoundRows::Same(NpyRows { file, job, end, row_bytes, rows }, done),
            None => FoundRows::Other(file),
        })
    }

    /// Writes whole rows from row `first` on.
    ///
    /// # Errors
    /// If the write fails or the rows are out of range.
    pub fn write(&self, first: u64, bytes: &[u8]) -> Result<(), GraphError> {
        let fits = bytes.len() as u64 <= self.rows.saturating_sub(first).saturating_mul(self.row_bytes);
        let written = if fits {
            self.file.file().write_all_at(bytes, HEADER_BYTES as u64 + first * self.row_bytes)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("invalid row {first}")))
        };
        written.map_err(GraphError::io(self.path(), "write"))
    }

    /// Reads whole rows from row `first` on.
    ///
    /// # Errors
    /// If the read fails or the rows are out of range.
    pub fn read(&self, first: u64, bytes: &mut [u8]) -> Result<(), GraphError> {
        let fits = bytes.len() as u64 <= self.rows.saturating_sub(first).saturating_mul(self.row_bytes);
        let read = if fits {
            self.file.file().read_exact_at(bytes, HEADER_BYTES as u64 + first * self.row_bytes)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("invalid row {first}")))
        };
        read.map_err(GraphError::io(self.path(), "read"))
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes as usize
    }

    /// The current path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Records the progress, after the rows that it counts are on disk.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn note(&self, done: Done) -> Result<(), GraphError> {
        let file = self.file.file();
        let noted = file.sync_all().and_then(|()| file.write_all_at(&record(self.job, done), self.end));
        noted.and_then(|()| file.sync_all()).map_err(GraphError::io(self.path(), "write"))
    }

    /// Gives the file its final name; the record is kept. With `replaces`, an existing file is replaced; otherwise the
    /// result is false if the path exists.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn commit(&mut self, to: &Path, replaces: bool) -> Result<bool, GraphError> {
        match self.file.rename(to, replaces) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            renamed => renamed.map(|()| true).map_err(GraphError::io(to, "create")),
        }
    }

    /// Truncates the record, so that only the array remains.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn finish(self) -> Result<(), GraphError> {
        let file = self.file.file();
        file.set_len(self.end).and_then(|()| file.sync_all()).map_err(GraphError::io(self.path(), "finish"))
    }

    /// Removes the file, unless the path refers to another file by now.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn remove(self) -> Result<(), GraphError> {
        let path = self.path().to_owned();
        self.file.remove().map_err(GraphError::io(&path, "remove"))
    }
}

fn record(job: u64, done: Done) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&MARK);
    for (place, word) in [job, done.units, u64::from(done.complete)].into_iter().enumerate() {
        record[8 + 8 * place..][..8].copy_from_slice(&word.to_le_bytes());
    }
    let hash = [job, done.units, u64::from(done.complete)].into_iter().fold(0, |hash, word| mix(hash ^ word));
    record[32..].copy_from_slice(&hash.to_le_bytes());
    record
}

/// Job and progress. There is no progress if a power failure truncated the record. `None` without the mark.
fn read_record(bytes: &[u8; RECORD_BYTES]) -> Option<(u64, Option<Done>)> {
    let word = |place: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[8 * place..][..8]);
        u64::from_le_bytes(word)
    };
    let done = Done { units: word(2), complete: word(3) == 1 };
    let is_whole = record(word(1), done) == *bytes;
    (bytes[..8] == MARK).then(|| (word(1), is_whole.then_some(done)))
}

/// The header, the bytes of a row, and the rows.
fn described(path: &Path, kind: NpyType, shape: &[usize]) -> Result<(Vec<u8>, u64, u64), GraphError> {
    let axes: Vec<u64> = shape.iter().map(|&axis| axis as u64).collect();
    let (rows, row) = axes.split_first().map_or((1, &[][..]), |(rows, row)| (*rows, row));
    let row_bytes = row.iter().try_fold(kind.bytes() as u64, |bytes, axis| bytes.checked_mul(*axis));
    let row_bytes = row_bytes.filter(|bytes| bytes.checked_mul(rows.max(1)).is_some());
    header(kind, &axes, HEADER_BYTES)
        .zip(row_bytes)
        .map(|(header, row_bytes)| (header, row_bytes, rows))
        .ok_or_else(|| {
            let problem = io::Error::new(io::ErrorKind::InvalidInput, format!("a shape of {shape:?}"));
            GraphError::io(path, "create")(problem)
        })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::npy::NpyArray;

    #[test]
    fn rows_written_in_any_order_and_by_two_processes_make_one_array() {
        let temp = tempfile::tempdir().unwrap();
        let (path, to) = (temp.path().join("a.npy.part"), temp.path().join("a.npy"));
        let rows = NpyRows::create(&path, NpyType::I64, &[4], 7).unwrap().unwrap();
        assert!(NpyRows::create(&path, NpyType::I64, &[4], 7).unwrap().is_none(), "it is there already");
        assert!(matches!(NpyRows::find(&path, NpyType::I64, &[4], 7).unwrap(), FoundRows::Held));
        rows.write(2, &[3i64, 4].map(i64::to_le_bytes).concat()).unwrap();
        rows.note(Done { units: 5, complete: false }).unwrap();
        drop(rows);
        for (kind, shape, job) in [
            (NpyType::I64, &[5][..], 7),
            (NpyType::F64, &[4], 7),
            (NpyType::I64, &[4, 1], 7),
            (NpyType::I64, &[4], 8),
        ] {
            let found = NpyRows::find(&path, kind, shape, job).unwrap();
            assert!(matches!(found, FoundRows::Other(_)), "{kind} {shape:?} {job}: {found:?}");
        }
        let FoundRows::Same(mut rows, done) = NpyRows::find(&path, NpyType::I64, &[4], 7).unwrap() else {
            panic!("it is the array of this job");
        };
        assert_eq!(done, Done { units: 5, complete: false });
        rows.write(0, &[1i64, 2].map(i64::to_le_bytes).concat()).unwrap();
        assert!(rows.write(3, &[0; 16]).is_err(), "there is one row left");
        let mut read = [0; 16];
        rows.read(1, &mut read).unwrap();
        assert_eq!(read[..], [2i64, 3].map(i64::to_le_bytes).concat());
        assert!(rows.read(3, &mut read).is_err(), "there is one row left");
        rows.note(Done { units: 6, complete: true }).unwrap();
        assert!(rows.commit(&to, false).unwrap());
        rows.finish().unwrap();
        assert_eq!(NpyArray::open(&to).unwrap().elements::<i64>(NpyType::I64).unwrap(), [1, 2, 3, 4]);
    }

    #[test]
    fn only_a_file_with_the_record_is_an_unfinished_array() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a.npy.part");
        let find = || NpyRows::find(&path, NpyType::I64, &[4], 7).unwrap();
        assert!(matches!(find(), FoundRows::Missing));
        for content in [&b""[..], b"a film", &[0; 200]] {
            fs::write(&path, content).unwrap();
            assert!(matches!(find(), FoundRows::Foreign(_)), "{content:?}");
            assert_eq!(fs::read(&path).unwrap(), content);
        }
        fs::remove_file(&path).unwrap();
        drop(NpyRows::create(&path, NpyType::I64, &[4], 7).unwrap());
        // A record truncated by a power failure marks the file, but has no progress.
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(matches!(find(), FoundRows::Other(_)));
    }
}
