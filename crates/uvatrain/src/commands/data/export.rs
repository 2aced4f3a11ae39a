//! `uvatrain export`: converts a dataset to a format of other programs.

use std::time::Instant;

use uva_graph::TypedDataset;
use uva_io::export::ExportOptions;

use crate::flags::data::ExportFlags;
use crate::signals::ending::clean_up_on_signals;
use crate::ui::work::Work;
use crate::ui::{format, out, shell};

/// Checks the dataset, writes it, and prints the time taken and how to import the result.
pub fn run(flags: &ExportFlags) -> anyhow::Result<()> {
    clean_up_on_signals()?;
    let start = Instant::now();
    let dataset = TypedDataset::open(&flags.data)?;
    let work = Work::new();
    let options = ExportOptions { gzip: flags.gzip };
    let note = |line: &str| work.beside(|| out::say(line));
    let to_import = flags.to.run(&dataset, &flags.out, options, &|progress| work.show(progress), &note)?;
    drop(work);
    let mut back = format!("uvatrain import --from {} {} DIRECTORY", flags.to.name, shell::path(&flags.out));
    for option in to_import {
        back.push(' ');
        back += &option;
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
