//! Files opened and written without trust in what others may have put in their place.
//!
//! Paths come from users, and directories may belong to others. A name can lead to a FIFO, which would block whoever opens
//! it, to a device, which never ends, or through a link to a file of the caller's. So everything the program reads goes
//! through [`open_regular`] or [`read_regular`], and everything it puts in a file's place through [`Replacement`]. Only
//! what the user named as an output, and may well be a pipe or a terminal, goes through [`open_output`].
//!
//! `clippy.toml` forbids the direct ways: this file is where they are allowed.
#![allow(clippy::disallowed_methods, reason = "the one place where files are opened by name")]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// Opens the regular file at `path` for reading. Links are followed.
///
/// It never waits: what is no regular file is refused before a byte is read.
///
/// # Errors
/// The system's answer; [`io::ErrorKind::IsADirectory`] for a directory, and [`io::ErrorKind::InvalidInput`] for a FIFO, a
/// socket or a device.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // A FIFO without a writer opens at once with NONBLOCK; of regular files the flag changes nothing.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        // A socket's name, or a device without a driver.
        Err(Errno::NXIO) => return Err(not_regular("a socket or a device")),
        Err(error) => return Err(error.into()),
    };
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    Err(if kind.is_dir() {
        io::Error::new(io::ErrorKind::IsADirectory, "it is a directory, not a file")
    } else if kind.is_fifo() {
        not_regular("a named pipe")
    } else {
        not_regular("a device")
    })
}

fn not_regular(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file"))
}

/// Whether an error of opening or reading is about what lies under the name, and not about the system: nothing, no regular
/// file, one too large or of other text, links that lead to each other, a name longer than the system takes. Then another
/// path mends it.
pub fn is_about_the_name(error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::InvalidFilename => true,
        // The system says these about other things too; without its number they are from here.
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::FileTooLarge => {
            error.raw_os_error().is_none()
        }
        // Links that lead to each other have a kind of their own, which Rust keeps to itself.
        _ => error.raw_os_error() == Some(Errno::LOOP.raw_os_error()),
    }
}

/// Reads the whole of the regular file at `path`, which has to have at most `most` bytes.
///
/// # Errors
/// As [`open_regular`]; [`io::ErrorKind::FileTooLarge`] for a larger file, of which nothing is read.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let too_large = |bytes: u64| {
        io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has {bytes} bytes, and at most {most} are read of such a file"),
        )
    };
    let bytes = file.metadata()?.len();
    if bytes > most {
        return Err(too_large(bytes));
    }
    let mut contents = Vec::new();
    // Files of /proc say that they have no bytes, and any file may grow meanwhile: the bound is on what is read.
    file.take(most.saturating_add(1)).read_to_end(&mut contents)?;
    if contents.len() as u64 > most {
        return Err(too_large(contents.len() as u64));
    }
    Ok(contents)
}

/// [`read_regular`] of a file of UTF-8 text.
///
/// # Errors
/// As [`read_regular`], and [`io::ErrorKind::InvalidData`] for other bytes.
pub fn read_regular_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read_regular(path, most)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("its byte {at} is not UTF-8 text"))
    })
}

/// The text of a file of /proc or /sys, which the kernel writes: not for paths that anybody names.
///
/// # Errors
/// The system's answer, and other bytes than UTF-8.
pub fn read_kernel_text(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read_to_string(path)
}

/// The bytes of such a file.
///
/// # Errors
/// The system's answer.
pub fn read_kernel(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Opens a directory, to lock it, to synchronise it, or to look names up in it.
///
/// # Errors
/// The system's answer, which for anything but a directory is [`io::ErrorKind::NotADirectory`]: a FIFO is not waited for.
pub fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Opens a regular file to hold a lock on it; with `create` it is made where there is none, with mode 0600, so that no
/// other user can open it and take the lock. Nothing is read or written. A link is refused.
///
/// # Errors
/// The system's answer; [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub fn open_lock_file(path: &Path, create: bool) -> io::Result<File> {
    // For writing too: a lock on a network file system may need it.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = if create { flags | OFlags::CREATE } else { flags };
    let file = match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => return Err(not_regular("a link")),
        Err(Errno::NXIO) => return Err(not_regular("a socket or a device")),
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular("a pipe or a device")) }
}

