//! Datasets as directories that a new one may replace.

use uva_files::staging::DirectoryKind;

use crate::description::names;
use crate::storage::files::Files;

/// The directory of a dataset. Only files that a dataset may have are removed.
pub static DATASET: DirectoryKind = DirectoryKind {
    name: "a dataset",
    may_have: |name| names::of_a_dataset().any(|known| name == known),
    check: |directory| Files::open(directory).map(drop).map_err(|error| error.to_string()),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Split;
    use crate::npy::{NpyType, write_array};

    #[test]
    fn an_array_of_a_users_own_makes_no_dataset() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, row: &[usize], values: &[i64]| {
            assert!((DATASET.may_have)(name.as_ref()), "{name}");
            write_array(&directory.path().join(name), NpyType::I64, row, values).unwrap();
        };
        write("label.npy", &[], &[0, 1, 0]);
        assert!((DATASET.check)(directory.path()).is_err());
        write("indptr.npy", &[], &[0, 1, 3, 4]);
        write("indices.npy", &[], &[1, 0, 2, 1]);
        for split in Split::ALL {
            write(split.file_name(), &[], &[0]);
        }
        assert!((DATASET.check)(directory.path()).is_err());
        write_array(&directory.path().join("feat.npy"), NpyType::F32, &[2], &[0_f32; 6]).unwrap();
        assert_eq!((DATASET.check)(directory.path()), Ok(()));
        assert!(!(DATASET.may_have)("measured.npy".as_ref()));
    }
}
