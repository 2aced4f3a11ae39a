//! `uvatrain run`.

use serde_json::json;
use uva_graph::Dataset;
use uva_launch::launcher::UserCommand;
use uva_launch::ranks::{self, MAX_RANKS};
use uva_launch::run::CommandRun;
use uva_plan::{RoleCounts, RoleTimes, RolesEpoch, Taking, samplers_by};
use uva_runtime::RuntimeError;
use uva_runtime::metrics::Event;

use super::dry_run;
use super::pipeline::{
    Observers, Outputs, backend_options, check_paths, loader_options, of_rank, with_input_nodes,
};
use super::stage_times::{TimedStages, timed_stages, words_of};
use crate::flags::{AskedRoles, RunFlags};
use crate::ui::{log, out, progress, summary};

/// The same with as many samplers and ranks as the GPUs of this machine do best with, by what the stages took in a run.
fn with_roles_found(flags: &RunFlags) -> anyhow::Result<RunFlags> {
    // Checked before.
    let Some(path) = &flags.role_times else { return Ok(flags.clone()) };
    let TimedStages { milliseconds: [sampling_ms, gathering_ms, training_ms], in_epoch, timed_on } =
        timed_stages("--role-times", path)?;
    let standby_ms = gathering_ms + training_ms;
    let times = RoleTimes { sampling_ms, gathering_ms, training_ms, standby_ms };
    let gpus = ranks::gpus_here()?.min(2 * MAX_RANKS as usize);
    if gpus < 2 {
        return Err(RuntimeError::Missing(format!(
            "--roles auto divides the GPUs of this machine, and the driver sees {gpus}; --roles 1:2 without a GPU gives the \
             sampler and the ranks processes on the CPU"
        ))
        .into());
    }
    let epoch_ms = |counts| {
        let taking = Taking::InSteps;
        RolesEpoch { counts, times, batches: in_epoch, queue: None, taking, switches: false }
            .simulate()
            .epoch_ms
    };
    let samplers = samplers_by(gpus, epoch_ms);
    let counts = RoleCounts { samplers, trainers: gpus - samplers };
    out::say(&format!(
        "--roles auto: {samplers} of {gpus} GPUs sample and {} train: {:.2} s an epoch, simulated with {sampling_ms:.2} ms a \
         batch to sample, {gathering_ms:.2} to gather and {training_ms:.2} to train{}",
        counts.trainers,
        epoch_ms(counts) / 1e3,
        timed_on.map_or_else(String::new, |on| format!(", timed on {}", words_of(&on))),
    ));
    let roles = ranks::RoleCounts { samplers: samplers as u32, ranks: counts.trainers as u32 };
    Ok(RunFlags { roles: Some(AskedRoles::Counts(roles)), role_times: None, ..flags.clone() })
}

/// Makes batches for a command of the user's.
pub fn run(flags: &RunFlags) -> anyhow::Result<()> {
    flags.check()?;
    log::name_process("launcher");
    let found;
    let flags = if flags.roles == Some(AskedRoles::Auto) {
        found = with_roles_found(flags)?;
        found.check()?;
        &found
    } else {
        flags
    };
    check_paths(&[
        ("DATA", Some(&flags.data)),
        ("--metrics", flags.metrics.as_deref()),
        ("--trace", flags.trace.as_deref()),
        ("--input-nodes", flags.input_nodes.as_deref()),
    ])?;
    // Before the dataset is checked, which may take its time.
    let mut command = UserCommand::new(flags.command.clone())?;
    if flags.json {
        command = command.with_stdout_on_stderr();
    }
    let dataset = Dataset::open(&flags.data)?;
    let options = loader_options(flags.loader_options(), &flags.loader, &flags.backend)?;
    let (dataset, options) = with_input_nodes(dataset, options, flags.input_nodes.as_deref())?;
    let run = CommandRun::new(
        dataset,
        &options,
        &backend_options(&flags.backend, &flags.cache, options.features),
        flags.cache.options().request(),
        command,
        &flags.asked_ranks(),
    )?;
    if flags.dry_run {
        return dry_run::show(&run.dry_run(), flags.json);
    }
    let outputs = Outputs {
        metrics: flags.metrics.as_deref(),
        append: false,
        trace: flags.trace.as_deref(),
        listen: flags.metrics_listen,
        ranks: flags.asked_ranks().named_count().unwrap_or(1) as usize,
    };
    let mut view = progress::Training::of_batches_alone();
    let ends = {
        let mut observer = Observers::open(&outputs, &mut view)?;
        let events = observer.want_events();
        run.run(&serde_json::to_value(flags)?, events, &mut observer)
    };
    view.finish();
    let ends = ends?;
    if flags.json {
        match &ends[..] {
            [end] => out::json(&Event::End(Box::new(end.clone())))?,
            ends => out::json(&json!({ "event": "end", "ranks": ends }))?,
        }
    }
    for (rank, end) in ends.iter().enumerate() {
        let metrics = flags.metrics.as_deref().map(|path| of_rank(path, rank, ends.len()));
        let besides = summary::Besides { metrics: metrics.as_deref(), ..summary::Besides::default() };
        if ends.len() > 1 {
            out::say(&format!("\nrank {rank}"));
        }
        out::say(&summary::of_run(end, &besides));
    }
    Ok(())
}
