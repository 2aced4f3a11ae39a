//! A trained model over a graph of several chunks: stopped anywhere and resumed, with the same result by both methods.

use std::path::{Path, PathBuf};

use uva_graph::Dataset;
use uva_graph::npy::{NpyArray, NpyRows, NpyType, write_array};
use uva_io::generate::{self, Common, PowerLaw};
use uva_launch::training::{
    AggregateInUse, EvaluateBy, InferenceNodes, InferenceOverrides, Predicted, PredictionFile, PredictionJob,
    PredictionWatch, TrainedModel, TrainingState, task,
};
use uva_model::{Answer, ModelKind, NormKind, TrainerOptions};
use uva_runtime::backend::{BackendOptions, DeviceChoice};
use uva_runtime::{LoaderOptions, RuntimeError};
use uva_train::{TrainDevice, Trainer, checkpoint};
use uvatrain_consumer::inference::predict;

/// Features of an edge.
const EDGE_DIM: usize = 3;

/// Three chunks of nodes.
const NODES: u64 = 70_000;

fn graph(directory: &Path) -> PathBuf {
    let path = directory.join("graph");
    let (average_degree, feature_dim, classes, seed) = (3.0, 5, 3, 3);
    let common = Common { nodes: NODES, average_degree, feature_dim, classes, seed, ..Common::default() };
    generate::write(&path, &PowerLaw::of(common), &|_| {}).expect("a graph");
    let edges = Dataset::open(&path).expect("a dataset").edges();
    let rows: Vec<f32> = (0..EDGE_DIM * edges).map(|value| (value as f32).sin()).collect();
    write_array(&path.join("edge_feat.npy"), NpyType::F32, &[EDGE_DIM], &rows).expect("edge features");
    path
}

/// A checkpoint of a model with its initial parameters.
fn untrained(directory: &Path, graph: &Path, options: &TrainerOptions) -> PathBuf {
    let path = directory.join("kept");
    let dataset = Dataset::open(graph).unwrap();
    let task = task(&dataset, None, None).unwrap();
    let trainer = Trainer::new(options, dataset.table().dim, task, TrainDevice::Cpu).unwrap();
    let loader = LoaderOptions {
        fanouts: vec![-1; options.layers].into(),
        batch_size: 9000,
        ..LoaderOptions::default()
    };
    let mut fingerprint = loader.fingerprint();
    fingerprint.insert("dataset".to_owned(), dataset.fingerprint().into());
    let state = TrainingState { train_threads: 1, ..TrainingState::default() };
    checkpoint::write(&path, &trainer, &fingerprint, &state).unwrap();
    path
}

/// Stops after some units of work.
struct StopBehind {
    units: u64,
    seen: u64,
    notes: Vec<String>,
}

impl PredictionWatch for StopBehind {
    fn progress(&mut self, _: u64, _: u64) {
        self.seen += 1;
    }

    fn stops(&self) -> bool {
        self.seen >= self.units
    }

    fn note(&mut self, line: &str) {
        self.notes.push(line.to_owned());
    }

    fn table(&mut self, _: &NpyRows) -> Result<bool, RuntimeError> {
        panic!("no table is written here")
    }
}

fn asked(by: EvaluateBy) -> InferenceOverrides {
    let backend = BackendOptions { device: DeviceChoice::Cpu, ..BackendOptions::default() };
    InferenceOverrides {
        by,
        batch_size: None,
        slot_bytes: Some(64 << 20),
        samplers: 2,
        gather_threads: 1,
        aggregate: AggregateInUse::Auto,
        backend,
        threads: Some(1),
        other_dataset: false,
    }
}

fn answer(
    graph: &Path,
    kept: &Path,
    by: EvaluateBy,
    job: &PredictionJob,
    units: u64,
) -> (Predicted, StopBehind) {
    let dataset = Dataset::open(graph).unwrap();
    let model = TrainedModel::open(&dataset, kept, &asked(by)).unwrap();
    let mut watch = StopBehind { units, seen: 0, notes: Vec::new() };
    (predict(dataset, &model, job, &mut watch).unwrap(), watch)
}

fn job(directory: &Path, name: &str) -> PredictionJob {
    let file =
        |answer, kind: &str| PredictionFile { answer, path: directory.join(format!("{name}-{kind}.npy")) };
    PredictionJob {
        nodes: InferenceNodes::All,
        files: vec![file(Answer::Classes, "c"), file(Answer::Probabilities, "p"), file(Answer::Hidden, "h")],
        layer: None,
        overwrite: false,
    }
}

