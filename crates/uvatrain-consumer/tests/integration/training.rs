//! Training through the loader's threads, interrupted at every batch: a resumed run equals the uninterrupted one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use uva_graph::{Dataset, Split};
use uva_io::generate::{self, Common, PowerLaw};
use uva_launch::training::{EvaluateBy, TrainingOptions, TrainingOutcome, saved_state};
use uva_runtime::control::{Control, Stop};
use uva_runtime::plan::RunPlan;
use uva_runtime::telemetry::metrics::{Event, Observer, RunProgress};
use uva_runtime::{Cursor, LoaderOptions, Passes, Runtime, RuntimeError};
use uvatrain_consumer::session::train;

/// A few training and validation batches of 32 per epoch.
pub(crate) fn graph(directory: &Path) -> PathBuf {
    let path = directory.join("graph");
    let (nodes, average_degree, feature_dim, classes, seed) = (260, 6.0, 5, 3, 3);
    let common = Common { nodes, average_degree, feature_dim, classes, seed, ..Common::default() };
    generate::write(&path, &PowerLaw::of(common), &|_| {}).expect("a graph");
    path
}

pub(crate) fn loader() -> LoaderOptions {
    LoaderOptions { fanouts: [3, 2].into(), batch_size: 32, seed: 5, samplers: 3, ..LoaderOptions::default() }
}

pub(crate) fn training(checkpoint: Option<PathBuf>, evaluate_by: EvaluateBy) -> TrainingOptions {
    TrainingOptions {
        hidden: 8,
        learning_rate: 0.01,
        weight_decay: 5e-4,
        blocks: 2,
        seed: 5,
        threads: Some(1),
        evaluate_by,
        resume: checkpoint.is_some(),
        checkpoint,
        fingerprint: serde_json::json!({"seed": 5}),
        ..TrainingOptions::default()
    }
}

/// Records events, and requests the end at a given step: a step is a batch of any pass.
pub(crate) struct Watch {
    control: Arc<Control>,
    stop_at: usize,
    steps: usize,
    /// Epoch, batch and the loss's bits of every training batch; epoch and the bits of loss and accuracy of every
    /// epoch.
    lines: Vec<(u32, Option<u32>, u64, u64)>,
}

impl Observer for Watch {
    fn event(&mut self, event: &Event) -> Result<(), RuntimeError> {
        match event {
            Event::Batch(batch) => {
                self.lines.push((
                    batch.epoch,
                    Some(batch.batch),
                    u64::from(batch.loss.expect("a loss").to_bits()),
                    0,
                ));
            }
            Event::Epoch(epoch) => self.lines.push((
                epoch.epoch,
                None,
                epoch.train_loss.to_bits(),
                epoch.valid_accuracy.unwrap_or(-1.0).to_bits(),
            )),
            Event::Start(_) | Event::InForce(_) | Event::End(_) => {}
        }
        Ok(())
    }

    fn progress(&mut self, _: &RunProgress, _: &str) {
        self.steps += 1;
        if self.steps == self.stop_at {
            self.control.set_stop(Stop::Soon);
        }
    }

    fn note(&mut self, _: &str) {}
}

/// One run, with a request to end after its step `stop_at` (0: before the first, `usize::MAX`: never).
fn run(
    graph: &Path,
    epochs: u32,
    options: &TrainingOptions,
    stop_at: usize,
    loader: &LoaderOptions,
) -> (TrainingOutcome, Watch) {
    let sampled = options.evaluate_by == EvaluateBy::Sampled;
    let start = saved_state(options).expect("a state").map(|state| state.state.cursor).unwrap_or_default();
    let dataset = Arc::new(Dataset::open(graph).expect("a dataset"));
    let passes = Passes { epochs, validate: sampled, test: sampled, start, steered: false };
    let plan = RunPlan::new(&dataset, loader, passes).expect("a plan");
    let mut runtime = Runtime::start(dataset, plan).expect("a runtime");
    let (receiver, dataset, control) = runtime.parts();
    let (dataset, control) = (Arc::clone(dataset), Arc::clone(control));
    if stop_at == 0 {
        control.set_stop(Stop::Soon);
    }
    let mut watch = Watch { control, stop_at, steps: 0, lines: Vec::new() };
    let outcome = train(receiver, &dataset, options, &mut watch).expect("training");
    runtime.stop().expect("the roles end well");
    (outcome, watch)
}

