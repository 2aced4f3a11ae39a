//! The files of predictions: written under temporary names in the final directory, with a record of the progress.
//!
//! `NAME.part` receives its rows in any order and is renamed to `NAME` when it is complete. It is locked by the process
//! that writes it. A record at its end names its job and counts the finished rows; it is written only after these rows
//! are on the disk. So the same command resumes an interrupted one, however that ended; another command starts from the
//! beginning. Only files with this record are ever removed, and only under the names of this job.
//!
//! The rows of a table, `NAME.csv.part`, are such a file as well. It is never renamed: the table is written from it,
//! and it is removed when the table has its name.
//!
//! At the end the record states that all rows are written. Then every file is renamed, and then every record is cut
//! off. A process that is killed in between leaves at least one record, from which the same command recognises the
//! finished files.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uva_graph::GraphError;
use uva_graph::npy::{Done, FoundRows, NpyRows, NpyType};
use uva_launch::training::{PredictionFile, PredictionJob};
use uva_mem::files::open_directory;
use uva_model::Answer;
use uva_model::checkpoint::checksum;
use uva_runtime::RuntimeError;

/// The interval between writes of the record, each of which waits for the disk.
const INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct PredictionOutput {
    files: Vec<OutputFile>,
    /// Whether files with the final names are replaced.
    overwrite: bool,
    done: Done,
    /// Whether all files are open.
    is_open: bool,
    recorded: Instant,
}

struct OutputFile {
    answer: Answer,
    path: PathBuf,
    /// `None` if an earlier process has finished the file.
    rows: Option<NpyRows>,
    /// Whether this process created it.
    is_new: bool,
}

impl PredictionOutput {
    /// Opens the files for `rows` rows. `row_of` gives the element type and shape of a row. `job_is` identifies the
    /// rows.
    pub(super) fn open(
        job: &PredictionJob,
        rows: usize,
        row_of: &dyn Fn(Answer) -> (NpyType, Vec<usize>),
        mut job_is: Value,
    ) -> Result<Self, RuntimeError> {
        job_is["answers"] = job.files.iter().map(|file| json!(file.answer)).collect();
        let job_is = checksum(job_is.to_string().as_bytes());
        let shaped: Vec<Shaped<'_>> = job
            .files
            .iter()
            .map(|file| {
                let (kind, row) = row_of(file.answer);
                Shaped { file, kind, shape: [&[rows][..], &row].concat(), job: job_is }
            })
            .collect();
        let renamed: Vec<Option<NpyRows>> =
            shaped.iter().map(Shaped::renamed).collect::<Result<_, RuntimeError>>()?;
        // Records are cut off once all files are renamed: so if one file is renamed, another without a temporary file
        // is finished.
        let some_renamed = renamed.iter().any(Option::is_some);
        let mut output = Self {
            files: Vec::new(),
            overwrite: job.overwrite,
            done: Done::default(),
            is_open: false,
            recorded: Instant::now(),
        };
        let mut done: Option<Done> = None;
        for (shaped, renamed) in shaped.iter().zip(renamed) {
            let (answer, path) = (shaped.file.answer, shaped.file.path.clone());
            let is_finished = some_renamed && renamed.is_none() && path.exists() && !shaped.part().exists();
            if renamed.is_some() || is_finished {
                output.files.push(OutputFile { answer, path, rows: renamed, is_new: false });
                continue;
            }
            refuse_existing(shaped.file, job.overwrite)?;
            let (rows, found) = shaped.open()?;
            let is_new = found.is_none();
            output.files.push(OutputFile { answer, path, rows: Some(rows), is_new });
            done = Some(least(done, found.unwrap_or_default()));
        }
        output.done = done.unwrap_or(Done { complete: true, ..Done::default() });
        output.is_open = true;
        Ok(output)
    }

    /// Units of work whose rows are written.
    pub(super) fn done(&self) -> u64 {
        self.done.units
    }

    /// Whether an earlier process wrote all rows, and only the names of the files are missing.
    pub(super) fn is_complete(&self) -> bool {
        self.done.complete
    }

    /// Writes rows to their positions.
    pub(super) fn write(&self, answer: Answer, places: &[i64], bytes: &[u8]) -> Result<(), RuntimeError> {
        for rows in
            self.files.iter().filter(|file| file.answer == answer).filter_map(|file| file.rows.as_ref())
        {
            let row = rows.row_bytes();
            let mut bytes = bytes;
            // Rows at consecutive positions are written together.
            for run in places.chunk_by(|place, next| place + 1 == *next) {
                let (of_run, rest) = bytes.split_at(bytes.len().min(run.len() * row));
                rows.write(run.first().map_or(0, |first| *first as u64), of_run)?;
                bytes = rest;
            }
        }
        Ok(())
    }

    /// Notes that this many units of work are done and their rows written.
    pub(super) fn note_done(&mut self, units: u64) -> Result<(), RuntimeError> {
        self.done.units = units;
        if self.recorded.elapsed() < INTERVAL { Ok(()) } else { self.record() }
    }

    fn record(&mut self) -> Result<(), RuntimeError> {
        let mut rows = self.files.iter().filter_map(|file| file.rows.as_ref());
        rows.try_for_each(|rows| rows.note(self.done))?;
        self.recorded = Instant::now();
        Ok(())
    }