fn bytes(job: &PredictionJob) -> Vec<Vec<u8>> {
    job.files.iter().map(|file| std::fs::read(&file.path).unwrap()).collect()
}

#[test]
fn a_stopped_pass_continues_and_makes_the_arrays_of_an_unstopped_one() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let options = TrainerOptions { hidden: 6, threads: Some(1), ..TrainerOptions::default() };
    let kept = untrained(temp.path(), &graph, &options);
    for by in [EvaluateBy::Full, EvaluateBy::Sampled] {
        let whole = job(temp.path(), &format!("whole-{by:?}"));
        let (done, watch) = answer(&graph, &kept, by, &whole, u64::MAX);
        assert_eq!((done.rows as u64, done.resumed, done.stopped), (NODES, 0, false));
        let mut resumed = Vec::new();
        for units in 1..watch.seen {
            let parts = job(temp.path(), &format!("parts-{by:?}-{units}"));
            let (done, _) = answer(&graph, &kept, by, &parts, units);
            assert!(done.stopped && parts.files.iter().all(|file| !file.path.exists()), "{units}");
            let (done, watch) = answer(&graph, &kept, by, &parts, u64::MAX);
            assert!(!done.stopped);
            assert_eq!(done.resumed > 0, !watch.notes.is_empty(), "{:?}", watch.notes);
            resumed.push(done.resumed);
            assert!(bytes(&parts) == bytes(&whole), "{by:?} stopped after {units}");
        }
        match by {
            // Three chunks, read and computed, in each of two layers. The last layer's results are kept.
            EvaluateBy::Full => assert_eq!(resumed, [0, 0, 0, 0, 0, 0, 0, 0, 0, 32768, 65536]),
            EvaluateBy::Sampled => assert_eq!(resumed, (1..8).collect::<Vec<u64>>()),
        }
    }
    let left = std::fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<String> = left.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(
        left.iter().all(|name| name.ends_with(".npy") || ["graph", "kept"].contains(&&name[..])),
        "{left:?}"
    );
}

#[test]
fn the_rest_of_another_job_is_not_continued() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let options = TrainerOptions { hidden: 6, threads: Some(1), ..TrainerOptions::default() };
    let kept = untrained(temp.path(), &graph, &options);
    let all = job(temp.path(), "parts");
    assert!(answer(&graph, &kept, EvaluateBy::Sampled, &all, 3).0.stopped);
    let some = PredictionJob { nodes: InferenceNodes::These((0..NODES as i64).rev().collect()), ..all };
    let (done, _) = answer(&graph, &kept, EvaluateBy::Sampled, &some, u64::MAX);
    assert_eq!((done.resumed, done.stopped), (0, false));
}

#[test]
fn sampling_all_neighbours_equals_a_pass_over_the_graph_for_every_model() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    // Models over hops have no neighbours to sample, and those over relations no pass over the graph.
    let of_graphs = |model: &ModelKind| !model.row().reads_hops() && !model.row().reads_relations();
    for model in ModelKind::all().filter(of_graphs) {
        for (layers, residual, norm) in
            [(2, false, NormKind::Layer), (3, true, NormKind::None), (1, false, NormKind::None)]
        {
            let name = format!("{}-{layers}", model.name());
            let directory = temp.path().join(&name);
            std::fs::create_dir(&directory).unwrap();
            let options = TrainerOptions {
                model,
                layers,
                residual,
                norm,
                hidden: 8,
                heads: 2,
                edge_dim: if model.row().takes_edge_features() { EDGE_DIM } else { 0 },
                threads: Some(1),
                ..TrainerOptions::default()
            };
            let kept = untrained(&directory, &graph, &options);
            let [full, sampled] = [EvaluateBy::Full, EvaluateBy::Sampled].map(|by| {
                let nodes = (0..2000).map(|place| place * 7919 % NODES as i64).collect();
                let job = PredictionJob {
                    nodes: InferenceNodes::These(nodes),
                    ..job(&directory, &format!("{by:?}"))
                };
                answer(&graph, &kept, by, &job, u64::MAX);
                job
            });
            for (full, sampled) in full.files.iter().zip(&sampled.files).skip(1) {
                let [full, sampled] = [full, sampled].map(|file| NpyArray::open(&file.path).unwrap());
                assert_eq!(full.shape(), sampled.shape());
                let [full, sampled] =
                    [&full, &sampled].map(|array| array.elements::<f32>(NpyType::F32).unwrap());
                for (full, sampled) in full.iter().zip(sampled) {
                    assert!((full - sampled).abs() < 1e-4 * full.abs().max(1.0), "{name}: {full} {sampled}");
                }
            }
        }
    }
}
