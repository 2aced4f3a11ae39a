//! `uvatrain import`: a graph in another format becomes a dataset.

use std::time::Instant;

use uva_graph::import::{self, ImportOptions};

use super::written;
use crate::flags::{ImportFlags, SelfLoops, SourceFormat};
use crate::ui::work::Work;

/// Reads the graph, writes the dataset, and says what it is and how long that took.
pub fn run(flags: &ImportFlags) -> anyhow::Result<()> {
    super::clean_up_on_signals()?;
    let options = ImportOptions {
        symmetrise: flags.symmetrise,
        deduplicate: flags.dedup,
        self_loops: flags.self_loops.map(|choice| match choice {
            SelfLoops::Keep => import::SelfLoops::Keep,
            SelfLoops::Add => import::SelfLoops::Add,
            SelfLoops::Remove => import::SelfLoops::Remove,
        }),
        name: flags.name.clone(),
    };
    let start = Instant::now();
    let work = Work::of_unknown_length("importing");
    match flags.from {
        SourceFormat::Npy => import::npy(&flags.source, &flags.out, &options)?,
        SourceFormat::Planetoid => import::planetoid(&flags.source, &flags.out, &options)?,
    }
    drop(work);
    written::say(&flags.out, start.elapsed())
}
