//! Directories of files out of bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// Larger files than this are not made: readers have no limit of their own that lies above.
const MOST: usize = 1 << 20;

/// A directory in memory, where there is one, gone when it is dropped.
pub fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let builder = || tempfile::Builder::new().prefix("fuzz-").to_owned();
    builder().tempdir_in(memory).or_else(|_| builder().tempdir()).expect("a temporary directory")
}

/// Reads `(which file, length, bytes)` after each other, and puts those bytes in the place of the file of that number;
/// a length of 65,535 takes the file away. So that a fuzzer changes one file and leaves the others as they are.
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

/// Inputs of which each puts one of the files into its own place: [`change`] by it changes nothing.
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

/// Writes them.
pub fn write(directory: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in files {
        fs::write(directory.join(name), bytes).expect("room for a file");
    }
}