/// What becomes of the content of a regular file that is opened as an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Former {
    /// It goes.
    Truncated,
    /// It stays, and what is written follows it.
    Kept,
}

/// How long a named pipe may be without a reader. One that is started in the same breath is there within that time.
const PIPE_PATIENCE: Duration = Duration::from_secs(5);
const PIPE_INTERVAL: Duration = Duration::from_millis(10);

/// Opens what the user named as an output for writing: a regular file, which is made with the permissions `mode` less the
/// process's umask where there is none, a pipe, a terminal or a device. Links are followed.
///
/// # Errors
/// The system's answer; [`io::ErrorKind::InvalidInput`] for a named pipe that nobody reads within five seconds.
pub fn open_output(path: &Path, mode: u32, former: Former) -> io::Result<File> {
    // Without NONBLOCK a pipe that nobody reads would be waited for without end.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = if former == Former::Kept { flags | OFlags::APPEND } else { flags };
    let since = Instant::now();
    let file = loop {
        match rustix::fs::open(path, flags, Mode::from_raw_mode(mode)) {
            Ok(file) => break File::from(file),
            Err(Errno::NXIO) if !is_fifo(path) => {
                return Err(not_regular("a socket or a device without a driver"));
            }
            Err(Errno::NXIO) if since.elapsed() < PIPE_PATIENCE => thread::sleep(PIPE_INTERVAL),
            Err(Errno::NXIO) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "it is a named pipe that nobody reads: start its reader first",
                ));
            }
            Err(error) => return Err(error.into()),
        }
    };
    if former == Former::Truncated && file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    // From here on a reader that is slow is waited for.
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

fn is_fifo(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Writes `contents` to the output that the user named. A regular file is replaced in one step and keeps its permissions; a
/// new one gets 0666 less the process's umask. Of a link the file that it leads to is replaced. A pipe, a terminal or a
/// device is written to.
///
/// # Errors
/// As [`open_output`] and [`Replacement`].
pub fn write_output(path: &Path, contents: &[u8]) -> io::Result<()> {
    let former = fs::metadata(path).ok();
    if former.as_ref().is_some_and(|metadata| !metadata.is_file()) {
        return open_output(path, 0o666, Former::Truncated)?.write_all(contents);
    }
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut replacement = match Replacement::of(&target, 0o666) {
        // A file that may be written in a directory that may not: there is only the file itself to write to.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && former.is_some() => {
            return open_output(&target, 0o666, Former::Truncated)?.write_all(contents);
        }
        other => other?,
    };
    if let Some(former) = former {
        let permissions = fs::Permissions::from_mode(former.permissions().mode() & 0o777);
        replacement.file().set_permissions(permissions)?;
    }
    replacement.file().write_all(contents)?;
    replacement.commit()
}

/// Puts `contents` at `target` in one step, with the permissions `mode` less the process's umask. It is not waited until
/// they are on the disk.
///
/// # Errors
/// As [`Replacement`].
pub fn replace(target: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
    let mut replacement = Replacement::of(target, mode)?;
    replacement.file().write_all(contents)?;
    replacement.commit()
}

/// Writes a file that must not be there yet.
///
/// # Errors
/// The system's answer, [`io::ErrorKind::AlreadyExists`] where anything has the name, a link included.
pub fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    File::create_new(path)?.write_all(contents)
}

