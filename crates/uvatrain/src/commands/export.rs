//! `uvatrain export`: a dataset becomes what other programs read.

use std::time::Instant;

use uva_graph::Dataset;
use uva_io::export::{self, Target};

use crate::exit;
use crate::flags::{ExportFlags, TargetFormat};
use crate::ui::work::Work;
use crate::ui::{format, out};

/// Checks the dataset, writes it, and says how long that took and how it is imported again.
pub fn run(flags: &ExportFlags) -> anyhow::Result<()> {
    super::clean_up_on_signals()?;
    let (target, name) = match flags.to {
        TargetFormat::Npy => (Target::Npy, "npy"),
        TargetFormat::Edgelist => (Target::EdgeList { gzip: flags.gzip }, "edgelist"),
        TargetFormat::Graphbolt => (Target::GraphBolt, "graphbolt"),
    };
    if flags.gzip && flags.to != TargetFormat::Edgelist {
        return Err(exit::usage("--gzip: only the lines of --to edgelist are compressed").into());
    }
    let start = Instant::now();
    let dataset = Dataset::open(&flags.data)?;
    let work = Work::new();
    export::run(target, &dataset, &flags.out, &|progress| work.show(progress))?;
    drop(work);
    let mut back = format!("uvatrain import --from {name} {} DIRECTORY", flags.out.display());
    if flags.to == TargetFormat::Edgelist {
        if flags.out.join("node_names.txt").exists() {
            back += " --ids name";
        }
        if dataset.weights().is_some() {
            back += " --third-column weight";
        }
    }
    out::say(&format!(
        "{}: {} nodes, {} edges, in {}",
        flags.out.display(),
        format::count(dataset.nodes() as u64),
        format::count(dataset.edges() as u64),
        format::seconds(start.elapsed().as_secs_f64())
    ));
    out::say(&format!("back: {back}"));
    Ok(())
}
