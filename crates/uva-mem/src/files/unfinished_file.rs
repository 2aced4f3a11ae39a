//! A file written under a temporary name by one process at a time, and resumable by a later process.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use super::own_directory::{is_file_at, refuse_foreign_file, rename_new};
use super::read::open_own;

/// A locked file with a temporary name, to be renamed to its final name.
///
/// The lock is on the file itself, and ends with its process. So if several processes write the same output, one of
/// them holds the file, and a later process finds either an unlocked file or no file.
#[derive(Debug)]
pub struct UnfinishedFile {
    file: File,
    path: PathBuf,
}

impl UnfinishedFile {
    /// Creates a file, with 0666 less the process's umask, that is named only after `prepare` has succeeded and the
    /// file is locked: a process that ends earlier leaves no file. On file systems without nameless files, a process
    /// killed within `prepare` leaves the file.
    ///
    /// # Errors
    /// Errors of `prepare`; if a system call fails; [`io::ErrorKind::AlreadyExists`] if the name exists.
    pub fn create(path: &Path, prepare: impl Fn(&File) -> io::Result<()>) -> io::Result<Self> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mode = Mode::from_raw_mode(0o666);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        if let Ok(file) = rustix::fs::open(parent, flags, mode).map(File::from) {
            lock(&file)?;
            prepare(&file)?;
            let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
            match rustix::fs::linkat(CWD, unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW) {
                Ok(()) => return Ok(Self { file, path: path.to_owned() }),
                Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
                // There is no /proc, or the file system does not support such a link.
                Err(_) => {}
            }
        }
        let file = File::create_new(path)?;
        let created = Self { file, path: path.to_owned() };
        match lock(&created.file).and_then(|()| prepare(&created.file)) {
            Ok(()) => Ok(created),
            Err(error) => {
                let _ = created.remove();
                Err(error)
            }
        }
    }

    /// Opens and locks the file that an earlier process left.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; [`io::ErrorKind::WouldBlock`] while another process holds it;
    /// [`io::ErrorKind::InvalidInput`] for a link, a file with a second name, one of another user, and anything but a
    /// regular file; otherwise if a system call fails.
    pub fn open(path: &Path) -> io::Result<Self> {
        loop {
            let file = open_own(path)?;
            refuse_foreign_file(&file)?;
            lock(&file)?;
            let opened = Self { file, path: path.to_owned() };
            // The previous owner may have removed or renamed the file before it released the lock.
            if opened.has_name()? {
                return Ok(opened);
            }
        }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still refers to this file.
    fn has_name(&self) -> io::Result<bool> {
        is_file_at(&self.file, CWD, self.path.as_os_str())
    }

    /// Removes the file. Another file that has taken its path is kept.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn remove(self) -> io::Result<()> {
        if self.has_name()? { Ok(rustix::fs::unlinkat(CWD, &self.path, AtFlags::empty())?) } else { Ok(()) }
    }

    /// Renames the file, which stays locked. With `replaces`, an existing file is replaced.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] unless `replaces`, if the name exists; [`io::ErrorKind::NotFound`] if the
    /// file's own name has been removed; otherwise if a system call fails.
    pub fn rename(&mut self, to: &Path, replaces: bool) -> io::Result<()> {
        if !self.has_name()? {
            let problem = "it was removed or replaced while this process wrote it";
            return Err(io::Error::new(io::ErrorKind::NotFound, problem));
        }
        let from: &OsStr = self.path.as_os_str();
        if replaces {
            rustix::fs::renameat(CWD, from, CWD, to)?;
        } else {
            rename_new(CWD, from, CWD, to.as_os_str())?;
        }
        to.clone_into(&mut self.path);
        Ok(())
    }
}

fn lock(file: &File) -> io::Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(Errno::WOULDBLOCK.into()),
        // A file system without locks is accepted.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::files::testing::entries;

    #[test]
    fn a_file_has_its_name_once_it_is_prepared_and_locked() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("part");
        let failed = UnfinishedFile::create(&path, |_| Err(Errno::FBIG.into()));
        assert_eq!(failed.unwrap_err().raw_os_error(), Some(Errno::FBIG.raw_os_error()));
        assert!(entries(temp.path()).is_empty());
        let mut first = UnfinishedFile::create(&path, |mut file| file.write_all(b"mark")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"mark");
        let second = UnfinishedFile::create(&path, |_| Ok(()));
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(UnfinishedFile::open(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // The file stays locked under its new name, so that another process waits.
        let last = temp.path().join("last");
        first.rename(&last, false).unwrap();
        assert_eq!(UnfinishedFile::open(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(UnfinishedFile::open(&last).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(first);
        UnfinishedFile::open(&last).unwrap().remove().unwrap();
        assert!(entries(temp.path()).is_empty());
    }

    #[test]
    fn a_file_that_lost_its_name_neither_replaces_nor_removes_another() {
        let temp = tempfile::tempdir().unwrap();
        let (path, to) = (temp.path().join("part"), temp.path().join("to"));
        let mut unfinished = UnfinishedFile::create(&path, |_| Ok(())).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"mine").unwrap();
        assert_eq!(unfinished.rename(&to, true).unwrap_err().kind(), io::ErrorKind::NotFound);
        unfinished.remove().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        let mut other = UnfinishedFile::create(&to, |_| Ok(())).unwrap();
        assert_eq!(other.rename(&path, false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        other.rename(&path, true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn links_and_files_with_a_second_name_are_not_opened() {
        let temp = tempfile::tempdir().unwrap();
        let (victim, link, second) =
            (temp.path().join("victim"), temp.path().join("link"), temp.path().join("second"));
        fs::write(&victim, b"mine").unwrap();
        symlink(&victim, &link).unwrap();
        assert_eq!(UnfinishedFile::open(&link).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        fs::hard_link(&victim, &second).unwrap();
        assert_eq!(UnfinishedFile::open(&second).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let taken = UnfinishedFile::create(&link, |_| Ok(()));
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