    /// Keeps the files for a later process to resume.
    pub(super) fn suspend(mut self) -> Result<(), RuntimeError> {
        if self.done != Done::default() { self.record() } else { Ok(()) }
    }

    /// Notes that all rows are written.
    pub(super) fn complete(&mut self) -> Result<(), RuntimeError> {
        self.done.complete = true;
        self.record()
    }

    /// The rows of a table that may not be renamed yet.
    pub(super) fn table(&self) -> Option<&NpyRows> {
        self.files.iter().find(|file| file.answer == Answer::Table)?.rows.as_ref()
    }

    /// Renames the complete files. The table is already renamed.
    pub(super) fn commit(mut self) -> Result<(), RuntimeError> {
        for file in self.files.iter_mut().filter(|file| file.answer != Answer::Table) {
            if let Some(rows) = file.rows.as_mut().filter(|rows| rows.path() != file.path)
                && !rows.commit(&file.path, self.overwrite)?
            {
                return Err(taken(&file.path));
            }
        }
        self.sync_names()?;
        for file in &mut self.files {
            let end = if file.answer == Answer::Table { NpyRows::remove } else { NpyRows::finish };
            file.rows.take().map_or(Ok(()), end)?;
        }
        Ok(())
    }

    /// Waits until the names of the files are on the disk.
    fn sync_names(&self) -> Result<(), RuntimeError> {
        for file in &self.files {
            let parent = file.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            let synced = open_directory(parent).and_then(|parent| parent.sync_all());
            synced.map_err(GraphError::io(parent, "flush"))?;
        }
        Ok(())
    }
}

impl Drop for PredictionOutput {
    fn drop(&mut self) {
        // Without a unit of work there is nothing to resume. The next process replaces files that cannot be removed.
        if self.done == Done::default() {
            let is_open = self.is_open;
            let useless = self.files.iter_mut().filter(|file| file.is_new || is_open);
            useless.filter_map(|file| file.rows.take()).for_each(|rows| drop(rows.remove()));
        }
    }
}

/// A file of the job, with the type and shape of its array.
struct Shaped<'j> {
    file: &'j PredictionFile,
    kind: NpyType,
    shape: Vec<usize>,
    job: u64,
}

impl Shaped<'_> {
    /// The temporary name.
    fn part(&self) -> PathBuf {
        let mut name: OsString = self.file.path.as_os_str().to_owned();
        name.push(".part");
        name.into()
    }

    fn find(&self, path: &Path) -> Result<FoundRows, RuntimeError> {
        Ok(NpyRows::find(path, self.kind, &self.shape, self.job)?)
    }

    /// A complete array of this job that is renamed but still has its record, or the complete rows of a table if a file
    /// with the table's name exists.
    fn renamed(&self) -> Result<Option<NpyRows>, RuntimeError> {
        let path = match self.file.answer {
            Answer::Table if fs::symlink_metadata(&self.file.path).is_err() => return Ok(None),
            Answer::Table => self.part(),
            _ => self.file.path.clone(),
        };
        match self.find(&path) {
            Ok(FoundRows::Same(rows, Done { complete: true, .. })) => Ok(Some(rows)),
            Ok(FoundRows::Held) => Err(held(&path)),
            // Any other file, readable or not, is replaced as a whole or refused.
            _ => Ok(None),
        }
    }

    /// The unfinished array with the progress of an earlier process; `None` for a new one.
    fn open(&self) -> Result<(NpyRows, Option<Done>), RuntimeError> {
        let part = self.part();
        loop {
            match self.find(&part)? {
                FoundRows::Same(rows, done) => return Ok((rows, Some(done))),
                FoundRows::Held => return Err(held(&part)),
                FoundRows::Other(file) => file.remove().map_err(GraphError::io(&part, "remove"))?,
                FoundRows::Foreign(why) => {
                    let problem = format!(
                        "this is the temporary name of an unfinished array, and {why}: move it out of the way, or name \
                         another output"
                    );
                    return Err(RuntimeError::usage(problem).in_file(&part));
                }
                FoundRows::Missing => {
                    if let Some(rows) = NpyRows::create(&part, self.kind, &self.shape, self.job)? {
                        return Ok((rows, None));
                    }
                }
            }
        }
    }
}

/// The progress that all files have reached.
fn least(known: Option<Done>, other: Done) -> Done {
    match known {
        None => other,
        Some(known) => {
            Done { units: known.units.min(other.units), complete: known.complete && other.complete }
        }
    }
}

fn held(path: &Path) -> RuntimeError {
    RuntimeError::usage("another process is writing it: wait for its end, or name another output")
        .in_file(path)
}

/// Refuses to replace a directory, and a file unless that was requested.
fn refuse_existing(file: &PredictionFile, overwrite: bool) -> Result<(), RuntimeError> {
    match fs::symlink_metadata(&file.path) {
        Ok(found) if found.is_dir() => {
            Err(RuntimeError::usage("it is a directory: name a file").in_file(&file.path))
        }
        Ok(_) if !overwrite => Err(taken(&file.path)),
        _ => Ok(()),
    }
}

fn taken(path: &Path) -> RuntimeError {
    RuntimeError::usage("it is there already")
        .in_file(path)
        .with_remedy("name another file, or replace it with `overwrite`")
}