#[test]
fn a_run_interrupted_at_any_batch_of_any_pass_resumes_unchanged() {
    for evaluate_by in [EvaluateBy::Sampled, EvaluateBy::Full] {
        let temp = tempfile::tempdir().unwrap();
        let graph = graph(temp.path());
        let (expected, whole) = run(&graph, 2, &training(None, evaluate_by), usize::MAX, &loader());
        assert!(expected.test_accuracy.is_some() && !expected.interrupted);
        let batches = whole.lines.iter().filter(|line| line.0 == 0 && line.1.is_some()).count() as u32;
        let mut at_the_end_of_a_pass = 0;
        for stop_at in 0..=whole.steps {
            let options = training(Some(temp.path().join(format!("kept-{stop_at}"))), evaluate_by);
            let (outcome, first) = run(&graph, 2, &options, stop_at, &loader());
            assert!(outcome.interrupted, "{evaluate_by:?} {stop_at}");
            let saved = saved_state(&options).unwrap();
            assert_eq!(saved.is_some(), stop_at > 0, "only what was trained is kept");
            at_the_end_of_a_pass +=
                usize::from(saved.is_some_and(|saved| saved.state.cursor.batch == batches));
            // Another number of samplers and slots, which may change.
            let second = LoaderOptions { samplers: 1, feature_slots: 3, ..loader() };
            let (outcome, rest) = run(&graph, 2, &options, usize::MAX, &second);
            assert!(!outcome.interrupted);
            assert_eq!([first.lines, rest.lines].concat(), whole.lines, "{evaluate_by:?} {stop_at}");
            assert_eq!(outcome.test_accuracy, expected.test_accuracy, "{evaluate_by:?} {stop_at}");
            assert_eq!((outcome.best, outcome.epochs), (expected.best, 2));
        }
        assert!(at_the_end_of_a_pass >= 2, "{evaluate_by:?}: interrupted between training and validation");
    }
}

#[test]
fn an_interrupt_before_the_first_batch_leaves_an_existing_checkpoint() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let kept = temp.path().join("kept");
    let options = training(Some(kept.clone()), EvaluateBy::Sampled);
    run(&graph, 1, &options, usize::MAX, &loader());
    let state = || std::fs::read(kept.join("checkpoint.json")).unwrap();
    let before = state();
    let leftover = kept.join(".checkpoint.json.0123456789abcdef.partial");
    std::fs::write(&leftover, "half of a checkpoint").unwrap();
    // As if --resume had been forgotten and Ctrl-C pressed at once.
    let anew = TrainingOptions { resume: false, ..options.clone() };
    let (outcome, _) = run(&graph, 3, &anew, 0, &loader());
    assert!(outcome.interrupted);
    assert_eq!(state(), before);
    assert!(!leftover.exists(), "what a killed run left goes when the next one begins");
    saved_state(&options).expect("the checkpoint is whole");
}

#[test]
fn early_stopped_training_continues_with_more_patience() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let still = |patience, checkpoint| {
        let mut options = training(checkpoint, EvaluateBy::Full);
        // Parameters do not change, so no epoch after the first can be better.
        options.learning_rate = 1e-30;
        options.patience = patience;
        options
    };
    let kept = Some(temp.path().join("kept"));
    let (outcome, _) = run(&graph, 9, &still(Some(2), kept.clone()), usize::MAX, &loader());
    assert_eq!((outcome.stopped_early, outcome.epochs), (true, 3));
    let (outcome, rest) = run(&graph, 9, &still(Some(4), kept.clone()), usize::MAX, &loader());
    assert_eq!((outcome.stopped_early, outcome.epochs), (true, 5));
    assert_eq!(rest.lines.first().map(|line| (line.0, line.1)), Some((3, Some(0))));
    let (outcome, _) = run(&graph, 6, &still(None, kept.clone()), usize::MAX, &loader());
    assert_eq!((outcome.stopped_early, outcome.epochs), (false, 6));
    // And it ends at once where more epochs are given, but not more patience.
    let (outcome, rest) = run(&graph, 9, &still(Some(2), kept), usize::MAX, &loader());
    assert_eq!((outcome.stopped_early, outcome.epochs, rest.lines.len()), (true, 6, 0));
}

#[test]
fn early_stopping_drops_batches_in_flight_for_any_samplers_and_slots() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let mut options = training(None, EvaluateBy::Sampled);
    options.learning_rate = 1e-30;
    options.patience = Some(1);
    let mut results = Vec::new();
    for (samplers, feature_slots, batch_slots) in
        [(1, 1, Some(3)), (2, 2, None), (5, 3, Some(40)), (3, 9, Some(5))]
    {
        let loader = LoaderOptions { samplers, feature_slots, batch_slots, ..loader() };
        let (outcome, watch) = run(&graph, 50, &options, usize::MAX, &loader);
        assert!(outcome.stopped_early && outcome.epochs < 50, "{outcome:?}");
        results.push((outcome.epochs, outcome.test_accuracy, watch.lines));
    }
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
}

#[test]
fn a_cursor_after_the_last_epoch_leaves_only_the_test() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    for evaluate_by in [EvaluateBy::Sampled, EvaluateBy::Full] {
        let options = training(Some(temp.path().join(format!("{evaluate_by:?}"))), evaluate_by);
        let (whole, _) = run(&graph, 2, &options, usize::MAX, &loader());
        assert_eq!(saved_state(&options).unwrap().unwrap().state.cursor, Cursor { epoch: 2, batch: 0 });
        for epochs in [2, 1] {
            let (again, watch) = run(&graph, epochs, &options, usize::MAX, &loader());
            assert_eq!((again.batches, again.test_accuracy), (0, whole.test_accuracy), "{evaluate_by:?}");
            assert!(watch.lines.is_empty());
        }
    }
    // The validation split of this graph has batches of its own, or the cursors above are too few.
    assert!(!Dataset::open(&graph).unwrap().split(Split::Valid).is_empty());
}
