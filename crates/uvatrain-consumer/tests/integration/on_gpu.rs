//! Training on batches in device memory, under the stand-in driver: the host continues before a batch's result arrives.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use uva_graph::Dataset;
use uva_launch::training::{EvaluateBy, TrainingOptions, TrainingOutcome, saved_state};
use uva_runtime::backend::{
    Backend, CudaBackend, GatherChoice, GpuSlots, IpcKind, Kernel, Partition, PinPages, PreflightPolicy,
    SamplerChoice, SignalKind,
};
use uva_runtime::control::{Control, Stop};
use uva_runtime::plan::RunPlan;
use uva_runtime::telemetry::metrics::{BatchEvent, EpochEvent, Event, Observer, RunProgress};
use uva_runtime::{Cursor, LoaderOptions, Passes, Runtime, RuntimeError};
use uvatrain_consumer::session::train;

use crate::training::{graph, loader, training};

/// All properties of a device, with streams that are late.
const AS_A_DEVICE: [(&str, &str); 2] = [("CUDA_SIM_DROPOUT", "device"), ("CUDA_SIM_DELAY_US", "300")];

/// Maximum number of runs until one has the wanted end, in a race of two threads.
const MOST_TRIES: usize = 50;

fn on_gpu() -> Backend {
    Backend::Cuda(CudaBackend {
        ordinal: 0,
        gather: GatherChoice::ZeroCopy,
        kernel: Kernel::Wide,
        sampler: SamplerChoice::Cpu,
        partition: Partition::None,
        ipc: IpcKind::Auto,
        ipc_signals: SignalKind::Auto,
        gpu_slots: GpuSlots::Largest,
        nvrtc: None,
        preflight: PreflightPolicy::Warn,
        table_pages: PinPages::InPlace,
        other_pages: true,
        split_share: None,
    })
}

/// Records events, stops at a step, and may change a slot after a step.
struct Told {
    control: Arc<Control>,
    stop_at: usize,
    steps: usize,
    batches: Vec<BatchEvent>,
    epochs: Vec<EpochEvent>,
    /// After this step, this word is overwritten once it has that value.
    spoil: Option<(usize, u64, u64)>,
}

impl Observer for Told {
    fn event(&mut self, event: &Event) -> Result<(), RuntimeError> {
        match event {
            Event::Batch(batch) => self.batches.push(BatchEvent::clone(batch)),
            Event::Epoch(epoch) => self.epochs.push(epoch.clone()),
            Event::Start(_) | Event::InForce(_) | Event::End(_) => {}
        }
        Ok(())
    }

    fn progress(&mut self, _: &RunProgress, _: &str) {
        self.steps += 1;
        if self.steps == self.stop_at {
            self.control.set_stop(Stop::Soon);
        }
        if let Some((_, address, stamp)) = self.spoil.filter(|spoil| spoil.0 == self.steps) {
            // SAFETY: the stamp of a slot's report, in memory that the stand-in shares with the host, which outlives
            // the run. The simulator writes it as one word.
            let word = unsafe { AtomicU64::from_ptr(address as *mut u64) };
            let since = Instant::now();
            while word.load(Ordering::Acquire) != stamp {
                assert!(since.elapsed() < Duration::from_secs(180), "the slot is never filled");
                std::thread::yield_now();
            }
            word.store(99, Ordering::Release);
        }
    }

    fn note(&mut self, _: &str) {}
}

struct Run {
    outcome: Result<TrainingOutcome, RuntimeError>,
    told: Told,
}

