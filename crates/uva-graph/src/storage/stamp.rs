//! The stamp: a record that these files have been checked, so that the next open skips the pass over the edges.
//!
//! It holds the size, the modification time and the status change time of every file, and the version of the checks. It
//! is stored next to the files or, if those are read-only, in the user's cache directory. An unreadable or unwritable
//! stamp counts as absent and is never an error.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use uva_mem::files;

use crate::Meta;
use crate::description::names;

/// Size limit of a stamp, which has a few lines for each file: a dozen in format 1, several for each type and relation in
/// format 2.
const MOST_BYTES: u64 = 4 << 20;

/// Raised whenever the checks become stricter, so that older stamps stop counting.
const VERSION: u32 = 1;

/// The same for format 2.
const TYPED_VERSION: u32 = 2;

/// A file changed this recently could change again with the same times: the kernel's clock for them advances in ticks, and
/// some file systems count whole seconds.
const TICK: Duration = Duration::from_millis(100);
const WHOLE_SECONDS: Duration = Duration::from_secs(2);

/// Nanoseconds per second.
const NANOSECONDS: i128 = 1_000_000_000;

/// Size and times of every file of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    version: u32,
    /// The dataset's path, links resolved. Only a stamp in the cache directory needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dataset: Option<PathBuf>,
    files: BTreeMap<String, FileState>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileState {
    bytes: u64,
    /// Nanoseconds since 1970, negative before.
    modified_ns: i128,
    /// When bytes, mode, owner or links last changed, in the same unit. No program can set this time back. A stamp
    /// without this field counts as absent.
    changed_ns: i128,
}

impl Stamp {
    /// The current state of the files in `directory`; `None` if it is unknown.
    ///
    /// Take it before the files are read: a change during the checks then shows as another state.
    pub(crate) fn of(directory: &Path) -> Option<Stamp> {
        let mut stamp = Stamp { version: VERSION, dataset: None, files: BTreeMap::new() };
        names::of_an_open_dataset().try_for_each(|name| stamp.add(directory, name.to_owned()))?;
        Some(stamp)
    }

    /// The stamp with the files of each type and relation that `meta` describes, if it is of format 2. `self` has the
    /// state of `meta.json` before it was read.
    pub(crate) fn with_types(mut self, directory: &Path, meta: &Meta) -> Option<Stamp> {
        let Some(typed) = &meta.typed else { return Some(self) };
        self.version = TYPED_VERSION;
        let metagraph = typed.metagraph().ok()?;
        for node_type in metagraph.types() {
            for name in names::of_a_node_type() {
                let name = format!("{}/{}/{name}", names::NODE_TYPES, metagraph.type_name(node_type));
                self.add(directory, name)?;
            }
        }
        for relation in metagraph.relations() {
            for name in names::of_a_relation() {
                self.add(
                    directory,
                    format!("{}/{}/{name}", names::RELATIONS, metagraph.full_name(relation)),
                )?;
            }
        }
        Some(self)
    }

    /// Adds the state of a file, if it exists; `None` if the state is unknown.
    fn add(&mut self, directory: &Path, name: String) -> Option<()> {
        match fs::metadata(directory.join(&name)) {
            Ok(metadata) => {
                let modified_ns = nanoseconds(metadata.mtime(), metadata.mtime_nsec());
                let changed_ns = nanoseconds(metadata.ctime(), metadata.ctime_nsec());
                self.files.insert(name, FileState { bytes: metadata.len(), modified_ns, changed_ns });
                Some(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(()),
            Err(_) => None,
        }
    }

    /// Whether a stamp with exactly this state exists for the dataset in `directory`.
    pub(crate) fn is_left(&self, directory: &Path) -> bool {
        let read = |path: &Path| -> Option<Stamp> {
            serde_json::from_slice(&files::read_regular(path, MOST_BYTES).ok()?).ok()
        };
        if read(&directory.join(names::STAMP)).is_some_and(|stamp| stamp == *self) {
            return true;
        }
        let Some((path, dataset)) = cached(directory) else { return false };
        read(&path).is_some_and(|stamp| stamp == Stamp { dataset: Some(dataset), ..self.clone() })
    }

    /// Writes the stamp next to the files, or else in the cache directory. Returns its path, if any.
    pub(crate) fn leave(&self, directory: &Path) -> Option<PathBuf> {
        if self.is_fresh(SystemTime::now()) {
            return None;
        }
        let beside = directory.join(names::STAMP);
        if write(&beside, self).is_some() {
            return Some(beside);
        }
        let (path, dataset) = cached(directory)?;
        fs::create_dir_all(path.parent()?).ok()?;
        write(&path, &Stamp { dataset: Some(dataset), ..self.clone() })?;
        Some(path)
    }

    /// Whether a file changed so recently before `now` that another change could go unnoticed.
    fn is_fresh(&self, now: SystemTime) -> bool {
        let Ok(now) = now.duration_since(UNIX_EPOCH) else { return true };
        let whole_seconds = self.files.values().all(|file| file.changed_ns % NANOSECONDS == 0);
        let window = if whole_seconds { WHOLE_SECONDS } else { TICK };
        let oldest = now.as_nanos().cast_signed() - window.as_nanos().cast_signed();
        self.files.values().any(|file| file.changed_ns.max(file.modified_ns) > oldest)
    }
}

/// Writes the stamp atomically, so that readers never see a partial stamp. The dataset may belong to another user: an
/// existing entry of that name is replaced, and never written through.
fn write(path: &Path, stamp: &Stamp) -> Option<()> {
    files::replace(path, 0o666, &serde_json::to_vec_pretty(stamp).ok()?).ok()
}

/// The path of the stamp for the dataset in `directory` in the user's cache directory, and the directory's full path.
fn cached(directory: &Path) -> Option<(PathBuf, PathBuf)> {
    let absolute_path =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache =
        absolute_path("XDG_CACHE_HOME").or_else(|| absolute_path("HOME").map(|home| home.join(".cache")))?;
    let dataset = directory.canonicalize().ok()?;
    let name = format!("{:016x}.json", crate::hash::of_bytes(dataset.as_os_str().as_encoded_bytes()));
    Some((cache.join("uvatrain").join("stamps").join(name), dataset))
}

fn nanoseconds(seconds: i64, rest: i64) -> i128 {
    i128::from(seconds) * NANOSECONDS + i128::from(rest)
}
