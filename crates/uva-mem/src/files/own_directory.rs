//! A directory that this program fills and removes, accessed by descriptor and never through a link.
//!
//! A path can change its target at any time: another user may have replaced a directory by a link. So a directory whose
//! content is removed is opened once, checked once, and every name in it is looked up relative to its descriptor.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::read::not_regular;

/// Bits that let other users write.
const WRITE_BY_OTHERS: u32 = 0o022;

/// The type of an entry. Links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link, a pipe, a socket or a device.
    Other,
}

impl EntryKind {
    fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            _ => Self::Other,
        }
    }
}

/// The meaning of a directory's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The directory belongs to this program.
    Written,
    /// The directory has only an empty mark: its process was killed before it wrote the mark.
    Empty,
    /// The directory does not belong to this program.
    Foreign,
}

/// An open directory that belongs to this user.
#[derive(Debug)]
pub struct OwnDirectory {
    directory: File,
    path: PathBuf,
}

impl OwnDirectory {
    /// Opens the directory at `path`. A link as the last component is not followed.
    ///
    /// # Errors
    /// If a system call fails; [`io::ErrorKind::InvalidInput`] if the path is not a directory, or belongs to another
    /// user.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_at(CWD, path.as_os_str(), path)
    }

    /// Like [`open`](Self::open), and rejects a directory that other users may write to.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_private(path: &Path) -> io::Result<Self> {
        let opened = Self::open(path)?;
        refuse_writable_by_others(&opened.directory)?;
        Ok(opened)
    }

    /// Opens a directory in this one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_in(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = name.as_ref();
        Self::open_at(&self.directory, name, &self.path.join(name))
    }

    fn open_at(above: impl AsFd, name: &OsStr, path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match rustix::fs::openat(above, name, flags, Mode::empty()) {
            Ok(directory) => File::from(directory),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                let problem = "it is a link or a file, not a directory";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
            }
            Err(error) => return Err(error.into()),
        };
        let owner = directory.metadata()?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            let problem = format!("it belongs to another user (uid {owner})");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        Ok(Self { directory, path: path.to_owned() })
    }

    /// The path at which the directory was opened, for messages and for files that are only read or newly created.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether `path` refers to this directory.
    ///
    /// # Errors
    /// If a system call fails, except if the path does not exist.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        is_file_at(&self.directory, CWD, path.as_os_str())
    }

    /// Whether `name` in the directory is this file.
    ///
    /// # Errors
    /// If a system call fails, except if the name does not exist.
    pub fn has(&self, name: &str, file: &File) -> io::Result<bool> {
        is_file_at(file, &self.directory, OsStr::new(name))
    }

    /// The directory's entries, in arbitrary order.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn entries(&self) -> io::Result<Vec<(OsString, EntryKind)>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    match rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                        // The entry was removed in the meantime.
                        Err(Errno::NOENT) => continue,
                        Err(error) => return Err(error.into()),
                    }
                }
                known => known,
            };
            entries.push((OsString::from_vec(name.as_bytes().to_vec()), EntryKind::of(kind)));
        }
        Ok(entries)
    }

    /// Creates a directory in this one, with 0777 less the process's umask.
    ///
    /// # Errors
    /// If a system call fails; [`io::ErrorKind::AlreadyExists`] if the name exists.
    pub fn create_directory(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.directory, name, Mode::from_raw_mode(0o777))?)
    }

    /// Creates a file in the directory, with 0666 less the process's umask, for writing and reading.
    ///
    /// # Errors
    /// If a system call fails; [`io::ErrorKind::AlreadyExists`] if the name exists, even as a link.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.directory, name, flags, Mode::from_raw_mode(0o666))?.into())
    }

    /// Opens a regular file in the directory to lock it. With `create`, a missing file is created with mode 0600.
    ///
    /// # Errors
    /// If a system call fails; [`io::ErrorKind::InvalidInput`] for a link, and for a file that has a second name,
    /// belongs to another user or may be written by others.
    pub fn open_lock_file(&self, name: &str, create: bool) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = if create { flags | OFlags::CREATE } else { flags };
        let file = match rustix::fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => File::from(file),
            Err(Errno::LOOP) => return Err(not_regular("a link")),
            Err(Errno::NXIO) => return Err(not_regular("a socket or a device")),
            Err(error) => return Err(error.into()),
        };
        refuse_foreign_file(&file)?;
        refuse_writable_by_others(&file)?;
        Ok(file)
    }

    /// Reads the mark in a file of the directory that this process has locked.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn read_mark(&self, file: &File, mark: &[u8]) -> io::Result<Mark> {
        // A mark of another length is read far enough to differ.
        let mut content = vec![0; mark.len() + 1];
        let mut length = 0;
        while length < content.len() {
            match file.read_at(&mut content[length..], length as u64)? {
                0 => break,
                bytes => length += bytes,
            }
        }
        Ok(match &content[..length] {
            found if found == mark => Mark::Written,
            [] if self.entries()?.len() == 1 => Mark::Empty,
            _ => Mark::Foreign,
        })
    }

    /// Opens a regular file in the directory for reading. A link is not followed.
    ///
    /// # Errors
    /// If a system call fails; [`io::ErrorKind::InvalidInput`] for anything but a regular file.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match rustix::fs::openat(&self.directory, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::LOOP) => return Err(not_regular("a link")),
            Err(Errno::NXIO) => return Err(not_regular("a socket or a device")),
            Err(error) => return Err(error.into()),
        };
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(not_regular("a pipe, a device or a directory"))
        }
    }

    /// Removes a file. A missing file is not an error; a directory is.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        removed(rustix::fs::unlinkat(&self.directory, name.as_ref(), AtFlags::empty()))
    }

    /// Removes an empty directory in this one. A missing directory is not an error.
    ///
    /// # Errors
    /// If a system call fails; [`io::ErrorKind::DirectoryNotEmpty`] while it has entries.
    pub fn remove_directory(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        removed(rustix::fs::unlinkat(&self.directory, name.as_ref(), AtFlags::REMOVEDIR))
    }

    /// Removes a directory in this one with all its content.
    ///
    /// # Errors
    /// As [`open_in`](Self::open_in); the system's first error, after everything removable has been removed.
    pub fn remove_tree(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = name.as_ref();
        Self::open_at(&self.directory, name, &self.path.join(name))?.remove_content()?;
        self.remove_directory(name)
    }

    fn remove_content(&self) -> io::Result<()> {
        let mut first = Ok(());
        for (name, kind) in self.entries()? {
            let result = match kind {
                EntryKind::Directory => self.remove_tree(&name),
                EntryKind::File | EntryKind::Other => self.remove_file(&name),
            };
            first = first.and(result);
        }
        first
    }

    /// Creates a hard link in this directory to a file in `from`. A link is not followed.
    ///
    /// # Errors
    /// If a system call fails: some file systems have no hard links.
    pub fn link(&self, name: &str, from: &Self, original: &str) -> io::Result<()> {
        Ok(rustix::fs::linkat(&from.directory, original, &self.directory, name, AtFlags::empty())?)
    }

    /// Renames an entry of this directory to `to`, which must not exist: the system checks that where supported;
    /// otherwise this function checks first.
    ///
    /// # Errors
    /// If a system call fails; [`io::ErrorKind::AlreadyExists`] if `to` exists.
    pub fn rename_to(&self, name: &str, to: &Path) -> io::Result<()> {
        rename_new(&self.directory, OsStr::new(name), CWD, to.as_os_str())
    }

    /// Syncs the directory's entries to disk.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn sync(&self) -> io::Result<()> {
        self.directory.sync_all()
    }
}

