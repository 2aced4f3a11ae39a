//! Checks common to all shapes, for the shapes' tests.

use tempfile::TempDir;
use uva_graph::{Dataset, TypedDataset, Verify};

use super::{Common, Recipe, best_accuracies, write};

/// The graph of this recipe, fully verified, in a directory that is removed with the first of the two.
pub fn generated(recipe: &dyn Recipe) -> (TempDir, Dataset) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("graph");
    let summary = write(&out, recipe, &|_| ()).unwrap();
    let dataset = Dataset::open_verified(&out, Verify::FullWithFeatures).unwrap();
    assert_eq!(summary.edges, dataset.edges() as u64);
    (directory, dataset)
}

/// The typed graph of this recipe, likewise, and its best accuracies.
pub fn generated_types(recipe: &dyn Recipe) -> (TempDir, TypedDataset, Vec<(&'static str, f64)>) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("graph");
    let summary = write(&out, recipe, &|_| ()).unwrap();
    let dataset = TypedDataset::open_verified(&out, Verify::FullWithFeatures).unwrap();
    assert_eq!((summary.edges, summary.nodes), (dataset.edges() as u64, dataset.nodes() as u64));
    (directory, dataset, best_accuracies(recipe).unwrap())
}

/// Every file of a typed graph is the same for any number of threads, and differs for another seed except `for_all_seeds`.
pub fn assert_typed_bytes_depend_on_the_seed_alone(recipe: &(impl Recipe + Clone), for_all_seeds: &[&str]) {
    let of = |change: &dyn Fn(&mut Common)| {
        let mut recipe = recipe.clone();
        change(recipe.common_mut());
        generated_types(&recipe)
    };
    let (_first, one, _) = of(&|common| common.threads = Some(1));
    let (_second, four, _) = of(&|common| common.threads = Some(4));
    let (_third, other, _) = of(&|common| common.seed = 1);
    let mut files = 0;
    for group in ["nodes", "edges"] {
        for directory in std::fs::read_dir(one.path().join(group)).unwrap() {
            for file in std::fs::read_dir(directory.unwrap().path()).unwrap() {
                let file = file.unwrap().path();
                let name = file.strip_prefix(one.path()).unwrap();
                let read = |dataset: &TypedDataset| std::fs::read(dataset.path().join(name)).unwrap();
                assert!(read(&one) == read(&four), "{name:?} differs between 1 and 4 threads");
                let same = for_all_seeds.iter().any(|file| name.ends_with(file));
                assert!(same || read(&one) != read(&other), "{name:?} is the same for another seed");
                files += 1;
            }
        }
    }
    assert!(files > 10, "{files} files were compared");
}

/// Returns the options with a change.
pub fn with<R>(mut options: R, change: impl FnOnce(&mut R)) -> R {
    change(&mut options);
    options
}

/// The neighbours of a node.
pub fn list(dataset: &Dataset, node: usize) -> Vec<i64> {
    let csc = dataset.csc();
    (csc.indptr[node]..csc.indptr[node + 1]).map(|edge| csc.indices.get(edge as usize)).collect()
}

/// Every file is the same for any number of threads, and differs for another seed.
pub fn assert_bytes_depend_on_the_seed_alone(recipe: &(impl Recipe + Clone)) {
    let of = |change: &dyn Fn(&mut Common)| {
        let mut recipe = recipe.clone();
        change(recipe.common_mut());
        generated(&recipe)
    };
    let (_first, one) = of(&|common| common.threads = Some(1));
    let (_second, four) = of(&|common| common.threads = Some(4));
    let (_third, other) = of(&|common| common.seed = 1);
    for name in ["indptr", "indices", "feat", "label", "train_idx", "valid_idx", "test_idx"] {
        let read = |dataset: &Dataset| std::fs::read(dataset.path().join(format!("{name}.npy"))).unwrap();
        assert!(read(&one) == read(&four), "{name} differs between 1 and 4 threads");
        assert!(read(&one) != read(&other), "{name} is the same for another seed");
    }
}

/// Each recipe is refused with a message that begins with the option, and nothing is written.
pub fn assert_refused<R: Recipe>(cases: impl IntoIterator<Item = (&'static str, R)>) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("graph");
    for (option, recipe) in cases {
        let error = write(&out, &recipe, &|_| ()).unwrap_err();
        assert!(error.is_bad_input());
        assert!(error.to_string().starts_with(option), "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{error}");
    }
}
