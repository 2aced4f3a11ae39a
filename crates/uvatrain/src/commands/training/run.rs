//! `uvatrain run`: batches for a user's command.

use serde_json::json;
use uva_graph::{Dataset, Verify};
use uva_launch::launcher::UserCommand;
use uva_launch::run::CommandRun;
use uva_runtime::LoaderOptions;
use uva_runtime::options::input_nodes::{InputSeeds, open_for_batches, paths_of};
use uva_runtime::telemetry::metrics::Event;

use crate::flags::training::RunFlags;
use crate::runs::dry_run;
use crate::runs::pipeline::{
    Observers, Outputs, backend_options, check_outputs, check_paths, loader_options, of_rank,
    with_input_nodes,
};
use crate::runs::roles_found::with_roles_found;
use crate::ui::{log, out, progress, summary};

/// The dataset, and all options of the loader.
fn opened(flags: &RunFlags) -> anyhow::Result<(Dataset, LoaderOptions)> {
    let options = loader_options(flags.loader_options(), &flags.loader, &flags.backend)?;
    let seeds = InputSeeds::in_files(&flags.input_nodes);
    let dataset = open_for_batches(&flags.data, Verify::Stamp, options.target.as_ref(), Some(&seeds))?;
    Ok(with_input_nodes(dataset, options, &flags.input_nodes)?)
}

/// Makes batches for a user's command.
pub fn run(flags: &RunFlags) -> anyhow::Result<()> {
    flags.check()?;
    log::name_process("launcher");
    let outputs = [("--metrics", flags.metrics.as_deref()), ("--trace", flags.trace.as_deref())];
    let nodes = flags.input_nodes.iter();
    let paths: Vec<_> = nodes.clone().map(|given| ("--input-nodes", Some(&**given))).collect();
    check_paths(&[&[("DATA", Some(&*flags.data))], &outputs[..], &paths].concat())?;
    let (caches, loader) = (flags.cache.options(), flags.loader.options());
    let reads = [Some(&*flags.data), caches.plan.as_deref(), loader.order_file.as_deref()];
    let reads: Vec<_> = reads.into_iter().chain(nodes.flat_map(|given| paths_of(given).map(Some))).collect();
    check_outputs(&outputs, &reads)?;
    // Before the dataset is checked, which may be slow.
    let mut command = UserCommand::new(flags.command.clone())?;
    if flags.json {
        command = command.with_stdout_on_stderr();
    }
    let (mut dataset, mut options) = opened(flags)?;
    let found;
    let flags = if flags.chooses_roles() {
        found = with_roles_found(flags, &dataset, &options)?;
        found.check()?;
        (dataset, options) = opened(&found)?;
        &found
    } else {
        flags
    };
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
    let mut view = progress::TrainingBar::of_batches_alone();
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
        let besides = summary::SummaryFacts {
            metrics: metrics.as_deref(),
            verbose: flags.verbose,
            ..summary::SummaryFacts::default()
        };
        if ends.len() > 1 {
            out::say_lines(&format!("\nrank {rank}"));
        }
        out::say_lines(&summary::of_run(end, &besides));
    }
    Ok(())
}
