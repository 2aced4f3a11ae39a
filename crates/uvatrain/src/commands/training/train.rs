//! `uvatrain train`: trains a built-in model.

use uva_launch::training::{
    EvaluateBy, TrainingHost, TrainingOptions, TrainingRun, give_model_of_typed_graphs, likely_environment,
};
use uva_plan::OfStages;
use uva_runtime::machine::cores::Cores;
use uva_runtime::options::MAX_SAMPLERS;
use uva_runtime::telemetry::metrics::Event;

use crate::exit;
use crate::flags::training::TrainFlags;
use crate::models::Models;
use crate::runs::data_kinds::{DataKind, kind_at};
use crate::runs::pipeline::{Observers, Outputs, backend_options, check_outputs, check_paths};
use crate::runs::trainer::{become_program, restart_with};
use crate::runs::{dry_run, resume, trainer};
use crate::ui::{log, out, progress, summary};
use uva_runtime::machine::share_of_cores;
use uva_runtime::options::input_nodes::paths_of;
use uva_runtime::{LoaderOptions, RuntimeError};

/// The options with the default model of the data's kind, and a note on a model that was chosen in this way.
fn with_default_model(
    flags: &TrainFlags,
    kind: &dyn DataKind,
) -> Result<(TrainFlags, Option<String>), RuntimeError> {
    let mut flags = flags.clone();
    let is_given = flags.training.typed.iter().any(|field| field.name == "model");
    let chosen = !is_given && kind.is_typed(&flags.data);
    let note = chosen.then(|| give_model_of_typed_graphs(&mut flags.training.given)).transpose()?;
    Ok((flags, note))
}

