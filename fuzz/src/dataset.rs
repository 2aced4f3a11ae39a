//! Datasets, and the arrays they are made of.

use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;

use uva_graph::npy::{NpyArray, NpyType, write_array};
use uva_graph::{Dataset, Split, Verify};
use uva_io::generate;

use crate::files::{self, directory};

pub fn npy(input: &[u8]) -> bool {
    let directory = directory();
    let path = directory.path().join("array.npy");
    fs::write(&path, input).expect("room for a file");
    let Ok(array) = NpyArray::open(&path) else { return false };
    let elements: usize = array.shape().iter().product();
    assert_eq!(array.bytes().len(), elements * array.kind().bytes(), "{:?}", array.header());
    if let Ok(values) = array.elements::<i64>(NpyType::I64) {
        assert_eq!(values.len(), elements);
    }
    true
}

pub fn npy_seeds() -> Vec<Vec<u8>> {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    write_array(&path("ids.npy"), NpyType::I64, &[], &[0_i64, 3, -1]).expect("room for a file");
    write_array(&path("rows.npy"), NpyType::F32, &[2], &[0.5_f32, 1.0, 2.0, -1.0]).expect("room for a file");
    files::read(directory.path()).into_values().collect()
}

/// A dataset of 24 nodes with every file that one can have.
pub fn whole() -> &'static BTreeMap<String, Vec<u8>> {
    static WHOLE: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let directory = directory();
        let out = directory.path().join("graph");
        let common = generate::Common {
            nodes: 24,
            average_degree: 3.0,
            feature_dim: 3,
            classes: 3,
            name: Some("fuzz".to_owned()),
            ..Default::default()
        };
        generate::write(&out, &generate::PowerLaw::of(common), &|_| {}).expect("a dataset");
        let edges = Dataset::open(&out).expect("a dataset").edges();
        let weights: Vec<f32> = (0..edges).map(|edge| edge as f32).collect();
        write_array(&out.join("weight.npy"), NpyType::F32, &[], &weights).expect("room for a file");
        let original: Vec<i64> = (0..24).rev().collect();
        write_array(&out.join("orig_id.npy"), NpyType::I64, &[], &original).expect("room for a file");
        Dataset::open_verified(&out, Verify::FullWithFeatures).expect("a dataset");
        files::read(&out)
    })
}

pub fn dataset(input: &[u8]) -> bool {
    let mut files = whole().clone();
    files::change(&mut files, input);
    let directory = directory();
    files::write(directory.path(), &files);
    let Ok(dataset) = Dataset::open_verified(directory.path(), Verify::FullWithFeatures) else {
        return false;
    };
    look_at(&dataset);
    true
}

/// Reads all arrays of an accepted dataset: its checks are what makes them safe to index by.
pub fn look_at(dataset: &Dataset) {
    let csc = dataset.csc();
    for node in 0..dataset.nodes() {
        for edge in csc.indptr[node]..csc.indptr[node + 1] {
            assert!((csc.indices.get(edge as usize) as usize) < dataset.nodes());
        }
    }
    for split in Split::ALL {
        for &node in dataset.split(split) {
            assert!((node as usize) < dataset.nodes());
        }
    }
    assert!(dataset.weights().is_none_or(|weights| weights.len() == dataset.edges()));
    let _ = (dataset.fingerprint(), dataset.name(), dataset.classes());
}

pub fn dataset_seeds() -> Vec<Vec<u8>> {
    files::seeds(whole())
}
