//! Atomic creation and replacement of files, and the temporary names of unfinished files.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use super::own_directory::rename_new;
use super::random_words::{is_word, random_word};

/// Atomically writes `contents` to `target`, with the permissions `mode` less the process's umask. Does not sync to
/// disk.
///
/// # Errors
/// As [`Replacement`].
pub fn replace(target: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
    let mut replacement = Replacement::of(target, mode)?;
    replacement.file().write_all(contents)?;
    replacement.commit()
}

/// Writes a file that must not exist yet.
///
/// # Errors
/// If a system call fails; [`io::ErrorKind::AlreadyExists`] if the name exists, even as a link.
pub fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    File::create_new(path)?.write_all(contents)
}

/// A new file that atomically replaces the file at its target path.
///
/// Where the file system supports it, the file has no name until [`commit`](Self::commit), so a killed process leaves
/// no file. Elsewhere it has a random name, `.NAME.<16 hex digits>.partial`, made with `O_EXCL`. All names are looked
/// up in the directory as it was opened. A link at the target's name is replaced, not followed.
///
/// Dropping it instead of committing removes the file.
#[derive(Debug)]
pub struct Replacement {
    directory: OwnedFd,
    name: OsString,
    target: PathBuf,
    file: File,
    /// The temporary name of the file.
    partial: Option<OsString>,
}

impl Replacement {
    /// Opens a new, empty file that [`commit`](Self::commit) names `target`, with the permissions `mode` less the process's
    /// umask.
    ///
    /// # Errors
    /// If `target` is not a file name, or its directory cannot be opened or written.
    pub fn of(target: &Path, mode: u32) -> io::Result<Replacement> {
        let name = target.file_name().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "the path does not end with the name of a file")
        })?;
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, Mode::empty())?;
        let mode = Mode::from_raw_mode(mode);
        let (file, partial) = match unnamed(&directory, mode) {
            Some(file) => (file, None),
            None => {
                let partial = random_name(name)?;
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                (rustix::fs::openat(&directory, &partial, flags, mode)?.into(), Some(partial))
            }
        };
        Ok(Replacement { directory, name: name.to_owned(), target: target.to_owned(), file, partial })
    }

    /// The file, for writing.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// A second descriptor of the file, for reading the written content.
    ///
    /// # Errors
    /// If the system has no free descriptor.
    pub fn written(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// The path of the file after the commit.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Renames the file to its target, and replaces an earlier file. If the file must survive a power failure, call
    /// [`File::sync_all`] before, and [`sync_directory`](Self::sync_directory) after.
    ///
    /// # Errors
    /// If a system call fails; the earlier file is then unchanged, and the new one removed.
    pub fn commit(&mut self) -> io::Result<()> {
        let partial = match &self.partial {
            Some(partial) => partial,
            None => self.partial.insert(self.link()?),
        };
        rustix::fs::renameat(&self.directory, partial, &self.directory, &self.name)?;
        // The temporary name is gone, so `Drop` must not look for it.
        self.partial = None;
        Ok(())
    }

    /// Like [`commit`](Self::commit), but the target must not exist.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the name exists, even as a link; otherwise if a system call fails. The new
    /// file is then removed.
    pub fn commit_new(&mut self) -> io::Result<()> {
        match self.partial.take() {
            Some(partial) => {
                let renamed = rename_new(&self.directory, &partial, &self.directory, &self.name);
                if renamed.is_err() {
                    self.partial = Some(partial);
                }
                renamed
            }
            None => Ok(self.link_as(&self.name)?),
        }
    }

    /// Gives the unnamed file a random name: `link` cannot replace an existing file, but `rename` can.
    fn link(&self) -> io::Result<OsString> {
        let partial = random_name(&self.name)?;
        self.link_as(&partial)?;
        Ok(partial)
    }

    fn link_as(&self, name: &OsStr) -> rustix::io::Result<()> {
        let unnamed = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(CWD, unnamed, &self.directory, name, AtFlags::SYMLINK_FOLLOW)
    }

    /// Syncs the directory's entries to disk.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn sync_directory(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.directory, ".", flags, Mode::empty())?;
        Ok(rustix::fs::fsync(directory)?)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            let _ = rustix::fs::unlinkat(&self.directory, partial, AtFlags::empty());
        }
    }
}

/// Temporary name of a nameless file, on file systems without support for nameless files.
pub const SCRATCH: &str = "scratch";

/// Creates an empty file in `directory` without a name, so that it is freed with its last descriptor and mapping, even
/// if the process is killed. On file systems without support for nameless files, it briefly has a random name.
///
/// # Errors
/// If the directory cannot be opened or written.
pub fn nameless(directory: &Path) -> io::Result<File> {
    // Dropping without `commit` removes a temporary name.
    Replacement::of(&directory.join(SCRATCH), 0o600)?.file().try_clone()
}

