//! `uvatrain plan`: which lists and rows are worth caching.

mod plot;
mod text;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use uva_graph::reorder::{NodeOrder, stage_reordered};
use uva_graph::{Dataset, GraphError, Verify};
use uva_mem::files::write_output;
use uva_runtime::RuntimeError;
use uva_runtime::backend::{self, Probe, SamplerChoice};
use uva_runtime::sampler::cache::CachePlan;
use uva_runtime::spec::Spelling;
use uva_runtime::tune::planning::{self, Budget, PlanAsked};

use crate::exit;
use crate::flags::training::PlanFlags;
use crate::runs::pipeline;
use crate::signals::ending::clean_up_on_signals;
use crate::ui::work::Work;
use crate::ui::written;
use crate::ui::{out, shell};

/// Plans, prints, and writes the requested files.
pub fn run(flags: &PlanFlags) -> anyhow::Result<()> {
    flags.loader.check()?;
    let mut options = flags.backend.options();
    options.check().map_err(RuntimeError::from)?;
    check_outputs(flags)?;
    clean_up_on_signals()?;
    let dataset = Arc::new(Dataset::open(&flags.data)?);
    // The plan runs in this process alone, so a GPU is not divided.
    if !flags.backend.gives("sampler") {
        // As for `train` with caches.
        options.sampler = SamplerChoice::Auto;
    }
    let mut decision = backend::decide(&options, true, || Ok(Probe::of_driver()))?;
    decision.notes.iter().for_each(|note| out::say(note));
    let budget = match flags.gpu_cache {
        Budget::Bytes(bytes) => bytes,
        Budget::Auto => {
            let (bytes, reason) = planning::budget_left(&dataset, &decision.backend)?;
            out::say(&format!("--gpu-cache auto: {reason}"));
            bytes
        }
    };
    // As for `train`.
    let mut loader = flags.loader.options_of_models();
    loader.feature_type =
        loader.feature_type.for_models(dataset.table().element, decision.backend.cuda().is_some());
    // The plan counts the run's own batches, in the order of its seeds.
    let loader = loader.with_order(&dataset)?;
    loader.made_order.iter().for_each(|order| out::say(&Spelling::CommandLine.sentence(&order.note())));
    if let Some(verdict) = planning::measure_sampler(&dataset, &loader, &mut decision.backend)? {
        out::say(&verdict.reason);
    }
    let asked = PlanAsked::new(budget, flags.cache_policy).timed_by(flags.timed_by);
    let (plan, profile) =
        planning::plan_asked(&dataset, &loader, &decision.backend, &asked, &|line| out::say(line))?;
    if let Some(path) = &flags.out {
        plan.write(path)?;
    }
    if let Some(path) = &flags.svg {
        write_output(path, plot::svg(&plan)?.as_bytes())
            .map_err(|error| exit::of_output("--svg", path, error))?;
    }
    if flags.json {
        out::json(&plan)?;
    } else {
        out::text(&text::of_plan(&plan))?;
    }
    if let Some(path) = &flags.out {
        let [data, plan] = [&flags.data, path].map(|path| shell::path(path));
        out::say(&format!("next: uvatrain train {data} --plan {plan}{}", flags.loader.given_again()));
    }
    if let Some(reordered) = &flags.write_reordered {
        let order = profile.map(|profile| profile.lists).unwrap_or_default();
        rewrite(&dataset, &order, &plan, reordered)?;
    }
    Ok(())
}

/// Early checks for errors that would otherwise appear only after all the work.
fn check_outputs(flags: &PlanFlags) -> anyhow::Result<()> {
    for (option, path) in [("--out", &flags.out), ("--svg", &flags.svg)] {
        let folder = path.as_deref().and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(exit::usage(format!("{option}: there is no folder {}", folder.display())).into());
        }
    }
    pipeline::check_outputs(
        &[("--out", flags.out.as_deref()), ("--svg", flags.svg.as_deref())],
        &[Some(flags.data.as_path()), flags.loader.options().order_file.as_deref()],
    )?;
    if let Some(out) = &flags.write_reordered {
        if out.exists() {
            return Err(exit::usage(format!("--write-reordered {}: it exists already", out.display())).into());
        }
        if flags.cache_policy.is_dynamic() {
            return Err(exit::usage(format!(
                "--write-reordered with --cache-policy {}: that policy ranks no lists to order by",
                flags.cache_policy
            ))
            .into());
        }
    }
    Ok(())
}

/// Writes the dataset in the order of the list cache, and the plan with the new ids into the same directory.
fn rewrite(dataset: &Dataset, order: &[u32], plan: &CachePlan, out: &Path) -> anyhow::Result<()> {
    let began = Instant::now();
    let first: Vec<i64> = order.iter().map(|&node| i64::from(node)).collect();
    let order = NodeOrder::from_first(dataset.nodes(), &first)?;
    let work = Work::new();
    let (staged, _) = stage_reordered(dataset, &order, out, &|progress| work.show(progress))?;
    drop(work);
    // Before the directory is renamed, so that it never exists without its plan.
    let reordered = Dataset::open_verified(staged.path(), Verify::Full)?;
    let mut moved = plan.reordered(&reordered, &order);
    if let (None, Some(name)) = (&reordered.meta().name, out.file_name()) {
        // The dataset's name is that of the final directory.
        moved.dataset.name = name.to_string_lossy().into_owned();
    }
    drop(reordered);
    moved.write(&staged.path().join("plan.json"))?;
    staged.commit().map_err(GraphError::from)?;
    written::say(out, began.elapsed())?;
    out::say(&format!("its plan: {}", out.join("plan.json").display()));
    Ok(())
}
