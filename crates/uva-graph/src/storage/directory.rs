//! Datasets as directories that a new one may replace.

use std::path::{Component, Path};

use uva_files::staging::DirectoryKind;

use crate::description::names;
use crate::storage::files::Files;

/// The directory of a dataset. Only files that a dataset may have are removed.
pub static DATASET: DirectoryKind = DirectoryKind {
    name: "a dataset",
    may_have,
    may_have_directory,
    check: |directory| Files::open(directory).map(drop).map_err(|error| error.to_string()),
};

/// The parts of a path relative to a dataset; `None` for other paths.
fn parts(path: &Path) -> Option<Vec<&str>> {
    let part = |component| match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    };
    path.components().map(part).collect()
}

fn is_group(name: &str) -> bool {
    [names::NODE_TYPES, names::RELATIONS].contains(&name)
}

/// In format 2, a node type or relation may also have arrays of the user's own.
fn may_have(path: &Path) -> bool {
    match parts(path).as_deref() {
        Some([name]) => names::of_a_dataset().any(|known| *name == known),
        Some([group, _, name]) => is_group(group) && (name.ends_with(".npy") || *name == names::NODE_NAMES),
        _ => false,
    }
}

fn may_have_directory(path: &Path) -> bool {
    matches!(parts(path).as_deref(), Some([group] | [group, _]) if is_group(group))
}

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

    #[test]
    fn format_2_has_arrays_in_directories_of_types_and_relations() {
        for file in ["nodes/paper/feat.npy", "nodes/paper/year.npy", "edges/a__b__c/indptr.npy"] {
            assert!((DATASET.may_have)(file.as_ref()), "{file}");
        }
        for other in
            ["nodes/feat.npy", "nodes/paper/notes.txt", "nodes/a/b/feat.npy", "mine/a/feat.npy", "/nodes"]
        {
            assert!(!(DATASET.may_have)(other.as_ref()), "{other}");
        }
        let directory = |name: &str| (DATASET.may_have_directory)(name.as_ref());
        assert!(directory("nodes") && directory("edges/a__b__c"));
        assert!(!directory("mine") && !directory("nodes/paper/more") && !directory("indptr.npy"));
    }
}
