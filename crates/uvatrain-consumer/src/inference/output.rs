//! The files of predictions: written under names of their own beside the final ones, with a journal of what is done.
//!
//! `NAME.part` gets its rows in any order and becomes `NAME` when all are there. `NAME.journal`, beside the first file,
//! is a small JSON file that says what is asked and how much is done. It is replaced in one step, and only after the rows
//! that it counts are on the disk. So a process that is asked for the same goes on where an earlier one ended, however
//! that ended; one that is asked for something else starts anew.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uva_graph::GraphError;
use uva_graph::npy::{NpyRows, NpyType};
use uva_launch::training::PredictionJob;
use uva_mem::files::{open_directory, read_regular, replace};
use uva_model::Answer;
use uva_runtime::RuntimeError;

/// How often the journal is written: each time waits for the disk.
const INTERVAL: Duration = Duration::from_secs(5);
/// A journal is a few hundred bytes.
const MOST_JOURNAL: u64 = 1 << 20;

pub(super) struct Output {
    files: Vec<OutputFile>,
    journal: PathBuf,
    /// What was asked, as the journal has it.
    job: Value,
    /// Units of work whose rows are written.
    pub(super) done: u64,
    journalled: Instant,
}

struct OutputFile {
    answer: Answer,
    path: PathBuf,
    part: PathBuf,
    rows: NpyRows,
}

impl Output {
    /// Opens the files for `rows` rows. `row_of` has the element type and shape of a row. `job_is` says which rows they
    /// will be.
    pub(super) fn open(
        job: &PredictionJob,
        rows: usize,
        row_of: &dyn Fn(Answer) -> (NpyType, Vec<usize>),
        mut job_is: Value,
    ) -> Result<Self, RuntimeError> {
        let first = job.files.first().ok_or_else(|| RuntimeError::Usage("no file to write".to_owned()))?;
        for file in job.files.iter().filter(|_| !job.overwrite) {
            if fs::symlink_metadata(&file.path).is_ok() {
                return Err(RuntimeError::Usage(format!(
                    "{}: it is there already: name another file, or replace it with --overwrite",
                    file.path.display()
                )));
            }
        }
        job_is["files"] = job.files.iter().map(|file| json!([file.answer, file.path])).collect();
        let journal = beside(&first.path, ".journal");
        let shaped = job.files.iter().map(|file| {
            let (kind, row) = row_of(file.answer);
            (file, beside(&file.path, ".part"), kind, [&[rows][..], &row].concat())
        });
        let shaped: Vec<_> = shaped.collect();
        let done = done_before(&journal, &job_is);
        let reopened: Option<Vec<NpyRows>> = done.and_then(|_| {
            shaped.iter().map(|(_, part, kind, shape)| NpyRows::reopen(part, *kind, shape)).collect()
        });
        let (done, opened) = match (done, reopened) {
            (Some(done), Some(opened)) => (done, opened),
            _ => {
                remove(&journal)?;
                let create = |(_, part, kind, shape): &(_, PathBuf, NpyType, Vec<usize>)| {
                    remove(part)?;
                    Ok::<_, RuntimeError>(NpyRows::create(part, *kind, shape)?)
                };
                (0, shaped.iter().map(create).collect::<Result<_, _>>()?)
            }
        };
        let files = shaped.into_iter().zip(opened).map(|((file, part, ..), rows)| OutputFile {
            answer: file.answer,
            path: file.path.clone(),
            part,
            rows,
        });
        Ok(Self { files: files.collect(), journal, job: job_is, done, journalled: Instant::now() })
    }

    /// Writes rows to their places.
    pub(super) fn write(&self, answer: Answer, places: &[i64], bytes: &[u8]) -> Result<(), RuntimeError> {
        for file in self.files.iter().filter(|file| file.answer == answer) {
            let row = file.rows.row_bytes();
            let mut bytes = bytes;
            // Rows of neighbouring places are written together.
            for run in places.chunk_by(|place, next| place + 1 == *next) {
                let (of_run, rest) = bytes.split_at(bytes.len().min(run.len() * row));
                file.rows.write(run.first().map_or(0, |first| *first as u64), of_run)?;
                bytes = rest;
            }
        }
        Ok(())
    }

    /// So many units of work are done, and their rows written.
    pub(super) fn note_done(&mut self, done: u64) -> Result<(), RuntimeError> {
        self.done = done;
        if self.journalled.elapsed() < INTERVAL { Ok(()) } else { self.write_journal() }
    }

    fn write_journal(&mut self) -> Result<(), RuntimeError> {
        self.sync()?;
        let text = json!({ "job": self.job, "done": self.done }).to_string() + "\n";
        replace(&self.journal, 0o666, text.as_bytes()).map_err(GraphError::io(&self.journal, "write"))?;
        self.journalled = Instant::now();
        Ok(())
    }

    fn sync(&self) -> Result<(), RuntimeError> {
        self.files.iter().try_for_each(|file| file.rows.sync()).map_err(RuntimeError::from)
    }

    /// Leaves the files for a later process to go on with.
    pub(super) fn suspend(mut self) -> Result<(), RuntimeError> {
        if self.done > 0 { self.write_journal() } else { Ok(()) }
    }

    /// Gives the files their names.
    pub(super) fn commit(mut self) -> Result<(), RuntimeError> {
        self.sync()?;
        for file in &self.files {
            fs::rename(&file.part, &file.path).map_err(GraphError::io(&file.path, "create"))?;
            let parent = file.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            let synced = open_directory(parent).and_then(|parent| parent.sync_all());
            synced.map_err(GraphError::io(parent, "flush"))?;
        }
        self.files.clear();
        remove(&self.journal)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Nothing is worth going on with. What cannot be removed, the next process with these names replaces.
        if self.done == 0 {
            let parts = self.files.iter().map(|file| &file.part);
            parts.chain([&self.journal]).for_each(|path| drop(remove(path)));
        }
    }
}

/// The name with more behind it.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(more);
    name.into()
}

/// How far an earlier process came with this job.
fn done_before(journal: &Path, job: &Value) -> Option<u64> {
    let text = read_regular(journal, MOST_JOURNAL).ok()?;
    let found: Value = serde_json::from_slice(&text).ok()?;
    if found.get("job") == Some(job) { found.get("done")?.as_u64() } else { None }
}

/// Removes a file of ours, if it is there.
fn remove(path: &Path) -> Result<(), RuntimeError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(GraphError::io(path, "replace")(error).into())
        }
        _ => Ok(()),
    }
}
