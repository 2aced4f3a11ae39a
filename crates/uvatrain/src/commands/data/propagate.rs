//! `uvatrain propagate`: multiplies features by graph operators.

use std::thread;
use std::time::Instant;

use anyhow::Context;
use serde_json::json;
use uva_cuda::memory::HostMemory;
use uva_graph::{Dataset, GraphError};
use uva_propagate::{
    Estimate, FinishedHopSet, PropagateOptions, PropagateOutcome, PropagateProgress, PropagateWatch,
    RowOrder, folder_of, propagate,
};
use uva_runtime::spec::ByteSize;

use crate::exit;
use crate::flags::data::PropagateFlags;
use crate::runs::pipeline::check_paths;
use crate::signals::interrupt::Interrupt;
use crate::ui::work::Work;
use crate::ui::{format, out, shell};

/// Prints the resources that the hop set requires, makes it, and prints its contents.
pub fn run(flags: &PropagateFlags) -> anyhow::Result<()> {
    check_paths(&[("DATA", Some(flags.data.as_path())), ("OUT", Some(flags.out.as_path()))])?;
    let start = Instant::now();
    let interrupt = Interrupt::listen()?;
    let dataset = Dataset::open(&flags.data)?;
    let options = options(flags)?;
    let mut watch = PropagateBar { work: Work::with_remaining_time(), interrupt: interrupt.clone(), flags };
    let ended = propagate(&dataset, &flags.out, &options, flags.resume, &mut watch);
    drop(watch);
    match ended {
        Ok(PropagateOutcome::Made(made)) => say(flags, &made, start.elapsed().as_secs_f64()),
        Ok(PropagateOutcome::Stopped) => {
            kept(flags);
            Err(exit::signalled(interrupt.signal()).into())
        }
        Err(error) => {
            if matches!(error, GraphError::Io { .. }) && folder_of(&flags.out).is_dir() {
                kept(flags);
            }
            Err(error.into())
        }
    }
}

fn options(flags: &PropagateFlags) -> anyhow::Result<PropagateOptions> {
    let memory = match flags.memory {
        Some(memory) => memory.bytes(),
        None => {
            HostMemory::read().context("cannot determine the available memory: give --memory")?.to_be_had()
                / 2
        }
    };
    Ok(PropagateOptions {
        operators: flags.operator.0.clone(),
        hops: flags.hops,
        nodes: flags.nodes,
        element: flags.element,
        layout: flags.layout,
        row_order: flags.row_order,
        seed: flags.seed,
        weighted: flags.weighted,
        feature_norm: flags.feature_norm,
        memory,
        threads: flags.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)),
    })
}

fn kept(flags: &PropagateFlags) {
    let folder = folder_of(&flags.out);
    out::say(&format!(
        "finished work is kept in {}: the same command with --resume continues from it. An unfinished panel starts \
         again; a smaller --memory makes panels shorter",
        folder.display()
    ));
}

fn say(flags: &PropagateFlags, made: &FinishedHopSet, seconds: f64) -> anyhow::Result<()> {
    let (set, estimate) = (&made.set, &made.estimate);
    if flags.json {
        return out::json(&json!({
            "path": flags.out,
            "rows": set.rows,
            "dim": set.dim,
            "hops": set.hops(),
            "operators": set.operators,
            "dtype": set.dtype,
            "layout": set.layout,
            "splits": set.splits,
            "bytes": set.bytes(),
            "estimate": estimate,
            "resumed_bytes": made.resumed,
            "complete_before": made.was_there,
            "fingerprint": set.dataset.fingerprint,
            "seconds": seconds,
        }));
    }
    let path = flags.out.display();
    if made.was_there {
        out::say(&format!("{path}: an earlier run has made all of it"));
    }
    out::say(&format!(
        "{path}: {} rows, {} hops of {} features as {}, {}, in {}",
        format::count(set.rows as u64),
        set.hops(),
        set.dim,
        set.dtype,
        ByteSize::from_bytes(set.bytes()),
        format::seconds(seconds)
    ));
    let [data, path] = [&flags.data, &flags.out].map(|path| shell::path(path));
    let train = match set.order.kind {
        // The hop set has no split to train on.
        RowOrder::Nodes => format!("train {data} --first-layer {path}"),
        RowOrder::Shuffled | RowOrder::File => format!("train {path} --model sign"),
    };
    out::say(&format!("next: uvatrain info {path}, uvatrain {train}"));
    Ok(())
}

/// The bar on the terminal, and the handling of signals.
struct PropagateBar<'f> {
    work: Work,
    interrupt: Interrupt,
    flags: &'f PropagateFlags,
}

impl PropagateWatch for PropagateBar<'_> {
    fn begins(&mut self, estimate: &Estimate, finished: u64) {
        let size = |bytes: u64| ByteSize::from_bytes(bytes).to_string();
        let passes = match estimate.panels {
            1 => "all columns at once".to_owned(),
            panels => format!("{panels} panels of {} columns", estimate.columns),
        };
        let meanwhile = match estimate.disk_bytes > estimate.set_bytes {
            true => format!(", up to {} meanwhile", size(estimate.disk_bytes)),
            false => String::new(),
        };
        let lines = [
            Some(format!(
                "{}: {} rows × {} hops × {} features, {} on disk{meanwhile}",
                self.flags.out.display(),
                format::count(estimate.rows),
                estimate.hops,
                estimate.dim,
                size(estimate.set_bytes),
            )),
            Some(format!(
                "{passes}; {} of memory, {} to read, {} to write; about {} for the sums",
                size(estimate.memory_bytes),
                size(estimate.read_bytes),
                size(estimate.write_bytes),
                format::seconds(estimate.seconds)
            )),
            (finished > 0).then(|| format!("{} of it are finished already", size(finished))),
        ];
        self.work.beside(|| lines.iter().flatten().for_each(|line| out::say(line)));
    }

    fn progress(&mut self, progress: PropagateProgress<'_>) {
        let (hop, panel) = (progress.hop, progress.panel);
        let name = match panel.1 {
            0 => progress.what.to_owned(),
            1 => format!("{} hop {}/{}", progress.what, hop.0, hop.1),
            panels => format!("{} hop {}/{}, panel {}/{panels}", progress.what, hop.0, hop.1, panel.0),
        };
        self.work.show_named(&name, progress.done, progress.total);
    }

    fn stops(&mut self) -> bool {
        self.interrupt.has_arrived()
    }

    fn finishes(&mut self) {
        self.interrupt.hold();
    }
}
