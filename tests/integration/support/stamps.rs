//! Datasets with a stamp, and files that are changed without invalidating it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// The stamp's name, in the directory of the files.
pub const STAMP: &str = ".uvatrain-stamp.json";

/// Waits until the last change of a directory's files is long enough ago for a stamp: younger files could change again
/// within a tick of the clock.
pub fn settle(directory: &Path) {
    let began = Instant::now();
    let is_young = |entry: fs::DirEntry| {
        let file = entry.metadata().unwrap();
        let changed = Duration::new(file.ctime() as u64, file.ctime_nsec() as u32);
        SystemTime::now() < UNIX_EPOCH + changed + Duration::from_millis(110)
    };
    while fs::read_dir(directory).unwrap().any(|entry| is_young(entry.unwrap())) {
        assert!(began.elapsed() < Duration::from_secs(60), "the clock stands still");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writes a file of a dataset with a stamp, and makes the stamp valid for the new content.
pub fn change_behind_a_stamp(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    let file = fs::metadata(path).unwrap();
    let stamp = path.with_file_name(STAMP);
    let mut content: Value = serde_json::from_slice(&fs::read(&stamp).unwrap()).unwrap();
    let nanoseconds = |seconds: i64, rest: i64| json!(seconds * 1_000_000_000 + rest);
    let entry = &mut content["files"][path.file_name().unwrap().to_str().unwrap()];
    entry["bytes"] = json!(file.len());
    entry["modified_ns"] = nanoseconds(file.mtime(), file.mtime_nsec());
    entry["changed_ns"] = nanoseconds(file.ctime(), file.ctime_nsec());
    fs::write(&stamp, content.to_string()).unwrap();
}
