//! Times of a run's stages, measured one after the other by the number of threads.

use std::time::Instant;

use uva_graph::Dataset;
use uva_launch::training::{StagesToTime, TrainingOptions};
use uva_plan::{OfStages, TimedThreads};
use uva_runtime::RuntimeError;
use uva_runtime::pipeline::roles::BatchReceiver;
use uva_runtime::tune::planning::time_stages;

use crate::session::Session;
use crate::trial::NullObserver;

/// Times training on all batches of the trial, and then sampling and gathering in this process. The first batch for
/// each number of threads warms up.
pub(crate) fn run(
    receiver: &mut BatchReceiver,
    dataset: &Dataset,
    job: &StagesToTime,
) -> Result<OfStages<Vec<TimedThreads>>, RuntimeError> {
    let alone = TrainingOptions { checkpoint: None, resume: false, ..job.training.clone() };
    let mut session = Session::begin(receiver, dataset, &alone, &mut NullObserver)?;
    // Each batch has a slot. Once all have arrived, nothing is left to sample or to gather, and only the training
    // works.
    let mut batches = Vec::new();
    for _ in 0..receiver.schedule().train_batches() {
        batches.extend(receiver.next_batch()?);
    }
    let mut training = Vec::new();
    for &threads in &job.threads {
        session.use_threads(threads);
        let mut times = Vec::new();
        for batch in &batches {
            let began = Instant::now();
            session.train_batch(batch, true, &mut NullObserver)?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        if times.len() > 1 {
            times.remove(0);
        }
        times.sort_by(f64::total_cmp);
        training.extend(times.get(times.len() / 2).map(|&ms| TimedThreads { threads, ms }));
    }
    drop(batches);
    receiver.end_training();
    while receiver.next_batch()?.is_some() {}
    let [sampling, gathering] = time_stages(dataset, &job.loader, &job.threads)?;
    Ok(OfStages { sampling, gathering, training })
}
