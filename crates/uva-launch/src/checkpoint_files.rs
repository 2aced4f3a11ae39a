//! The directory of a run's checkpoints, for a launcher and a janitor without a trainer: its claim, and the leftovers
//! of a failed run.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use uva_mem::files::{Replacement, open_lock_file};

use uva_runtime::RuntimeError;

/// Maximum wait for a directory that another run has claimed. A run that was just killed is cleaned up within this
/// time, so an immediate restart is not refused.
const PATIENCE: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(20);

/// The file that the claim locks. Its mode is 0600: every user who may read the directory could lock the directory
/// itself. With a checkpoint, the file stays.
pub(crate) const LOCK: &str = ".uvatrain-lock";
/// The file whose presence makes a directory a checkpoint.
pub(crate) const STATE: &str = "checkpoint.json";

/// A directory of checkpoints that this run has claimed. Two runs in one directory would each treat the other's files
/// as leftovers.
///
/// The claim is a lock on a file in it. It ends with the last process that holds the file's descriptor. The janitor
/// holds a descriptor too, and outlives the processes that a killed launcher leaves running.
#[derive(Debug)]
pub struct CheckpointDirectory {
    path: PathBuf,
    lock: File,
    /// Whether it was created for this run. It is then removed again if it stays empty.
    made: bool,
    /// Whether this is the run's first hold on the claim, which tidies up when it ends.
    first: bool,
}

impl CheckpointDirectory {
    /// Claims the directory. A missing directory is created, accessible only to the user. A file is created in it and
    /// removed again, as for the first checkpoint, so that an error occurs now and not after an epoch.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] if another run has claimed it, or it cannot be created or written.
    pub fn claim(path: &Path) -> Result<Self, RuntimeError> {
        let failed = |doing: &str, error: &dyn std::fmt::Display| {
            RuntimeError::input(format!("cannot {doing}: {error}"))
                .with_path_option("checkpoint", path)
                .with_remedy("use a directory that this user can write to")
        };
        let lock_path = path.join(LOCK);
        let mut made = false;
        let since = Instant::now();
        loop {
            if !path.is_dir() {
                match DirBuilder::new().recursive(true).mode(0o700).create(path) {
                    Ok(()) => made = true,
                    Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
                    Err(error) => return Err(failed("create the directory", &error)),
                }
            }
            let lock = match open_lock_file(&lock_path, true) {
                Ok(lock) => lock,
                Err(error) if error.kind() == ErrorKind::NotFound && since.elapsed() < PATIENCE => continue,
                Err(error) => return Err(failed(&format!("write to the directory ({LOCK})"), &error)),
            };
            // Any other error comes from a file system without locks, where other runs cannot be excluded.
            let held = flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
            // The previous holder may have removed the file, and a lock on a file without a path excludes no other run.
            if !held && is_at(&lock, &lock_path) {
                let claimed = Self { path: path.to_owned(), lock, made, first: true };
                // A link is replaced; a directory of that name would block the first checkpoint.
                if fs::symlink_metadata(path.join(STATE)).is_ok_and(|state| state.is_dir()) {
                    return Err(failed("write to the directory", &format!("{STATE} is a directory")));
                }
                Replacement::of(&path.join(STATE), 0o600)
                    .map_err(|error| failed("write to the directory", &error))?;
                return Ok(claimed);
            }
            if since.elapsed() > PATIENCE {
                return Err(RuntimeError::input("another run writes its checkpoints to this directory")
                    .with_path_option("checkpoint", path)
                    .with_remedy("wait until that run has ended, or use another directory"));
            }
            thread::sleep(INTERVAL);
        }
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The lock, for other processes: a process that holds it excludes other runs.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// Another hold on the same claim.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if no descriptor can be allocated.
    pub(crate) fn share(&self) -> Result<Self, RuntimeError> {
        let lock = self.lock.try_clone().map_err(|error| {
            RuntimeError::failed(error.to_string()).with_path_option("checkpoint", &self.path)
        })?;
        Ok(Self { path: self.path.clone(), lock, made: false, first: false })
    }

    /// A claim received from another process.
    pub(crate) fn handed(path: PathBuf, lock: OwnedFd) -> Self {
        Self { path, lock: lock.into(), made: false, first: false }
    }

    /// Removes files that a killed consumer may have left half-written. Must not be called while a consumer writes.
    pub(crate) fn remove_leftovers(&self) {
        // This is the last action of a failed run; the next run there removes what cannot be removed now.
        let _ = uva_model::checkpoint::remove_leftovers(&self.path);
    }
}

/// Whether the path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let (opened, named) = (file.metadata().map(identity), fs::symlink_metadata(path).map(identity));
    matches!((opened, named), (Ok(opened), Ok(named)) if opened == named)
}

