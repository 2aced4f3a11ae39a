//! Graphs to plan for.

use std::path::PathBuf;

use uva_graph::npy::{NpyType, write_array};
use uva_graph::{Csc, Dataset, Indices};
use uva_io::generate::{self, Common, PowerLaw};
use uva_plan::Workload;
use uva_sample::SamplerOptions;

/// A dataset in its own directory.
pub struct Stored {
    pub directory: tempfile::TempDir,
    pub dataset: Dataset,
}

/// A power-law graph.
pub fn stored(nodes: u64, average_degree: f64, feature_dim: usize, train_share: f64, seed: u64) -> Stored {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("graph");
    let common = Common { nodes, average_degree, feature_dim, train_share, seed, ..Common::default() };
    generate::write(&path, &PowerLaw::of(common), &|_| {}).unwrap();
    let dataset = Dataset::open(&path).unwrap();
    Stored { directory, dataset }
}

/// A dataset of the given lists and training nodes, with rows of 8 bytes.
pub fn written(lists: &[Vec<i32>], train: &[i64]) -> Stored {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("graph");
    std::fs::create_dir(&path).unwrap();
    let file = |name: &str| -> PathBuf { path.join(name) };
    let ends = lists.iter().scan(0_i64, |end, list| {
        *end += list.len() as i64;
        Some(*end)
    });
    let indptr: Vec<i64> = std::iter::once(0).chain(ends).collect();
    write_array(&file("indptr.npy"), NpyType::I64, &[], &indptr).unwrap();
    write_array(&file("indices.npy"), NpyType::I32, &[], &lists.concat()).unwrap();
    write_array(&file("feat.npy"), NpyType::F32, &[2], &vec![0_f32; 2 * lists.len()]).unwrap();
    write_array(&file("label.npy"), NpyType::I64, &[], &vec![0_i64; lists.len()]).unwrap();
    write_array(&file("train_idx.npy"), NpyType::I64, &[], train).unwrap();
    write_array::<i64>(&file("valid_idx.npy"), NpyType::I64, &[], &[]).unwrap();
    write_array::<i64>(&file("test_idx.npy"), NpyType::I64, &[], &[]).unwrap();
    let dataset = Dataset::open(&path).unwrap();
    Stored { directory, dataset }
}

pub fn options(fanouts: &[i32]) -> SamplerOptions {
    SamplerOptions { fanouts: fanouts.into(), ..SamplerOptions::default() }
}

pub fn by_hand<'g>(
    indptr: &'g [i64],
    indices: &'g [i32],
    train: &'g [i64],
    fanouts: &[i32],
    batch_size: usize,
) -> Workload<'g> {
    Workload {
        csc: Csc { indptr, indices: Indices::I32(indices), original_ids: None, degrees: None },
        weights: None,
        train,
        options: options(fanouts),
        batch_size,
        drop_last: false,
        sequenced: None,
        threads: 2,
        batch_bytes: None,
        progress: None,
    }
}