/// A new file on its way to a name, where it takes the place of an earlier one in one step.
///
/// Where the file system can, the file has no name until [`commit`](Self::commit), so a killed process leaves nothing
/// behind. Elsewhere it has a random one, `.NAME.<16 hex digits>.partial`, made with `O_EXCL`. All names are looked up in
/// the directory as it was opened. A link that lies under the target's name is replaced, not followed.
///
/// Dropping it instead of committing removes the file.
#[derive(Debug)]
pub struct Replacement {
    directory: OwnedFd,
    name: OsString,
    target: PathBuf,
    file: File,
    /// The name that the file has meanwhile.
    partial: Option<OsString>,
}

impl Replacement {
    /// Opens a new, empty file that [`commit`](Self::commit) names `target`, with the permissions `mode` less the process's
    /// umask.
    ///
    /// # Errors
    /// Where `target` names no file, or its directory cannot be opened or written.
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

    /// The file, to be written.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The path it will have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Gives the file its name, and removes what had it. Call [`File::sync_all`] before, and
    /// [`sync_directory`](Self::sync_directory) after, where the file has to survive a power failure.
    ///
    /// # Errors
    /// The system's answer; the earlier file is then as it was, and the new one gone.
    pub fn commit(&mut self) -> io::Result<()> {
        let partial = match &self.partial {
            Some(partial) => partial,
            None => self.partial.insert(self.link()?),
        };
        rustix::fs::renameat(&self.directory, partial, &self.directory, &self.name)?;
        // `Drop` finds nothing of this name any more.
        self.partial = None;
        Ok(())
    }

    /// Gives the unnamed file a random name, since a link cannot replace what is there and a rename can.
    fn link(&self) -> io::Result<OsString> {
        let partial = random_name(&self.name)?;
        let unnamed = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(CWD, unnamed, &self.directory, &partial, AtFlags::SYMLINK_FOLLOW)?;
        Ok(partial)
    }

    /// Waits until the directory's names are on the disk.
    ///
    /// # Errors
    /// The system's answer.
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

/// A file without a name in `directory`, where the file system has such files and /proc can name them later.
fn unnamed(directory: &OwnedFd, mode: Mode) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(directory, ".", flags, mode).ok()?);
    fs::metadata(format!("/proc/self/fd/{}", file.as_raw_fd())).is_ok().then_some(file)
}

/// A name beside `name` that nobody can foresee.
fn random_name(name: &OsStr) -> io::Result<OsString> {
    let mut partial = OsString::from(".");
    // A file's name has at most 255 bytes.
    let shown = name.as_encoded_bytes();
    partial.push(if shown.len() <= 200 { name } else { OsStr::new("long-name") });
    partial.push(format!(".{:016x}.partial", random_word()?));
    Ok(partial)
}

/// The name that a file of this name would have taken, had the process that wrote it not ended before: exactly the names
/// that [`Replacement`] gives, and nothing that is only like them.
pub fn target_of_partial(name: &OsStr) -> Option<&str> {
    let (target, word) = name.to_str()?.strip_prefix('.')?.strip_suffix(".partial")?.rsplit_once('.')?;
    (is_word(word) && !target.is_empty()).then_some(target)
}

