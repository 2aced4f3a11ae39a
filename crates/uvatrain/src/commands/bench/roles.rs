//! `uvatrain bench roles`: how many GPUs should sample and how many train, from a simulated epoch of every division.

use serde::Serialize;
use serde_json::Value;
use uva_plan::{
    GpuCounts, GpuStageTimes, QueueOrder, RolesEpoch, RolesOutcome, in_turns_ms, samplers_by,
    samplers_by_ratio, slower_side_ms,
};

use crate::exit;
use crate::flags::bench::RolesBenchFlags;
use crate::runs::stage_times::{TimedStages, timed_stages, words_of};
use crate::ui::table::TextTable;
use crate::ui::{format, out};

/// Default number of batches in an epoch.
const BATCHES: usize = 100;

#[derive(Serialize)]
struct Report {
    gpus: usize,
    batches: usize,
    times: GpuStageTimes,
    /// Milliseconds of an epoch with one GPU that alternates between both roles.
    one_gpu_ms: f64,
    /// Every division of the GPUs. Empty for a single GPU.
    divisions: Vec<Division>,
    /// Samplers in the division with the shortest epoch. 0 for a single GPU.
    samplers: usize,
    /// Samplers chosen by the slower side of a division, and by GNNLab's rule.
    samplers_by_slower_side: usize,
    samplers_by_ratio: usize,
    /// The hardware of the run that the stage times come from, if they come from a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    timed_on: Option<Value>,
}

#[derive(Serialize)]
struct Division {
    #[serde(flatten)]
    counts: GpuCounts,
    #[serde(flatten)]
    outcome: RolesOutcome,
}

/// Simulates and prints the result.
pub fn run(flags: &RolesBenchFlags) -> anyhow::Result<()> {
    let Measured { times, batches, timed_on } = measured(flags)?;
    let gpus = flags.gpus;
    let taking = if flags.when_free { QueueOrder::WhenFree } else { QueueOrder::InSteps };
    let division = |samplers: usize| {
        let counts = GpuCounts { samplers, trainers: gpus - samplers };
        let epoch = RolesEpoch { counts, times, batches, queue: flags.queue, taking, switches: flags.switch };
        Division { counts, outcome: epoch.simulate() }
    };
    let divisions: Vec<Division> = (1..gpus).map(division).collect();
    let report = Report {
        gpus,
        batches,
        times,
        one_gpu_ms: in_turns_ms(batches, &times),
        samplers: samplers_by(gpus, |counts| divisions[counts.samplers - 1].outcome.epoch_ms),
        divisions,
        samplers_by_slower_side: samplers_by(gpus, |counts| slower_side_ms(counts, &times)),
        samplers_by_ratio: samplers_by_ratio(gpus, &times),
        timed_on,
    };
    if flags.json { out::json(&report) } else { out::text(&text(&report, flags.switch)) }
}

/// The input of the simulation.
struct Measured {
    times: GpuStageTimes,
    batches: usize,
    timed_on: Option<Value>,
}

/// The times of the stages and the batches in an epoch, from the options or from a run's metrics.
fn measured(flags: &RolesBenchFlags) -> anyhow::Result<Measured> {
    let (given, in_epoch, timed_on) = match (&flags.times, &flags.metrics) {
        (Some(times), _) => (times.clone(), BATCHES, None),
        (None, Some(path)) => {
            let TimedStages { milliseconds, in_epoch, timed_on } = timed_stages("--metrics", path)?;
            (milliseconds.to_vec(), in_epoch, timed_on)
        }
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
    Ok(Measured {
        times: GpuStageTimes { sampling_ms, gathering_ms, training_ms, standby_ms },
        batches,
        timed_on,
    })
}

fn text(report: &Report, switches: bool) -> String {
    let GpuStageTimes { sampling_ms, gathering_ms, training_ms, standby_ms } = report.times;
    let mut facts = TextTable::of_facts();
    facts.row(&[
        "a batch",
        &format!("{sampling_ms:.2} ms to sample, {gathering_ms:.2} to gather, {training_ms:.2} to train"),
    ]);
    if switches {
        facts.row(&["standby", &format!("{standby_ms:.2} ms a batch for a trainer on a sampler's GPU")]);
    }
    if let Some(timed_on) = &report.timed_on {
        facts.row(&["timed on", &words_of(timed_on)]);
    }
    let seconds = |ms: f64| format::seconds(ms / 1e3);
    facts.row(&[
        "one GPU",
        &format!(
            "{} per epoch of {} batches, its roles alternating",
            seconds(report.one_gpu_ms),
            report.batches
        ),
    ]);
    if report.divisions.is_empty() {
        return facts.render();
    }
    let mut rows = TextTable::with_heading(&[
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
    let (slower_side, ratio) = (report.samplers_by_slower_side, report.samplers_by_ratio);
    facts.row(&[
        "chosen",
        &format!(
            "{samplers} to sample, {trainers} to train ({slower_side} to sample by the slower side, {ratio} by GNNLab's rule)"
        ),
    ]);
    format!("{}\n{}\nSimulated: no GPU was used.\n", rows.render(), facts.render())
}
