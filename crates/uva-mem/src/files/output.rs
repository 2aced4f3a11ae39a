//! Outputs at user-specified paths: files, pipes, terminals or devices.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::Replacement;
use super::read::not_regular;

/// Treatment of the content of a regular file opened as an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingContent {
    /// Discard the content.
    Truncated,
    /// Keep the content and append.
    Kept,
}

/// Maximum time to wait for the reader of a named pipe. Enough for a reader started at the same time.
const PIPE_PATIENCE: Duration = Duration::from_secs(5);
const PIPE_INTERVAL: Duration = Duration::from_millis(10);

/// Opens an output at a user-specified path for writing: a regular file, a pipe, a terminal or a device. A missing
/// regular file is created, with the permissions `mode` less the process's umask, and locked while it is open. Links
/// are followed.
///
/// # Errors
/// If a system call fails; [`io::ErrorKind::InvalidInput`] for a named pipe without a reader within five seconds, and
/// for a regular file that another process has opened with this function.
pub fn open_output(path: &Path, mode: u32, former: ExistingContent) -> io::Result<File> {
    // Without NONBLOCK, opening a pipe without a reader would block indefinitely.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = if former == ExistingContent::Kept { flags | OFlags::APPEND } else { flags };
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
                    "it is a named pipe without a reader: start its reader first",
                ));
            }
            Err(error) => return Err(error.into()),
        }
    };
    if file.metadata()?.is_file() {
        // Two processes must not interleave lines in one file, or truncate each other's output.
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            let problem = "another process is writing it: wait for its end, or use another file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        if former == ExistingContent::Truncated {
            file.set_len(0)?;
        }
    }
    // From here on writes wait for a slow reader.
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

fn is_fifo(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Writes `contents` to an output at a user-specified path. A regular file is replaced atomically and keeps its
/// permissions; a new file gets 0666 less the process's umask. For a link, its target is replaced. A pipe, a terminal
/// or a device is written to.
///
/// # Errors
/// As [`open_output`] and [`Replacement`].
pub fn write_output(path: &Path, contents: &[u8]) -> io::Result<()> {
    let former = fs::metadata(path).ok();
    if former.as_ref().is_some_and(|metadata| !metadata.is_file()) {
        return open_output(path, 0o666, ExistingContent::Truncated)?.write_all(contents);
    }
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut replacement = match Replacement::of(&target, 0o666) {
        // If the file is writable but its directory is not, the file itself must be written.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && former.is_some() => {
            return open_output(&target, 0o666, ExistingContent::Truncated)?.write_all(contents);
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::CWD;

    use super::*;
    use crate::files::testing::entries;

    #[test]
    fn an_output_is_a_file_device_or_pipe_and_waiting_for_a_reader_is_bounded() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        for (former, expected) in [
            (ExistingContent::Truncated, "a"),
            (ExistingContent::Kept, "aa"),
            (ExistingContent::Truncated, "a"),
        ] {
            open_output(&file, 0o600, former).unwrap().write_all(b"a").unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), expected);
        }
        let open = open_output(&file, 0o600, ExistingContent::Kept).unwrap();
        let error = open_output(&file, 0o600, ExistingContent::Truncated).unwrap_err();
        assert!(error.to_string().contains("another process is writing it"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "a");
        drop(open);
        open_output(Path::new("/dev/null"), 0o600, ExistingContent::Truncated)
            .unwrap()
            .write_all(b"a")
            .unwrap();
        let fifo = temp.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let error = open_output(&fifo, 0o600, ExistingContent::Truncated).unwrap_err();
        assert!(error.to_string().contains("start its reader first"), "{error}");
        // With a reader, the pipe is written to as usual, and the writer waits for a slow reader.
        let reader = thread::spawn({
            let fifo = fifo.clone();
            move || fs::read(fifo).unwrap()
        });
        write_output(&fifo, &vec![7; 1 << 20]).unwrap();
        assert_eq!(reader.join().unwrap(), vec![7; 1 << 20]);
        let socket = temp.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(
            open_output(&socket, 0o600, ExistingContent::Kept).unwrap_err().to_string().contains("a socket")
        );
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
}