/// Rejects a file that does not exclusively belong to this user: this program did not create it, and must not write to
/// it.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for anything but a regular file, a file with a second name, and one of another user.
pub fn refuse_foreign_file(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(not_regular("a pipe, a device or a directory"));
    }
    let problem = if found.uid() != rustix::process::geteuid().as_raw() {
        format!("it belongs to another user (uid {})", found.uid())
    } else if found.nlink() > 1 {
        "it has a second name (a hard link)".to_owned()
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

fn refuse_writable_by_others(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.mode() & 0o7777;
    if mode & WRITE_BY_OTHERS == 0 {
        return Ok(());
    }
    let problem = format!("other users may write to it (mode {mode:o})");
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

/// Renames `name` in `above` to `new_name` in `below`, which must not exist.
pub(super) fn rename_new(
    above: impl AsFd + Copy,
    name: &OsStr,
    below: impl AsFd + Copy,
    new_name: &OsStr,
) -> io::Result<()> {
    match rustix::fs::renameat_with(above, name, below, new_name, RenameFlags::NOREPLACE) {
        // Some file systems do not support this flag: check first then, and accept the race.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            match rustix::fs::statat(below, new_name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST.into()),
                Err(Errno::NOENT) => Ok(rustix::fs::renameat(above, name, below, new_name)?),
                Err(error) => Err(error.into()),
            }
        }
        other => Ok(other?),
    }
}