/// Trains a built-in model: in processes, with the model in `uvatrain-consumer`, or with `--in-process` in that program
/// alone.
pub fn run(flags: &TrainFlags, models: Option<Models>) -> anyhow::Result<()> {
    let kind = kind_at(&flags.data);
    let (flags, chosen_model) = &with_default_model(flags, kind)?;
    kind.check_training(flags)?;
    // In one process the thread of the command is the consumer.
    log::name_process(if flags.loader.in_process { "consumer" } else { "launcher" });
    check_paths(&[
        ("DATA", Some(&flags.data)),
        ("--metrics", flags.metrics.as_deref()),
        ("--trace", flags.trace.as_deref()),
        ("--input-nodes", flags.input_nodes.as_deref()),
        ("--first-layer", flags.first_layer.as_deref()),
        ("--libtorch", flags.libtorch.as_deref()),
    ])?;
    let checkpoint = flags.training.options().checkpoint;
    let (cache, order) = (flags.cache.options(), flags.loader.options().order_file);
    let reads = [
        Some(&*flags.data),
        flags.first_layer.as_deref(),
        cache.plan.as_deref(),
        order.as_deref(),
        checkpoint.as_deref(),
    ];
    let nodes = flags.input_nodes.iter().flat_map(|given| paths_of(given).map(Some));
    check_outputs(
        &[("--metrics", flags.metrics.as_deref()), ("--trace", flags.trace.as_deref())],
        &reads.into_iter().chain(nodes).collect::<Vec<_>>(),
    )?;
    let asked = flags.training.options();
    if let Some(cores) = &asked.cores {
        cores.keep()?;
    }
    let given = given_threads(flags, &asked);
    let (dataset, mut loader) = kind.open_for_training(flags)?;
    dataset.overlaps().iter().for_each(|overlap| out::say(&format!("splits: {overlap}")));
    let divided = matches!(asked.cores, Some(Cores::Divided(_)));
    if let Some(Cores::Divided(sets)) = &asked.cores {
        // A thread per core. The number of training threads is resolved with that of a checkpoint.
        let of = |given: Option<usize>, cores: &[usize]| given.unwrap_or(cores.len());
        loader.samplers = of(given.sampling, &sets.sampling).min(MAX_SAMPLERS);
        loader.gather_threads = of(given.gathering, &sets.gathering);
    }
    let trainer = match models {
        Some(models) if flags.loader.in_process => TrainingHost::Here(models.consume),
        _ => {
            let program = trainer::find(flags.libtorch.as_deref(), !flags.dry_run)?;
            if flags.loader.in_process {
                let environment = [program.environment, likely_environment(&asked)].concat();
                return Err(become_program(&program.path, environment));
            }
            TrainingHost::Program(program)
        }
    };
    let backend = kind.backend(flags, backend_options(&flags.backend, &flags.cache, loader.features));
    let draws = kind.draws(&loader);
    let mut options = asked.clone();
    if flags.dry_run {
        // A dry run writes nothing: it neither makes nor locks the folder of the checkpoints.
        (options.checkpoint, options.resume) = (None, false);
    }
    let caches = || flags.cache.options().request();
    let mut run = TrainingRun::new(dataset, &loader, options.clone(), &backend, caches(), trainer.clone())?;
    kind.check_on_device(flags, run.is_on_gpu())?;
    let divides_cores = asked.cores == Some(Cores::Auto);
    if divides_cores {
        run.check_cores(given)?;
    }
    let say_model = || chosen_model.iter().for_each(|note| out::say(note));
    if flags.dry_run {
        say_model();
        return dry_run::show(&run.dry_run(), flags.json);
    }
    if flags.loader.in_process {
        restart_with(run.environment())?;
    }
    // After the restart, which would say it again.
    say_model();
    let outputs = Outputs {
        metrics: flags.metrics.as_deref(),
        append: asked.resume,
        trace: flags.trace.as_deref(),
        listen: flags.metrics_listen,
        ranks: 1,
    };
    let mut view = progress::TrainingBar::new();
    let mut predicted = None;
    if divides_cores {
        let chosen = run.choose_cores(given, &mut view)?;
        // The lock on the checkpoint's folder is released with the timed run.
        drop(run);
        let (dataset, loader) = kind.open_for_training(flags)?;
        let OfStages { sampling, gathering, training } = chosen.division.threads;
        let loader = LoaderOptions { samplers: sampling, gather_threads: gathering, ..loader };
        let options = TrainingOptions { threads: Some(training), ..options };
        predicted = Some(chosen.division.batch_ms);
        run = TrainingRun::new(dataset, &loader, options, &backend, caches(), trainer)?.with_cores(chosen);
    }
    let train_threads = run.cpu_threads();
    let end = {
        let mut observer = Observers::open(&outputs, &mut view)?;
        run.run(serde_json::to_value(flags)?, &mut observer)
    };
    view.finish();
    let end = match end {
        Err(error @ RuntimeError::Interrupted(signal)) => {
            return Err(exit::interrupted(signal, error.to_string(), resume::advice(&asked)).into());
        }
        end => end?,
    };
    if flags.json {
        out::json(&Event::End(Box::new(end.clone())))?;
    }
    let besides = summary::SummaryFacts {
        metrics: flags.metrics.as_deref(),
        checkpoint: asked.checkpoint.as_deref(),
        // The waits of the run do not overrule the choice of the trial. If each stage has its own cores, further
        // threads of one stage would share these.
        train_threads: train_threads.filter(|_| predicted.is_none() && !divided),
        keep: Some(asked.keep),
        cores: share_of_cores(1),
        sampled: draws && asked.evaluate_by == EvaluateBy::Sampled,
        verbose: flags.verbose,
    };
    let summary = summary::of_run(&end, &besides);
    match flags.json {
        true => out::say_lines(&summary),
        false => out::text(&format!("{summary}\n"))?,
    }
    if let (Some(predicted), Some(speed)) = (predicted, end.batches_per_second) {
        let came = 1e3 / speed;
        out::say(&format!("--cores auto: {predicted:.2} ms a batch were predicted, and {came:.2} measured"));
    }
    Ok(())
}

/// The threads of the stages, as far as they were given.
fn given_threads(flags: &TrainFlags, asked: &TrainingOptions) -> OfStages<Option<usize>> {
    let loader = flags.loader.options();
    let typed = |name: &str| flags.loader.typed().iter().any(|field| field.name == name);
    OfStages {
        sampling: typed("samplers").then_some(loader.samplers),
        gathering: typed("gather_threads").then_some(loader.gather_threads),
        training: asked.threads,
    }
}
