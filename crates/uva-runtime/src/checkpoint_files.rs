//! The directory of a run's checkpoints, as launcher and janitor see it, which have no trainer: whose it is, and what a
//! failed run leaves in it.

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

use crate::RuntimeError;

/// How long a directory may stay another run's. One that was killed just before is cleaned up within this time, so that
/// whoever starts it again at once is not refused.
const PATIENCE: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(20);

/// The file that the claim is a lock on. Its mode is 0600: a lock on the directory itself could be held by every user who
/// may read it. It stays beside a checkpoint.
const LOCK: &str = ".uvatrain-lock";
/// The name that a checkpoint counts by.
const STATE: &str = "checkpoint.json";

/// A directory of checkpoints that is this run's alone. Two runs that wrote there would each take the other's files for
/// leftovers.
///
/// The claim is a lock on a file in it. It ends with the last process that holds the file's descriptor: the janitor holds
/// one too, and outlives what a killed launcher leaves running.
#[derive(Debug)]
pub struct CheckpointDirectory {
    path: PathBuf,
    lock: File,
    /// Made for this run: it goes again if nothing comes to lie in it.
    made: bool,
    /// The run's first hold on the claim, which tidies up when it ends.
    first: bool,
}

impl CheckpointDirectory {
    /// Claims the directory; makes it where it is missing, for the user only. A file is made in it and removed again, as
    /// the first checkpoint would be made: better now than after an epoch.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] when another run has it, or when it cannot be made or written.
    pub fn claim(path: &Path) -> Result<Self, RuntimeError> {
        let failed = |doing: &str, error: &dyn std::fmt::Display| {
            RuntimeError::Input(format!(
                "--checkpoint {}: cannot {doing}: {error}; name a directory that this user may write",
                path.display()
            ))
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
                Err(error) => return Err(failed(&format!("write in the directory ({LOCK})"), &error)),
            };
            // Any other error is of a file system that cannot lock files: there nobody watches over them.
            let held = flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
            // Whoever had it before may have removed it: a lock on what no path leads to keeps nobody out.
            if !held && is_at(&lock, &lock_path) {
                let claimed = Self { path: path.to_owned(), lock, made, first: true };
                // A link is replaced; a directory would keep the first checkpoint from its name.
                if fs::symlink_metadata(path.join(STATE)).is_ok_and(|state| state.is_dir()) {
                    return Err(failed("write in the directory", &format!("{STATE} there is a directory")));
                }
                Replacement::of(&path.join(STATE), 0o600)
                    .map_err(|error| failed("write in the directory", &error))?;
                return Ok(claimed);
            }
            if since.elapsed() > PATIENCE {
                return Err(RuntimeError::Input(format!(
                    "--checkpoint {}: another run is writing its checkpoints there; wait for its end, or name \
                     another directory",
                    path.display()
                )));
            }
            thread::sleep(INTERVAL);
        }
    }

    /// What it is called.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The lock, to hand over: whoever has it keeps other runs out.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// Another hold on the same claim.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] when the system gives no descriptor.
    pub(crate) fn share(&self) -> Result<Self, RuntimeError> {
        let lock = self.lock.try_clone().map_err(|error| {
            RuntimeError::Failed(format!("--checkpoint {}: {error}", self.path.display()))
        })?;
        Ok(Self { path: self.path.clone(), lock, made: false, first: false })
    }

    /// The claim that another process handed over.
    pub(crate) fn handed(path: PathBuf, lock: OwnedFd) -> Self {
        Self { path, lock: lock.into(), made: false, first: false }
    }

    /// Removes what a consumer that was killed may have left half-written. Not while one writes.
    pub(crate) fn remove_leftovers(&self) {
        // It is the last thing a failed run does: what cannot be removed now is removed by the next run there.
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
        // By then every checkpoint of the run has been written. Without one nothing tells of the run.
        let (lock, state) = (self.path.join(LOCK), self.path.join(STATE));
        if !self.first || !is_at(&self.lock, &lock) || fs::symlink_metadata(state).is_ok() {
            return;
        }
        let _ = fs::remove_file(lock);
        if self.made {
            // Only an empty one goes.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn whoever_waits_for_a_directory_that_its_maker_removes_gets_one_that_others_see() {
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
        assert!(!path.exists());
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
    fn a_lock_on_the_directory_itself_keeps_no_run_out_and_the_lock_s_file_is_the_user_s_alone() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("kept");
        fs::create_dir(&path).unwrap();
        // Whoever may read the directory can take this one.
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
    fn what_was_planted_in_the_place_of_the_lock_is_refused_by_name_and_not_touched() {
        let temp = tempfile::tempdir().unwrap();
        let (path, victim) = (temp.path().join("kept"), temp.path().join("victim"));
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink(&victim, path.join(LOCK)).unwrap();
        let error = CheckpointDirectory::claim(&path).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--checkpoint") && error.to_string().contains(LOCK), "{error}");
        assert!(!victim.exists());
    }
}