/// `spoil`: after this many steps, the slot of the next batch loses its stamp.
fn run(
    graph: &Path,
    epochs: u32,
    options: &TrainingOptions,
    stop_at: usize,
    backend: Backend,
    spoil: Option<usize>,
) -> Run {
    let start = saved_state(options).expect("a state").map(|state| state.state.cursor).unwrap_or_default();
    let dataset = Arc::new(Dataset::open(graph).expect("a dataset"));
    let sampled = options.evaluate_by == EvaluateBy::Sampled;
    let passes = Passes { epochs, validate: sampled, test: sampled, start, steered: false };
    let loader = LoaderOptions { feature_slots: 2, batch_size: 12, ..loader() };
    let plan = RunPlan::new(&dataset, &loader, passes).expect("a plan");
    let mut runtime = Runtime::start(Arc::clone(&dataset), plan.on(backend)).expect("a runtime");
    let (receiver, dataset, control) = runtime.parts();
    let (dataset, control) = (Arc::clone(dataset), Arc::clone(control));
    let spoil = spoil.map(|steps| {
        // The first two batches show where the slots' reports are.
        let mut address = |_| {
            let batch = receiver.next_batch().expect("a batch").expect("a batch");
            batch.columns().proof.expect("a proof").words.address()
        };
        let addresses = [0, 1].map(&mut address);
        // `steps` does not count these two, and the stamp of the next batch is its number plus one.
        let next = steps as u64 + 2;
        (steps, addresses[next as usize % 2], next + 1)
    });
    let mut told = Told { control, stop_at, steps: 0, batches: Vec::new(), epochs: Vec::new(), spoil };
    let outcome = train(receiver, &dataset, options, &mut told);
    if outcome.is_ok() {
        runtime.stop().expect("the roles end well");
    }
    Run { outcome, told }
}

fn options(checkpoint: Option<std::path::PathBuf>) -> TrainingOptions {
    TrainingOptions { dropout: 0.0, ..training(checkpoint, EvaluateBy::Sampled) }
}

