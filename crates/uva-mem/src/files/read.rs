//! Opens regular files, directories and locks by untrusted names.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Opens the regular file at `path` for reading. Links are followed.
///
/// Never blocks: anything but a regular file is rejected before a byte is read.
///
/// # Errors
/// If a system call fails; [`io::ErrorKind::IsADirectory`] for a directory, and [`io::ErrorKind::InvalidInput`] for a
/// FIFO, a socket or a device.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // With NONBLOCK a FIFO without a writer opens immediately; for regular files the flag changes nothing.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        // The name refers to a socket, or to a device without a driver.
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

pub(super) fn not_regular(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file"))
}

/// Whether the file at `path` is in memory: on a tmpfs, ramfs or hugetlbfs.
pub fn lies_in_memory(path: &Path) -> bool {
    /// `TMPFS_MAGIC`, `RAMFS_MAGIC` and `HUGETLBFS_MAGIC` of linux/magic.h.
    const MAGIC: [u32; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
    // Types are 32 bits, in a word whose width and sign differ between machines.
    rustix::fs::statfs(path).is_ok_and(|found| MAGIC.contains(&(found.f_type as u32)))
}

/// Whether an error of opening or reading is caused by the path, so that another path would help: missing file, not a
/// regular file, too large, not the expected text, a loop of links, and a name that is too long.
pub fn is_about_the_name(error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::InvalidFilename => true,
        // The system reports these for other reasons too; without an errno they come from this module.
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::FileTooLarge => {
            error.raw_os_error().is_none()
        }
        // A loop of links has its own kind, which is unstable in Rust.
        _ => error.raw_os_error() == Some(Errno::LOOP.raw_os_error()),
    }
}

/// Reads the whole regular file at `path`, of at most `most` bytes.
///
/// # Errors
/// As [`open_regular`]; [`io::ErrorKind::FileTooLarge`] for a larger file, which is not read.
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
    // Files of /proc report no bytes, and any file may grow meanwhile: so the bound applies to the read.
    file.take(most.saturating_add(1)).read_to_end(&mut contents)?;
    if contents.len() as u64 > most {
        return Err(too_large(contents.len() as u64));
    }
    Ok(contents)
}

/// [`read_regular`] of a file of UTF-8 text, without a byte order mark.
///
/// # Errors
/// As [`read_regular`], and [`io::ErrorKind::InvalidData`] for other bytes.
pub fn read_regular_text(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::from_utf8(read_regular(path, most)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("its byte {at} is not UTF-8 text"))
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    Ok(text)
}

/// The character that some editors write before UTF-8 text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// UTF-8 bytes without the byte order mark that may precede them.
pub fn without_byte_order_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// The text of a kernel file in /proc or /sys: not for untrusted paths.
///
/// # Errors
/// If a system call fails, or the bytes are not UTF-8.
pub fn read_kernel_text(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read_to_string(path)
}

/// The bytes of a kernel file in /proc or /sys.
///
/// # Errors
/// If a system call fails.
pub fn read_kernel(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Opens a directory, for locking, syncing, or looking up names in it.
///
/// # Errors
/// If a system call fails; for anything but a directory, that is [`io::ErrorKind::NotADirectory`]. A FIFO does not
/// block it.
pub fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Opens a regular file to lock it. With `create`, a missing file is created with mode 0600, so that no other user can
/// open it and take the lock. Nothing is read or written. A link is rejected.
/// # Errors
/// If a system call fails; [`io::ErrorKind::InvalidInput`] for anything but a regular file.
pub fn open_lock_file(path: &Path, create: bool) -> io::Result<File> {
    // Opened for writing too, which a lock on a network file system may require.
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

/// Opens a regular file of this program for reading and writing. A link is rejected.
///
/// # Errors
/// As [`open_lock_file`].
pub fn open_own(path: &Path) -> io::Result<File> {
    open_lock_file(path, false)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::CWD;

    use super::*;
    use crate::files::testing::entries;

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
    fn reads_stop_at_the_bound_and_files_without_a_length_are_read_whole() {
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
    fn errors_about_a_names_target_are_distinguished_from_system_errors() {
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
}