/// Whether this is a word as names of this program hold them: 16 lower-case hex digits.
pub fn is_word(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A word from the system's generator.
///
/// # Errors
/// Where the system has none.
pub fn random_word() -> io::Result<u64> {
    let mut word = [0; 8];
    let got = rustix::rand::getrandom(&mut word, rustix::rand::GetRandomFlags::empty())?;
    if got != word.len() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the system gave too few random bytes"));
    }
    Ok(u64::from_ne_bytes(word))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_fifo_a_device_a_socket_and_a_directory_are_refused_without_waiting() {
        let temp = tempfile::tempdir().unwrap();
        let fifo = temp.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        let socket = temp.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, says) in
            [(fifo.as_path(), "named pipe"), (Path::new("/dev/zero"), "device"), (&socket, "socket")]
        {
            let error = open_regular(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
            assert!(error.to_string().contains(says), "{error}");
        }
        assert_eq!(open_regular(temp.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(open_regular(Path::new("/nowhere")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn no_more_than_the_bound_is_read_and_files_that_tell_no_length_are_read_whole() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        fs::write(&path, b"abcdef").unwrap();
        assert_eq!(read_regular(&path, 6).unwrap(), b"abcdef");
        assert_eq!(read_regular(&path, 5).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(!read_regular(Path::new("/proc/self/status"), 1 << 20).unwrap().is_empty());
        assert_eq!(
            read_regular(Path::new("/proc/self/status"), 10).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        fs::write(&path, b"ab\xff").unwrap();
        let error = read_regular_text(&path, 100).unwrap_err();
        assert!(error.to_string().contains("byte 2"), "{error}");
    }

    fn entries(directory: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

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
    fn a_lock_is_held_on_a_file_of_the_users_alone_and_never_through_a_link() {
        let temp = tempfile::tempdir().unwrap();
        let (lock, link) = (temp.path().join("lock"), temp.path().join("link"));
        assert_eq!(open_lock_file(&lock, false).unwrap_err().kind(), io::ErrorKind::NotFound);
        let mode = open_lock_file(&lock, true).unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        open_lock_file(&lock, false).unwrap();
        symlink(temp.path().join("victim"), &link).unwrap();
        assert!(open_lock_file(&link, true).unwrap_err().to_string().contains("a link"));
        let fifo = temp.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(open_lock_file(&fifo, true).unwrap_err().to_string().contains("a pipe"));
        assert_eq!(entries(temp.path()), ["fifo", "link", "lock"]);
    }

    #[test]
    fn only_the_very_names_of_unfinished_files_are_told() {
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
    fn an_output_is_a_file_a_device_or_a_pipe_and_one_that_nobody_reads_is_not_waited_for_without_end() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        for (former, expected) in [(Former::Truncated, "a"), (Former::Kept, "aa"), (Former::Truncated, "a")] {
            open_output(&file, 0o600, former).unwrap().write_all(b"a").unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), expected);
        }
        open_output(Path::new("/dev/null"), 0o600, Former::Truncated).unwrap().write_all(b"a").unwrap();
        let fifo = temp.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let error = open_output(&fifo, 0o600, Former::Truncated).unwrap_err();
        assert!(error.to_string().contains("start its reader first"), "{error}");
        // With a reader it is written to as ever, and waits for one that is slow.
        let reader = thread::spawn({
            let fifo = fifo.clone();
            move || fs::read(fifo).unwrap()
        });
        write_output(&fifo, &vec![7; 1 << 20]).unwrap();
        assert_eq!(reader.join().unwrap(), vec![7; 1 << 20]);
        let socket = temp.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(open_output(&socket, 0o600, Former::Kept).unwrap_err().to_string().contains("a socket"));
    }

    #[test]
    fn an_output_that_is_replaced_keeps_its_permissions_and_its_link() {
        let temp = tempfile::tempdir().unwrap();
        let (file, link) = (temp.path().join("file"), temp.path().join("link"));
        fs::write(&file, b"old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        write_output(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(entries(temp.path()), ["file", "link"]);
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
    fn errors_about_what_a_name_leads_to_are_told_from_those_of_the_system() {
        let temp = tempfile::tempdir().unwrap();
        let looped = temp.path().join("loop");
        symlink(&looped, &looped).unwrap();
        let long = temp.path().join("x".repeat(300));
        for path in [looped.as_path(), &long, temp.path(), Path::new("/nowhere"), Path::new("/dev/zero")] {
            assert!(is_about_the_name(&open_regular(path).unwrap_err()), "{}", path.display());
        }
        let file = temp.path().join("file");
        fs::write(&file, b"abc").unwrap();
        assert!(is_about_the_name(&read_regular(&file, 2).unwrap_err()));
        for system in [Errno::NOSPC, Errno::FBIG, Errno::INVAL, Errno::ACCESS, Errno::MFILE] {
            assert!(!is_about_the_name(&system.into()), "{system:?}");
        }
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