#[test]
fn late_reports_are_whole_in_order_and_close_to_the_cpu() {
    let name = "on_gpu::late_reports_are_whole_in_order_and_close_to_the_cpu";
    if !cuda_sim::in_process_with(name, &AS_A_DEVICE) {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let host = run(&graph, 3, &options(None), usize::MAX, Backend::Cpu, None);
    let expected = host.told;
    for loss_every in [1, 2, 100] {
        let options = TrainingOptions { loss_every, ..options(None) };
        let Run { outcome, told } = run(&graph, 3, &options, usize::MAX, on_gpu(), None);
        let outcome = outcome.unwrap();
        assert_eq!(outcome.batches, expected.batches.len() as u64);
        assert_eq!(told.batches.len(), expected.batches.len());
        let in_epoch = expected.batches.iter().filter(|batch| batch.epoch == 0).count() as u32;
        for (found, expected) in told.batches.iter().zip(&expected.batches) {
            let case = format!("loss every {loss_every}: {found:?}, {expected:?}");
            let identity = |batch: &BatchEvent| (batch.epoch, batch.batch, batch.hash.clone());
            assert_eq!(identity(found), identity(expected), "{case}");
            assert!(found.gather_us > 0 && found.train_us > 0, "{case}");
            let due = (found.batch + 1) % loss_every == 0 || found.batch + 1 == in_epoch;
            assert_eq!(found.loss.is_some(), due, "{case}");
            if let (Some(found), Some(expected)) = (found.loss, expected.loss) {
                assert!((found - expected).abs() < 1e-3 * expected, "{case}");
            }
        }
        for (found, expected) in told.epochs.iter().zip(&expected.epochs) {
            assert!((found.train_loss - expected.train_loss).abs() < 1e-3, "{found:?} {expected:?}");
            assert_eq!(found.train_accuracy, expected.train_accuracy);
            assert_eq!(found.valid_accuracy, expected.valid_accuracy);
        }
        assert_eq!(told.epochs.len(), 3);
        assert_eq!(outcome.test_accuracy, host.outcome.as_ref().unwrap().test_accuracy);
    }
}

#[test]
fn a_run_interrupted_on_a_device_resumes_with_the_same_results() {
    let name = "on_gpu::a_run_interrupted_on_a_device_resumes_with_the_same_results";
    if !cuda_sim::in_process_with(name, &AS_A_DEVICE) {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let lines = |run: &Run| -> Vec<(u32, u32, Option<u32>)> {
        let line = |batch: &BatchEvent| (batch.epoch, batch.batch, batch.loss.map(f32::to_bits));
        run.told.batches.iter().map(line).collect()
    };
    let with_dropout = |checkpoint| TrainingOptions { dropout: 0.5, ..options(checkpoint) };
    let whole = run(&graph, 2, &with_dropout(None), usize::MAX, on_gpu(), None);
    for stop_at in [1, 3, whole.told.steps - 3] {
        let options = with_dropout(Some(temp.path().join(format!("kept-{stop_at}"))));
        let first = run(&graph, 2, &options, stop_at, on_gpu(), None);
        assert!(first.outcome.as_ref().unwrap().interrupted);
        let rest = run(&graph, 2, &options, usize::MAX, on_gpu(), None);
        assert_eq!([lines(&first), lines(&rest)].concat(), lines(&whole), "{stop_at}");
        let accuracy = |run: &Run| run.outcome.as_ref().unwrap().test_accuracy;
        assert_eq!(accuracy(&rest), accuracy(&whole));
    }
}

/// A slot whose producer died before it had finished: its report has another stamp.
#[test]
fn an_incomplete_batch_ends_the_run_by_name_and_no_checkpoint_holds_it() {
    let name = "on_gpu::an_incomplete_batch_ends_the_run_by_name_and_no_checkpoint_holds_it";
    if !cuda_sim::in_process_with(name, &AS_A_DEVICE) {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    for (checkpoint_every, steps) in [(Some(1), 2), (None, 1)] {
        let part = format!("its producer had not finished it (stamp 99, not {})", steps + 3);
        // The producer reads the report back as well. If it is second, it ends the run, and the consumer sees nothing.
        let consumers_own = (0..MOST_TRIES).find_map(|number| {
            let kept = temp.path().join(format!("kept-{steps}-{number}"));
            let options = TrainingOptions { checkpoint_every, ..options(Some(kept)) };
            let Run { outcome, told } = run(&graph, 2, &options, usize::MAX, on_gpu(), Some(steps));
            match outcome {
                Err(RuntimeError::PeerGone(reason)) if reason.to_string().contains(&part) => {
                    Some((options, told))
                }
                Err(RuntimeError::PeerGone(reason))
                    if reason.to_string().contains("the producer has ended") =>
                {
                    None
                }
                other => panic!("{other:?}"),
            }
        });
        let (options, told) = consumers_own.expect("a run in which the producer had read its report before");
        // The batches before it, beginning with the third.
        assert!(told.batches.len() <= steps, "{:?}", told.batches);
        let saved = saved_state(&options).unwrap().map(|saved| saved.state.cursor);
        let expected = checkpoint_every.map(|_| Cursor { epoch: 0, batch: steps as u32 + 2 });
        assert_eq!(saved, expected);
    }
}

#[test]
fn a_loss_that_is_not_finite_names_the_batch_that_the_cpu_names() {
    let name = "on_gpu::a_loss_that_is_not_finite_names_the_batch_that_the_cpu_names";
    if !cuda_sim::in_process_with(name, &AS_A_DEVICE) {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let mut named = std::collections::BTreeSet::new();
    for node in [3, 70, 200] {
        let table = graph.join("feat.npy");
        let whole = std::fs::read(&table).unwrap();
        let mut spoilt = whole.clone();
        let row = spoilt.len() - (260 - node) * 5 * 4;
        spoilt[row..row + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        std::fs::write(&table, &spoilt).unwrap();
        let told = [Backend::Cpu, on_gpu()].map(|backend| {
            let ended = run(&graph, 2, &options(None), usize::MAX, backend, None).outcome;
            ended.unwrap_err().to_string()
        });
        assert!(told[0].contains("training diverged: the loss of batch "), "{told:?}");
        assert_eq!(told[0], told[1]);
        named.insert(told[0].clone());
        std::fs::write(&table, &whole).unwrap();
    }
    assert!(named.len() > 1, "always the same batch: {named:?}");
}
