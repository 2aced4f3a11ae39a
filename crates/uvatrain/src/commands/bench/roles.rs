//! `uvatrain bench roles`: how many GPUs should sample and how many train, by a simulated epoch of every division.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Serialize;
use uva_mem::files::open_regular;
use uva_plan::{
    RoleCounts, RoleTimes, RolesEpoch, RolesOutcome, Taking, in_turns_ms, samplers_by_ratio, samplers_of,
};
use uva_runtime::metrics::{BatchEvent, Event};

use crate::exit::{self, Problem};
use crate::flags::RolesBenchFlags;
use crate::ui::table::Table;
use crate::ui::{format, out};

/// Batches of an epoch where nothing says how many.
const BATCHES: usize = 100;

#[derive(Serialize)]
struct Report {
    gpus: usize,
    batches: usize,
    times: RoleTimes,
    /// One GPU with both roles in turns.
    one_gpu_ms: f64,
    /// Every division of the GPUs; none of a single one.
    divisions: Vec<Division>,
    /// Samplers of the chosen division; 0 for a single GPU.
    samplers: usize,
    /// The same by GNNLab's rule.
    samplers_by_ratio: usize,
}

#[derive(Serialize)]
struct Division {
    #[serde(flatten)]
    counts: RoleCounts,
    #[serde(flatten)]
    outcome: RolesOutcome,
}

/// Simulates and prints.
pub fn run(flags: &RolesBenchFlags) -> anyhow::Result<()> {
    let (times, batches) = measured(flags)?;
    let gpus = flags.gpus;
    let taking = if flags.when_free { Taking::WhenFree } else { Taking::InSteps };
    let division = |samplers: usize| {
        let counts = RoleCounts { samplers, trainers: gpus - samplers };
        let epoch = RolesEpoch { counts, times, batches, queue: flags.queue, taking, switches: flags.switch };
        Division { counts, outcome: epoch.simulate() }
    };
    let report = Report {
        gpus,
        batches,
        times,
        one_gpu_ms: in_turns_ms(batches, &times),
        divisions: (1..gpus).map(division).collect(),
        samplers: samplers_of(gpus, &times),
        samplers_by_ratio: samplers_by_ratio(gpus, &times),
    };
    if flags.json { out::json(&report) } else { out::text(&text(&report, flags.switch)) }
}

/// What the stages take, and the batches of an epoch: as given, or as a run's metrics have them.
fn measured(flags: &RolesBenchFlags) -> anyhow::Result<(RoleTimes, usize)> {
    let (given, in_epoch) = match (&flags.times, &flags.metrics) {
        (Some(times), _) => (times.clone(), BATCHES),
        (None, Some(path)) => of_metrics(path)?,
        (None, None) => return Err(exit::usage("give --times, or --metrics of a run").into()),
    };
    let (sampling_ms, gathering_ms, training_ms, standby_ms) = match given[..] {
        [sampling, gathering, training] => (sampling, gathering, training, gathering + training),
        [sampling, gathering, training, standby] => (sampling, gathering, training, standby),
        _ => {
            let count = given.len();
            return Err(exit::usage(format!(
                "--times has {count} numbers: give those of sampling, gathering and training, and of a standby trainer if it \
                 differs"
            ))
            .into());
        }
    };
    let batches = flags.batches.unwrap_or(in_epoch);
    Ok((RoleTimes { sampling_ms, gathering_ms, training_ms, standby_ms }, batches))
}

/// The median times of a run's training batches, in milliseconds, and its batches an epoch.
fn of_metrics(path: &Path) -> anyhow::Result<(Vec<f64>, usize)> {
    let fault = |what: String| -> Problem { exit::usage(format!("--metrics {}: {what}", path.display())) };
    let file = open_regular(path).map_err(|error| fault(error.to_string()))?;
    let mut stages: [Vec<u64>; 3] = Default::default();
    let mut in_epoch = 0;
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(|error| fault(error.to_string()))?;
        // Lines of later versions, and one that is still being written, have no batch to count.
        let Ok(Event::Batch(batch)) = serde_json::from_slice::<Event>(&line) else { continue };
        let BatchEvent { sample_us, gather_us, train_us, batch: number, .. } = batch;
        for (stage, us) in stages.iter_mut().zip([sample_us, gather_us, train_us]) {
            stage.push(us);
        }
        in_epoch = in_epoch.max(number as usize + 1);
    }
    if in_epoch == 0 {
        return Err(fault(
            "it has no batches: give a file that `uvatrain train --metrics FILE` wrote".to_owned(),
        )
        .into());
    }
    let median = |mut of: Vec<u64>| {
        let middle = of.len() / 2;
        // A stage that took less than a microsecond took some time.
        (*of.select_nth_unstable(middle).1).max(1) as f64 / 1e3
    };
    Ok((stages.map(median).to_vec(), in_epoch))
}

fn text(report: &Report, switches: bool) -> String {
    let RoleTimes { sampling_ms, gathering_ms, training_ms, standby_ms } = report.times;
    let mut facts = Table::of_facts();
    facts.row(&[
        "a batch",
        &format!("{sampling_ms:.2} ms to sample, {gathering_ms:.2} to gather, {training_ms:.2} to train"),
    ]);
    if switches {
        facts.row(&["standby", &format!("{standby_ms:.2} ms a batch for a trainer on a sampler's GPU")]);
    }
    let seconds = |ms: f64| format::seconds(ms / 1e3);
    facts.row(&[
        "one GPU",
        &format!("{} an epoch of {} batches, its roles in turns", seconds(report.one_gpu_ms), report.batches),
    ]);
    if report.divisions.is_empty() {
        return facts.render();
    }
    let mut rows = Table::with_heading(&[
        "samplers",
        "trainers",
        "epoch",
        "times one GPU",
        "samplers idle",
        "trainers idle",
        "by standby",
    ]);
    for Division { counts, outcome } in &report.divisions {
        rows.row(&[
            counts.samplers.to_string(),
            counts.trainers.to_string(),
            seconds(outcome.epoch_ms),
            format!("{:.2}", report.one_gpu_ms / outcome.epoch_ms),
            format::percent(outcome.samplers_idle).to_string(),
            format::percent(outcome.trainers_idle).to_string(),
            outcome.standby_batches.to_string(),
        ]);
    }
    let (samplers, trainers) = (report.samplers, report.gpus - report.samplers);
    facts.row(&[
        "chosen",
        &format!("{samplers} to sample, {trainers} to train ({} by GNNLab's rule)", report.samplers_by_ratio),
    ]);
    format!("{}\n{}\nSimulated: no GPU was used.\n", rows.render(), facts.render())
}
