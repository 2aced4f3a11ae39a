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

use crate::RuntimeError;

/// How long a directory may stay another run's. One that was killed just before is cleaned up within this time, so that
/// whoever starts it again at once is not refused.
const PATIENCE: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(20);

/// A directory of checkpoints that is this run's alone. Two runs that wrote there would each take the other's files for
/// leftovers.
///
/// The claim is a lock on the directory itself, so no file tells of it and none stays behind. It ends with the last
/// process that holds its descriptor: the janitor holds one too, and outlives what a killed launcher leaves running.
#[derive(Debug)]
pub struct CheckpointDirectory {
    path: PathBuf,
    lock: File,
    /// Made for this run: it goes again if nothing comes to lie in it.
    made: bool,
}

impl CheckpointDirectory {
    /// Claims the directory; makes it where it is missing, for the user only.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] when another run has it, or when it cannot be made or opened.
    pub fn claim(path: &Path) -> Result<Self, RuntimeError> {
        let failed = |doing: &str, error: &dyn std::fmt::Display| {
            RuntimeError::Input(format!(
                "--checkpoint {}: cannot {doing} the directory: {error}",
                path.display()
            ))
        };
        let mut made = false;
        let since = Instant::now();
        loop {
            if !path.is_dir() {
                match DirBuilder::new().recursive(true).mode(0o700).create(path) {
                    Ok(()) => made = true,
                    Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
                    Err(error) => return Err(failed("create", &error)),
                }
            }
            let lock = match File::open(path) {
                Ok(lock) => lock,
                Err(error) if error.kind() == ErrorKind::NotFound && since.elapsed() < PATIENCE => continue,
                Err(error) => return Err(failed("open", &error)),
            };
            // Any other error is of a file system that cannot lock directories: there nobody watches over them.
            let held = flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
            // Whoever had it before may have removed it: a lock on what no path leads to keeps nobody out.
            if !held && is_at(&lock, path) {
                return Ok(Self { path: path.to_owned(), lock, made });
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
    #[cfg(feature = "train")]
    pub(crate) fn share(&self) -> Result<Self, RuntimeError> {
        let lock = self.lock.try_clone().map_err(|error| {
            RuntimeError::Failed(format!("--checkpoint {}: {error}", self.path.display()))
        })?;
        Ok(Self { path: self.path.clone(), lock, made: false })
    }

    /// The claim that another process handed over.
    pub(crate) fn handed(path: PathBuf, lock: OwnedFd) -> Self {
        Self { path, lock: lock.into(), made: false }
    }

    /// Removes what a consumer that was killed may have left half-written. Not while one writes.
    pub(crate) fn remove_leftovers(&self) {
        // It is the last thing a failed run does: what cannot be removed now is removed by the next run there.
        #[cfg(feature = "train")]
        let _ = uva_train::checkpoint::remove_leftovers(&self.path);
    }
}

/// Whether the path still leads to this directory.
fn is_at(directory: &File, path: &Path) -> bool {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let (opened, named) = (directory.metadata().map(identity), fs::metadata(path).map(identity));
    matches!((opened, named), (Ok(opened), Ok(named)) if opened == named)
}

impl Drop for CheckpointDirectory {
    fn drop(&mut self) {
        if self.made {
            // Only an empty one goes; and by then every checkpoint of the run has been written.
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
            assert!(is_at(&claimed.lock, &path));
            let other = File::open(&path).unwrap();
            assert_eq!(flock(&other, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
        }
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_that_was_removed_is_not_the_one_that_was_made_in_its_place() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("kept");
        fs::create_dir(&path).unwrap();
        let directory = File::open(&path).unwrap();
        assert!(is_at(&directory, &path));
        fs::remove_dir(&path).unwrap();
        assert!(!is_at(&directory, &path));
        fs::create_dir(&path).unwrap();
        assert!(!is_at(&directory, &path));
    }
}
