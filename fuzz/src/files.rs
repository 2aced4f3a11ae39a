//! Directories of files made from bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// Size limit of a file: readers have no larger limit of their own.
const MOST: usize = 1 << 20;

/// A directory in memory if possible, removed when it is dropped.
pub fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let builder = || tempfile::Builder::new().prefix("fuzz-").to_owned();
    builder().tempdir_in(memory).or_else(|_| builder().tempdir()).expect("a temporary directory")
}

/// Reads records `(file number, length, bytes)`, and replaces the file of that number with the bytes; a length of
/// 65,535 removes the file. So a fuzzer changes single files and keeps the others.
pub fn change(files: &mut BTreeMap<String, Vec<u8>>, mut input: &[u8]) {
    let names: Vec<String> = files.keys().cloned().collect();
    while let [which, low, high, rest @ ..] = input {
        let name = &names[usize::from(*which) % names.len()];
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        if length == usize::from(u16::MAX) {
            files.remove(name);
            input = rest;
            continue;
        }
        let (bytes, behind) = rest.split_at(length.min(rest.len()));
        files.insert(name.clone(), bytes[..bytes.len().min(MOST)].to_vec());
        input = behind;
    }
}

/// Inputs that each replace a file with its own content, so that [`change`] has no effect.
pub fn seeds(files: &BTreeMap<String, Vec<u8>>) -> Vec<Vec<u8>> {
    let small = files.values().enumerate().filter(|(_, bytes)| bytes.len() < usize::from(u16::MAX));
    small
        .map(|(number, bytes)| {
            let mut seed = vec![u8::try_from(number).expect("few files")];
            seed.extend((bytes.len() as u16).to_le_bytes());
            seed.extend(bytes);
            seed
        })
        .collect()
}

/// All files of a directory, by name.
pub fn read(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| {
            let bytes = fs::read(entry.path()).expect("a file");
            (entry.file_name().into_string().expect("a plain name"), bytes)
        })
        .collect()
}

/// Writes the files.
pub fn write(directory: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in files {
        fs::write(directory.join(name), bytes).expect("room for a file");
    }
}