impl Drop for CheckpointDirectory {
    fn drop(&mut self) {
        // By now every checkpoint of the run has been written. Without a checkpoint no trace of the run is needed.
        let (lock, state) = (self.path.join(LOCK), self.path.join(STATE));
        if !self.first || !is_at(&self.lock, &lock) || fs::symlink_metadata(state).is_ok() {
            return;
        }
        let _ = fs::remove_file(lock);
        if self.made {
            // Removes it only if it is empty.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_waiter_for_a_removed_directory_gets_one_that_others_see() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("kept");
        for _ in 0..20 {
            let maker = CheckpointDirectory::claim(&path).unwrap();
            let (waits, waiting) = mpsc::channel();
            let waiter = thread::spawn({
                let path = path.clone();
                move || {
                    waits.send(()).unwrap();
                    CheckpointDirectory::claim(&path).unwrap()
                }
            });
            waiting.recv().unwrap();
            drop(maker);
            let claimed = waiter.join().unwrap();
            assert!(is_at(&claimed.lock, &path.join(LOCK)));
            let other = File::open(path.join(LOCK)).unwrap();
            assert_eq!(flock(&other, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
        }
        // A process that opened the directory before its creator removed it did not create it. It leaves the directory
        // in place, but empty.
        let left = fs::read_dir(&path).map_or(0, Iterator::count);
        assert_eq!(left, 0);
    }

    #[test]
    fn a_directory_that_was_removed_is_not_the_one_that_was_made_in_its_place() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("kept");
        let claimed = CheckpointDirectory::claim(&path).unwrap();
        assert!(is_at(&claimed.lock, &path.join(LOCK)));
        fs::remove_dir_all(&path).unwrap();
        assert!(!is_at(&claimed.lock, &path.join(LOCK)));
        let second = CheckpointDirectory::claim(&path).unwrap();
        drop(claimed);
        assert!(is_at(&second.lock, &path.join(LOCK)), "the first took the second's lock with it");
    }

    #[test]
    fn a_lock_on_the_directory_blocks_no_run_and_the_locks_file_is_private() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("kept");
        fs::create_dir(&path).unwrap();
        // A user who may read the directory can take this lock.
        let readers = File::open(&path).unwrap();
        flock(&readers, FlockOperation::NonBlockingLockExclusive).unwrap();
        let claimed = CheckpointDirectory::claim(&path).unwrap();
        assert_eq!(fs::metadata(path.join(LOCK)).unwrap().mode() & 0o777, 0o600);
        drop(claimed);
        assert!(!path.join(LOCK).exists(), "without a checkpoint nothing stays");
        assert!(path.exists(), "it was there before the run");
        fs::write(path.join(STATE), "{}").unwrap();
        drop(CheckpointDirectory::claim(&path).unwrap());
        assert!(path.join(LOCK).exists());
    }

    #[test]
    fn a_planted_lock_is_refused_by_name_and_not_touched() {
        let temp = tempfile::tempdir().unwrap();
        let (path, victim) = (temp.path().join("kept"), temp.path().join("victim"));
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink(&victim, path.join(LOCK)).unwrap();
        let error = CheckpointDirectory::claim(&path).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("checkpoint=") && error.to_string().contains(LOCK), "{error}");
        assert!(!victim.exists());
    }
}
