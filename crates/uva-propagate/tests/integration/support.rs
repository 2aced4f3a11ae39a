//! A small graph with all special cases, and hop sets of it.

use std::fs;
use std::path::{Path, PathBuf};

use uva_graph::npy::{NpyArray, NpyType, write_array};
use uva_graph::{Dataset, mix};
use uva_model::FeatureNorm;
use uva_propagate::{
    Estimate, FinishedHopSet, HopType, KeptNodes, Layout, PropagateOptions, PropagateOutcome,
    PropagateProgress, PropagateWatch, RowOrder, parse_operators, propagate,
};

pub const NODES: usize = 500;
pub const DIM: usize = 40;

/// A pseudorandom number.
pub fn random(of: u64) -> u64 {
    mix(of.wrapping_add(0x5eed))
}

/// A directed graph with isolated nodes, self-loops, repeated entries, and a list that is longer than all others.
pub fn graph(folder: &Path, element: NpyType) -> PathBuf {
    let path = folder.join("graph");
    fs::create_dir_all(&path).unwrap();
    let (mut offsets, mut indices) = (vec![0i64], Vec::new());
    for node in 0..NODES as u64 {
        let length = match node {
            7 => 3000,
            _ if node % 11 == 3 => 0,
            _ => random(node) % 20,
        };
        indices.extend((0..length).map(|at| (random(node << 32 | at) % NODES as u64) as i32));
        if node % 5 == 0 {
            indices.push(node as i32);
        }
        offsets.push(indices.len() as i64);
    }
    let weights: Vec<f32> =
        (0..indices.len() as u64).map(|edge| (random(edge << 20) % 8) as f32 / 4.0).collect();
    let values = |count: usize| (0..count as u64).map(|at| (random(at << 40) % 2001) as f32 / 1000.0 - 1.0);
    let write = |name: &str, values: &[i64]| {
        write_array(&path.join(name), NpyType::I64, &[], values).unwrap();
    };
    write("indptr.npy", &offsets);
    write_array(&path.join("indices.npy"), NpyType::I32, &[], &indices).unwrap();
    write_array(&path.join("weight.npy"), NpyType::F32, &[], &weights).unwrap();
    let table = path.join("feat.npy");
    match element {
        NpyType::F32 => {
            let values: Vec<f32> = values(NODES * DIM).collect();
            write_array(&table, element, &[DIM], &values).unwrap();
        }
        NpyType::F16 => {
            let values: Vec<half::f16> = values(NODES * DIM).map(half::f16::from_f32).collect();
            write_array(&table, element, &[DIM], &values).unwrap();
        }
        _ => {
            let values: Vec<i8> = values(NODES * DIM).map(|value| (100.0 * value) as i8).collect();
            write_array(&table, NpyType::I8, &[DIM], &values).unwrap();
        }
    }
    // Nodes from 490 on have no label and are in no split.
    write(
        "label.npy",
        &(0..NODES as i64).map(|node| if node < 490 { node % 3 } else { -1 }).collect::<Vec<_>>(),
    );
    write("train_idx.npy", &(0..200).map(|at| (at * 3) % 490).collect::<Vec<i64>>());
    write("valid_idx.npy", &(0..50).map(|at| 489 - at).collect::<Vec<i64>>());
    write("test_idx.npy", &[1, 495, 2]);
    path
}

pub fn options(operators: &str, hops: u32) -> PropagateOptions {
    PropagateOptions {
        operators: parse_operators(operators).unwrap(),
        hops,
        nodes: KeptNodes::All,
        element: HopType::F32,
        layout: Layout::Hops,
        row_order: RowOrder::File,
        seed: 0,
        weighted: false,
        feature_norm: FeatureNorm::None,
        memory: 1 << 30,
        threads: 2,
    }
}

/// Counts the calls, and stops after a given number.
#[derive(Default)]
pub struct Counted {
    pub calls: usize,
    pub stop_at: Option<usize>,
    pub panels: u64,
    pub finished: u64,
    pub last: Option<(u64, u64)>,
}

impl PropagateWatch for Counted {
    fn begins(&mut self, estimate: &Estimate, finished: u64) {
        (self.panels, self.finished) = (estimate.panels, finished);
    }

    fn progress(&mut self, progress: PropagateProgress<'_>) {
        self.last = Some((progress.done, progress.total));
    }

    fn stops(&mut self) -> bool {
        self.calls += 1;
        self.stop_at.is_some_and(|at| self.calls > at)
    }
}

pub fn made(ended: PropagateOutcome) -> FinishedHopSet {
    match ended {
        PropagateOutcome::Made(made) => *made,
        PropagateOutcome::Stopped => panic!("it was stopped"),
    }
}

/// A hop set that is made without interruption.
pub fn make(dataset: &Path, out: &Path, options: &PropagateOptions) -> FinishedHopSet {
    let dataset = Dataset::open(dataset).unwrap();
    made(propagate(&dataset, out, options, false, &mut Counted::default()).unwrap())
}

pub fn floats(path: &Path) -> Vec<f32> {
    NpyArray::open(path).unwrap().elements::<f32>(NpyType::F32).unwrap().to_vec()
}

pub fn ids(path: &Path) -> Vec<i64> {
    NpyArray::open(path).unwrap().elements::<i64>(NpyType::I64).unwrap().to_vec()
}

/// Every array of a hop set, by name.
pub fn arrays(set: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<(String, Vec<u8>)> = fs::read_dir(set)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "npy"))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect();
    found.sort();
    found
}
