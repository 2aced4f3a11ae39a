//! The files of predictions: written under names of their own beside the final ones, with a journal of what is done.
//!
//! `NAME.part` gets its rows in any order and becomes `NAME` when all are there. `NAME.journal`, beside the first
//! file, is a small JSON file that says what is asked and how much is done. It is replaced in one step, and only after
//! the rows that it counts are on the disk. So a process that is asked for the same goes on where an earlier one ended, however
//! that ended; one that is asked for something else starts anew. Only what a journal names is removed.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uva_graph::GraphError;
use uva_graph::npy::{NpyRows, NpyType};
use uva_launch::training::{PredictionFile, PredictionJob};
use uva_mem::files::{open_directory, read_regular, replace};
use uva_model::Answer;
use uva_runtime::RuntimeError;

/// How often the journal is written: each time waits for the disk.
const INTERVAL: Duration = Duration::from_secs(5);
/// Marks a journal as ours.
const MARK: (&str, &str) = ("written_by", "uvatrain");
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
        refuse_existing(job)?;
        let absolute: Result<Vec<PathBuf>, RuntimeError> =
            job.files.iter().map(|file| absolute(&file.path)).collect();
        let absolute = absolute?;
        job_is["files"] =
            job.files.iter().zip(&absolute).map(|(file, path)| json!([file.answer, path])).collect();
        let journal = beside(&first.path, ".journal");
        let former = Former::read(&journal)?;
        let shaped: Vec<(&PredictionFile, PathBuf, NpyType, Vec<usize>)> = job
            .files
            .iter()
            .map(|file| {
                let (kind, row) = row_of(file.answer);
                (file, beside(&file.path, ".part"), kind, [&[rows][..], &row].concat())
            })
            .collect();
        let done = former.as_ref().filter(|former| former.job == job_is).map(|former| former.done);
        let reopened: Option<Vec<NpyRows>> = done.and_then(|_| {
            shaped.iter().map(|(_, part, kind, shape)| NpyRows::reopen(part, *kind, shape)).collect()
        });
        let mut output =
            Self { files: Vec::new(), journal, job: job_is, done: 0, journalled: Instant::now() };
        let opened = match (done, reopened) {
            (Some(done), Some(opened)) => {
                output.done = done;
                opened
            }
            _ => {
                if let Some(former) = former {
                    former.remove_parts()?;
                }
                for (_, part, ..) in &shaped {
                    refuse_foreign(part)?;
                }
                // First, so that what a killed process leaves is known as ours.
                output.write_journal()?;
                let create = |(_, part, kind, shape): &(_, PathBuf, NpyType, Vec<usize>)| {
                    NpyRows::create(part, *kind, shape)
                };
                shaped.iter().map(create).collect::<Result<_, _>>()?
            }
        };
        output.files = shaped
            .into_iter()
            .zip(opened)
            .map(|((file, part, ..), rows)| OutputFile {
                answer: file.answer,
                path: file.path.clone(),
                part,
                rows,
            })
            .collect();
        Ok(output)
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
        let text = json!({ MARK.0: MARK.1, "job": self.job, "done": self.done }).to_string() + "\n";
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

/// What an earlier process left.
struct Former {
    job: Value,
    done: u64,
}

impl Former {
    /// The journal of an earlier process, if there is one.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] where something else has its name.
    fn read(journal: &Path) -> Result<Option<Self>, RuntimeError> {
        if fs::symlink_metadata(journal).is_err() {
            return Ok(None);
        }
        let read = || -> Option<Self> {
            let is_link = fs::symlink_metadata(journal).ok()?.is_symlink();
            let text = read_regular(journal, MOST_JOURNAL).ok().filter(|_| !is_link)?;
            let mut found: Value = serde_json::from_slice(&text).ok()?;
            let done = found.get("done")?.as_u64()?;
            (found.get(MARK.0)? == MARK.1).then(|| Self { job: found["job"].take(), done })
        };
        read().map(Some).ok_or_else(|| foreign(journal))
    }

    /// Removes the unfinished arrays that it names.
    fn remove_parts(&self) -> Result<(), RuntimeError> {
        let files = self.job.get("files").and_then(Value::as_array).into_iter().flatten();
        let paths = files.filter_map(|file| file.get(1).and_then(Value::as_str));
        paths.map(|path| beside(Path::new(path), ".part")).try_for_each(|part| remove(&part))
    }
}

/// Refuses to replace files, unless that was asked for; a directory in any case.
fn refuse_existing(job: &PredictionJob) -> Result<(), RuntimeError> {
    for file in &job.files {
        let shown = file.path.display();
        match fs::symlink_metadata(&file.path) {
            Ok(found) if found.is_dir() => {
                return Err(RuntimeError::Usage(format!("{shown}: it is a directory: name a file")));
            }
            Ok(_) if !job.overwrite => {
                return Err(RuntimeError::Usage(format!(
                    "{shown}: it is there already: name another file, or replace it with --overwrite"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses a name of ours that is taken.
fn refuse_foreign(path: &Path) -> Result<(), RuntimeError> {
    if fs::symlink_metadata(path).is_ok() { Err(foreign(path)) } else { Ok(()) }
}

fn foreign(path: &Path) -> RuntimeError {
    RuntimeError::Usage(format!(
        "{}: this is where unfinished predictions are kept, and nothing says that it is one of uvatrain's: remove it, or \
         name another file",
        path.display()
    ))
}

fn absolute(path: &Path) -> Result<PathBuf, RuntimeError> {
    Ok(std::path::absolute(path).map_err(GraphError::io(path, "find"))?)
}

/// Removes a file of ours, if it is there.
fn remove(path: &Path) -> Result<(), RuntimeError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(GraphError::io(path, "remove")(error).into())
        }
        _ => Ok(()),
    }
}
