//! The record of finished work, a file in `OUT.propagating`.
//!
//! A part is on the disk before the journal names it, and the journal is replaced in one step. So everything that the
//! journal names exists, however the process ended; the rest is removed on a resume.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use uva_graph::GraphError;
use uva_mem::files::{OwnDirectory, Replacement, read_regular};

use super::folder::{self, JOURNAL, PARTS, SET};
use super::lock::FolderLock;
use super::part::{self, FinishedPart};
use crate::hop_sets::description;
use crate::operator::Operator;
use crate::options::Decisive;

/// Raised when folders of earlier versions can no longer be resumed.
const FORMAT: u32 = 1;

/// More than the journal of the largest hop set.
const MOST_BYTES: u64 = 256 << 20;

/// A finished file of the hop set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FinishedFile {
    pub(crate) name: String,
    pub(crate) tag: u32,
    pub(crate) bytes: u64,
    pub(crate) hash: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    format: u32,
    options: Decisive,
    parts: Vec<FinishedPart>,
    files: Vec<FinishedFile>,
}

/// The folder, locked.
pub(crate) struct Journal {
    lock: FolderLock,
    parts: Arc<OwnDirectory>,
    set: OwnDirectory,
    content: Content,
}

impl Journal {
    /// Starts in the locked folder, or resumes the work of an earlier process there: `rows` rows of `dim` features per
    /// hop. Uses the current rayon pool.
    ///
    /// # Errors
    /// If the existing work was begun with other options, or the system refuses to read it.
    pub(crate) fn open(
        lock: FolderLock,
        options: Decisive,
        (rows, dim): (usize, usize),
    ) -> Result<Journal, GraphError> {
        let folder = lock.folder();
        let content = match read(folder.path())? {
            Some(found) => {
                options.check_same(&found.options, &folder.path().display().to_string())?;
                found
            }
            None => Content { format: FORMAT, options, parts: Vec::new(), files: Vec::new() },
        };
        let (parts, set) = (folder::create_in(folder, PARTS)?, folder::create_in(folder, SET)?);
        let mut journal = Journal { lock, parts: Arc::new(parts), set, content };
        journal.keep_what_is_whole(rows, dim)?;
        journal.write()?;
        Ok(journal)
    }

