//! Identity of a file, and detection of changes.

use std::fmt;
use std::fs::File;
use std::io;
use std::str::FromStr;

use rustix::fs::{Stat, fstat};

/// A file's device, inode, length, modification time and status change time at one moment.
///
/// A change of bytes alters both times before it alters the bytes. So bytes read between two moments with the same
/// state are unchanged, up to the resolution of the system's clock for these times. A program can set the modification
/// time back, but not the status change time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The status change time of a state parsed from the text of a version without this time. No file has this value.
const UNKNOWN: (i64, i64) = (i64::MIN, 0);

impl FileState {
    /// Returns the current state of an open file.
    ///
    /// # Errors
    /// The system's error.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::of_stat(&fstat(file)?))
    }

    /// Converts the result of `stat`.
    #[must_use]
    pub fn of_stat(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            length: stat.st_size as u64,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }

    /// Whether both states belong to the same file, which may have changed.
    #[must_use]
    pub fn is_of_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// The difference to the later state `now`, as the end of a sentence about the file; `None` if the states are
    /// equal.
    #[must_use]
    pub fn change(&self, now: &Self) -> Option<String> {
        if !self.is_of_file(now) {
            Some("another file has taken its place".to_owned())
        } else if self.length != now.length {
            Some(format!("it had {} bytes and has {}", self.length, now.length))
        } else if self.modified != now.modified {
            Some("it was written to".to_owned())
        } else {
            (self.changed != now.changed).then(|| {
                "its status change time differs: it was written to, or its mode, owner or links changed"
                    .to_owned()
            })
        }
    }
}

/// Formats the state as numbers separated by colons.
impl fmt::Display for FileState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, inode, length, modified, changed } = self;
        write!(
            formatter,
            "{device}:{inode}:{length}:{}:{}:{}:{}",
            modified.0, modified.1, changed.0, changed.1
        )
    }
}

/// Text of a version without status change times gives a state that differs from that of any file.
impl FromStr for FileState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a state of a file");
        let mut parts = text.split(':');
        let mut unsigned = || parts.next()?.parse::<u64>().ok();
        let numbers = (|| Some((unsigned()?, unsigned()?, unsigned()?)))();
        let (device, inode, length) = numbers.ok_or_else(wrong)?;
        let times: Result<Vec<i64>, _> = parts.map(str::parse).collect();
        let (modified, changed) = match times.map_err(|_| wrong())?[..] {
            [seconds, nanoseconds] => ((seconds, nanoseconds), UNKNOWN),
            [seconds, nanoseconds, of_change, rest] => ((seconds, nanoseconds), (of_change, rest)),
            _ => return Err(wrong()),
        };
        Ok(Self { device, inode, length, modified, changed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_changed_or_cut_file_is_detected_and_its_state_is_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        std::fs::write(&path, [1; 100]).unwrap();
        let state = || FileState::of(&File::open(&path).unwrap()).unwrap();
        let first = state();
        assert_eq!(first.change(&state()), None);
        assert_eq!(first.to_string().parse(), Ok(first));
        for text in ["1:2:3:4", "1:2:3:4:5:6", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:x"] {
            assert!(text.parse::<FileState>().is_err(), "{text}");
        }
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(first.change(&state()).unwrap(), "it was written to");
        file.set_len(10).unwrap();
        assert_eq!(first.change(&state()).unwrap(), "it had 100 bytes and has 10");
        std::fs::write(path.with_extension("new"), [1; 100]).unwrap();
        std::fs::rename(path.with_extension("new"), &path).unwrap();
        assert!(first.change(&state()).unwrap().contains("another file"));
        // The file is held open, so that its inode is not reused for the new file.
        drop(file);
    }

    #[test]
    fn bytes_written_in_place_are_noticed_though_the_old_time_is_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        std::fs::write(&path, [1; 100]).unwrap();
        let state = || FileState::of(&File::open(&path).unwrap()).unwrap();
        let first = state();
        let file = File::options().write(true).open(&path).unwrap();
        let before = file.metadata().unwrap().modified().unwrap();
        // Writes until the clock of these times has ticked.
        let since = std::time::Instant::now();
        while state().changed == first.changed {
            assert!(since.elapsed() < std::time::Duration::from_secs(60), "the status change time stays");
            std::os::unix::fs::FileExt::write_all_at(&file, &[2; 100], 0).unwrap();
            file.set_modified(before).unwrap();
        }
        assert_eq!((first.length, first.modified), (state().length, state().modified));
        assert!(first.change(&state()).unwrap().contains("status change time"));
    }

    #[test]
    fn text_without_a_status_change_time_is_a_state_of_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        std::fs::write(&path, [1; 100]).unwrap();
        let now = FileState::of(&File::open(&path).unwrap()).unwrap();
        let text = now.to_string();
        let earlier: Vec<&str> = text.split(':').take(5).collect();
        let earlier: FileState = earlier.join(":").parse().unwrap();
        assert!(earlier.change(&now).is_some());
        assert_eq!(earlier.to_string().parse(), Ok(earlier));
    }
}
