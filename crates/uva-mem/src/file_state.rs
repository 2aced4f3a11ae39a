//! Which file it is, and whether it was written to.

use std::fmt;
use std::fs::File;
use std::io;
use std::str::FromStr;

use rustix::fs::{Stat, fstat};

/// A file's device, inode, length and modification time at one moment.
///
/// A change of bytes alters the time before it alters the bytes. So bytes that were read between two moments with the
/// same state are those of the first, as exactly as the system's clock of such times ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl FileState {
    /// Of an open file, now.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::of_stat(&fstat(file)?))
    }

    /// As the system describes it.
    #[must_use]
    pub fn of_stat(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            length: stat.st_size as u64,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
        }
    }

    /// Whether both are of the same file, which may have changed.
    #[must_use]
    pub fn is_of_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// What is different in the later state `now`, as the end of a sentence about the file; `None` where nothing is.
    #[must_use]
    pub fn change(&self, now: &Self) -> Option<String> {
        if !self.is_of_file(now) {
            Some("another file has taken its place".to_owned())
        } else if self.length != now.length {
            Some(format!("it had {} bytes and has {}", self.length, now.length))
        } else {
            (self.modified != now.modified).then(|| "it was written to".to_owned())
        }
    }
}

/// Numbers separated by colons.
impl fmt::Display for FileState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, inode, length, modified: (seconds, nanoseconds) } = self;
        write!(formatter, "{device}:{inode}:{length}:{seconds}:{nanoseconds}")
    }
}

impl FromStr for FileState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no state of a file");
        let mut parts = text.split(':');
        let mut unsigned = || parts.next()?.parse::<u64>().ok();
        let numbers = (|| Some((unsigned()?, unsigned()?, unsigned()?)))();
        let (device, inode, length) = numbers.ok_or_else(wrong)?;
        let mut signed = || parts.next()?.parse::<i64>().ok();
        let modified = (|| Some((signed()?, signed()?)))().ok_or_else(wrong)?;
        match parts.next() {
            None => Ok(Self { device, inode, length, modified }),
            Some(_) => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_replaced_written_to_or_cut_is_told_apart_and_its_state_is_passed_on_as_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        std::fs::write(&path, [1; 100]).unwrap();
        let state = || FileState::of(&File::open(&path).unwrap()).unwrap();
        let first = state();
        assert_eq!(first.change(&state()), None);
        assert_eq!(first.to_string().parse(), Ok(first));
        assert!("1:2:3:4".parse::<FileState>().is_err() && "1:2:3:4:5:6".parse::<FileState>().is_err());
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(first.change(&state()).unwrap(), "it was written to");
        file.set_len(10).unwrap();
        assert_eq!(first.change(&state()).unwrap(), "it had 100 bytes and has 10");
        std::fs::write(path.with_extension("new"), [1; 100]).unwrap();
        std::fs::rename(path.with_extension("new"), &path).unwrap();
        assert!(first.change(&state()).unwrap().contains("another file"));
        // Held open, so that its inode is not given to the new one.
        drop(file);
    }
}