    /// Drops entries whose files do not match, and removes files that are not in the journal.
    fn keep_what_is_whole(&mut self, rows: usize, dim: usize) -> Result<(), GraphError> {
        let Journal { parts, set, content, .. } = self;
        let Content { options, parts: noted, files, .. } = content;
        let hops = 1 + options.operators.len() * options.hops as usize;
        let mut whole = Vec::new();
        for part in noted.drain(..) {
            // The journal may come from any source, and its numbers become names and sizes.
            let fits = part.fits(options.operators.len(), options.hops, dim);
            if fits && part.is_whole(parts, options.element, rows)? {
                whole.push(part);
            }
        }
        *noted = whole;
        let expected = names_of_set(options);
        let mut whole = Vec::new();
        for file in files.drain(..) {
            let shape = match file.name.as_str() {
                description::NODE_IDS | description::LABELS => None,
                description::ROWS => Some((options.element.npy(), vec![rows, hops, dim])),
                _ => Some((options.element.npy(), vec![rows, dim])),
            };
            if expected.contains(&file.name)
                && part::is_whole((set, &file.name), file.tag, shape, (file.bytes, &file.hash))?
            {
                whole.push(file);
            }
        }
        *files = whole;
        let part_names: HashSet<String> = noted.iter().map(FinishedPart::name).collect();
        let file_names: HashSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
        // Only files of runs can exist: the lock was taken for a folder with no other entries.
        for (directory, is_named) in [
            (&**parts, &(|name: &str| part_names.contains(name)) as &dyn Fn(&str) -> bool),
            (set, &|name| file_names.contains(name)),
        ] {
            for (name, _) in directory.entries().map_err(GraphError::io(directory.path(), "list"))? {
                if !name.to_str().is_some_and(is_named) {
                    let path = directory.path().join(&name);
                    directory.remove_file(&name).map_err(GraphError::io(&path, "remove"))?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn folder(&self) -> &OwnDirectory {
        self.lock.folder()
    }

    /// The folder of parts.
    pub(crate) fn parts_folder(&self) -> &Arc<OwnDirectory> {
        &self.parts
    }

    /// The directory that becomes the hop set.
    pub(crate) fn set(&self) -> &OwnDirectory {
        &self.set
    }

    /// Finished parts of an operator's hop, by columns.
    pub(crate) fn parts(&self, operator: Option<usize>, hop: u32) -> Vec<FinishedPart> {
        let of_hop = |part: &&FinishedPart| (part.operator, part.hop) == (operator, hop);
        let mut parts: Vec<FinishedPart> = self.content.parts.iter().filter(of_hop).cloned().collect();
        parts.sort_by_key(|part| part.columns.start);
        parts
    }

    /// Bytes of all finished work.
    pub(crate) fn bytes(&self) -> u64 {
        let parts: u64 = self.content.parts.iter().map(|part| part.bytes).sum();
        parts + self.content.files.iter().map(|file| file.bytes).sum::<u64>()
    }

    pub(crate) fn file(&self, name: &str) -> Option<&FinishedFile> {
        self.content.files.iter().find(|file| file.name == name)
    }

    pub(crate) fn files(&self) -> &[FinishedFile] {
        &self.content.files
    }

    /// Records a part that is on the disk.
    pub(crate) fn add_part(&mut self, part: FinishedPart) -> Result<(), GraphError> {
        self.content.parts.push(part);
        self.write()
    }

    /// Records a file that is on the disk, and removes the parts that it was made from.
    pub(crate) fn add_file(
        &mut self,
        file: FinishedFile,
        made_of: &[FinishedPart],
    ) -> Result<(), GraphError> {
        self.content.files.push(file);
        self.forget(made_of)
    }

    /// Drops parts, and removes their files.
    pub(crate) fn forget(&mut self, parts: &[FinishedPart]) -> Result<(), GraphError> {
        self.content.parts.retain(|part| !parts.contains(part));
        // The journal is written first, so that it never names removed files.
        self.write()?;
        parts.par_iter().try_for_each(|part| {
            let name = part.name();
            self.parts.remove_file(&name).map_err(GraphError::io(&self.parts.path().join(&name), "remove"))
        })
    }

    fn write(&self) -> Result<(), GraphError> {
        let path = self.folder().path().join(JOURNAL);
        let written = || -> std::io::Result<()> {
            let mut file = Replacement::of(&path, 0o666)?;
            let mut text = serde_json::to_vec_pretty(&self.content)?;
            text.push(b'\n');
            file.file().write_all(&text)?;
            file.file().sync_all()?;
            file.commit()?;
            file.sync_directory()
        };
        written().map_err(GraphError::io(&path, "write"))
    }

    /// Refuses unless the folder still belongs to this process.
    pub(crate) fn check_lock(&self) -> Result<(), GraphError> {
        self.lock.check()
    }

    /// Removes the folder after its set got its final name.
    pub(crate) fn remove(self) -> Result<(), GraphError> {
        self.lock.remove()
    }
}

/// The arrays of a hop set with these options.
fn names_of_set(options: &Decisive) -> HashSet<String> {
    let stems = options.operators.iter().filter_map(|name| name.parse::<Operator>().ok());
    let of_hops = stems.flat_map(|operator| {
        (1..=options.hops).map(move |hop| format!("{}.{hop}.npy", operator.file_stem()))
    });
    let others = [description::NODE_IDS, description::LABELS, description::FEATURES, description::ROWS];
    of_hops.chain(others.map(str::to_owned)).collect()
}

#[derive(Debug, thiserror::Error)]
#[error("{0}: remove the folder and start again")]
struct NotAJournal(String);

fn read(folder: &Path) -> Result<Option<Content>, GraphError> {
    let path = folder.join(JOURNAL);
    let bytes = match read_regular(&path, MOST_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(GraphError::io(&path, "read")(error)),
    };
    let invalid = |problem: String| GraphError::invalid(&path, NotAJournal(problem));
    let content: Content = serde_json::from_slice(&bytes)
        .map_err(|error| invalid(uva_files::quote::message(&error.to_string())))?;
    if content.format != FORMAT {
        return Err(invalid(format!("it has format {}, but this version reads {FORMAT}", content.format)));
    }
    Ok(Some(content))
}