/// Whether `name` in `above` is this file.
pub(super) fn is_file_at(file: &File, above: impl AsFd, name: &OsStr) -> io::Result<bool> {
    let ours = file.metadata()?;
    match rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok((found.st_dev, found.st_ino) == (ours.dev(), ours.ino())),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn removed(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_private_directory_is_not_a_link_and_not_writable_by_others() {
        let temp = tempfile::tempdir().unwrap();
        let (real, link, file) =
            (temp.path().join("real"), temp.path().join("link"), temp.path().join("file"));
        fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        fs::write(&file, b"").unwrap();
        for path in [&link, &file] {
            let error = OwnDirectory::open(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
        fs::set_permissions(&real, Permissions::from_mode(0o777)).unwrap();
        assert!(OwnDirectory::open_private(&real).unwrap_err().to_string().contains("mode 777"));
        fs::set_permissions(&real, Permissions::from_mode(0o755)).unwrap();
        let opened = OwnDirectory::open_private(&real).unwrap();
        assert!(opened.is_at(&real).unwrap() && !opened.is_at(&link).unwrap());
        let missing = OwnDirectory::open(&temp.path().join("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn removal_takes_links_away_and_leaves_what_they_lead_to() {
        let temp = tempfile::tempdir().unwrap();
        let (own, victim) = (temp.path().join("own"), temp.path().join("victim"));
        fs::create_dir_all(own.join("inner/deeper")).unwrap();
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("film"), b"film").unwrap();
        symlink(&victim, own.join("inner/deeper/link")).unwrap();
        symlink(&victim, own.join("inner/link")).unwrap();
        fs::write(own.join("kept"), b"").unwrap();
        let directory = OwnDirectory::open(&own).unwrap();
        directory.remove_tree("inner").unwrap();
        assert_eq!(directory.entries().unwrap(), [("kept".into(), EntryKind::File)]);
        assert_eq!(fs::read(victim.join("film")).unwrap(), b"film");
    }

    #[test]
    fn names_are_looked_up_in_the_directory_that_was_opened() {
        let temp = tempfile::tempdir().unwrap();
        let (own, moved, victim) =
            (temp.path().join("own"), temp.path().join("moved"), temp.path().join("victim"));
        fs::create_dir(&own).unwrap();
        fs::create_dir(&victim).unwrap();
        for directory in [&own, &victim] {
            fs::write(directory.join("file"), b"").unwrap();
        }
        let directory = OwnDirectory::open(&own).unwrap();
        fs::rename(&own, &moved).unwrap();
        symlink(&victim, &own).unwrap();
        directory.remove_file("file").unwrap();
        assert!(victim.join("file").exists() && !moved.join("file").exists());
        assert!(!directory.is_at(&own).unwrap());
        directory.create_file("new").unwrap();
        assert!(moved.join("new").exists());
        assert_eq!(directory.create_file("new").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_lock_file_with_a_second_name_or_a_link_in_its_place_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        fs::set_permissions(temp.path(), Permissions::from_mode(0o700)).unwrap();
        let directory = OwnDirectory::open(temp.path()).unwrap();
        let lock = directory.open_lock_file("lock", true).unwrap();
        assert!(directory.has("lock", &lock).unwrap());
        fs::hard_link(temp.path().join("lock"), temp.path().join("other")).unwrap();
        assert!(directory.open_lock_file("lock", false).unwrap_err().to_string().contains("second name"));
        symlink(temp.path().join("victim"), temp.path().join("planted")).unwrap();
        assert!(directory.open_lock_file("planted", true).unwrap_err().to_string().contains("a link"));
        assert!(!temp.path().join("victim").exists());
    }
}