/// A nameless file in `directory`, if the file system supports that and /proc can link it later.
fn unnamed(directory: &OwnedFd, mode: Mode) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(directory, ".", flags, mode).ok()?);
    fs::metadata(format!("/proc/self/fd/{}", file.as_raw_fd())).is_ok().then_some(file)
}

/// An unpredictable temporary name derived from `name`.
fn random_name(name: &OsStr) -> io::Result<OsString> {
    let mut partial = OsString::from(".");
    // A file's name has at most 255 bytes.
    let shown = name.as_encoded_bytes();
    partial.push(if shown.len() <= 200 { name } else { OsStr::new("long-name") });
    partial.push(format!(".{:016x}.partial", random_word()?));
    Ok(partial)
}

/// The target name of an unfinished file, whose process ended before it could rename it. Accepts exactly the names that
/// [`Replacement`] creates.
pub fn target_of_partial(name: &OsStr) -> Option<&str> {
    let (target, word) = name.to_str()?.strip_prefix('.')?.strip_suffix(".partial")?.rsplit_once('.')?;
    (is_word(word) && !target.is_empty()).then_some(target)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::files::testing::entries;

    #[test]
    fn a_replacement_takes_the_name_whole_and_leaves_a_link_s_target_alone() {
        let temp = tempfile::tempdir().unwrap();
        let (victim, target) = (temp.path().join("victim"), temp.path().join("target"));
        fs::write(&victim, b"mine").unwrap();
        symlink(&victim, &target).unwrap();
        let mut replacement = Replacement::of(&target, 0o600).unwrap();
        replacement.file().write_all(b"new").unwrap();
        replacement.commit().unwrap();
        replacement.sync_directory().unwrap();
        drop(replacement);
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert!(fs::symlink_metadata(&target).unwrap().is_file());
        assert_eq!(entries(temp.path()), ["target", "victim"]);
    }

    #[test]
    fn a_new_file_replaces_nothing_whether_it_had_a_name_or_not() {
        let temp = tempfile::tempdir().unwrap();
        let target = temp.path().join("target");
        let mut first = Replacement::of(&target, 0o600).unwrap();
        let mut second = Replacement::of(&target, 0o600).unwrap();
        let mut named = Replacement::of(&target, 0o600).unwrap();
        if named.partial.is_none() {
            named.partial = Some(named.link().unwrap());
        }
        first.file().write_all(b"first").unwrap();
        first.commit_new().unwrap();
        for late in [&mut second, &mut named] {
            assert_eq!(late.commit_new().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        drop((second, named));
        assert_eq!(fs::read(&target).unwrap(), b"first");
        assert_eq!(entries(temp.path()), ["target"]);
    }

    #[test]
    fn a_replacement_that_is_dropped_leaves_nothing_with_or_without_a_name() {
        let temp = tempfile::tempdir().unwrap();
        let target = temp.path().join("target");
        fs::write(&target, b"old").unwrap();
        drop(Replacement::of(&target, 0o600).unwrap());
        let mut named = Replacement::of(&target, 0o600).unwrap();
        named.partial = Some(random_name(OsStr::new("target")).unwrap());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let partial = named.partial.clone().unwrap();
        named.file = rustix::fs::openat(&named.directory, &partial, flags, Mode::RUSR).unwrap().into();
        assert_eq!(entries(temp.path()).len(), 2);
        drop(named);
        assert_eq!(entries(temp.path()), ["target"]);
        assert_eq!(fs::read(&target).unwrap(), b"old");
    }

    #[test]
    fn only_exact_names_of_unfinished_files_match() {
        let name = random_name(OsStr::new("checkpoint.json")).unwrap();
        assert_eq!(target_of_partial(&name), Some("checkpoint.json"));
        for other in [
            "checkpoint.json.0123456789abcdef.partial",
            ".checkpoint.json.0123456789ABCDEF.partial",
            ".checkpoint.json.0123456789abcde.partial",
            ".checkpoint.json.partial",
            ".0123456789abcdef.partial",
            ".checkpoint.json.0123456789abcdef.partial2",
        ] {
            assert_eq!(target_of_partial(OsStr::new(other)), None, "{other}");
        }
    }

    #[test]
    fn a_new_file_takes_no_name_that_is_taken_not_even_by_a_link() {
        let temp = tempfile::tempdir().unwrap();
        let link = temp.path().join("link");
        symlink(temp.path().join("victim"), &link).unwrap();
        assert_eq!(write_new(&link, b"a").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(entries(temp.path()), ["link"]);
        write_new(&temp.path().join("new"), b"a").unwrap();
    }

    #[test]
    fn a_path_that_names_no_file_is_refused() {
        for path in ["/", ".."] {
            assert_eq!(
                Replacement::of(Path::new(path), 0o600).unwrap_err().kind(),
                io::ErrorKind::InvalidInput
            );
        }
        assert_eq!(
            Replacement::of(Path::new("/nowhere/file"), 0o600).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
