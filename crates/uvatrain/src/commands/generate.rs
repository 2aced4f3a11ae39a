//! `uvatrain generate`: a graph made up on the spot.

use std::time::Instant;

use super::written;
use crate::flags::{ByteSize, GenerateFlags};
use crate::ui::work::Work;
use crate::ui::{format, out};

/// Says what the graph will take, writes it, and says what it is and how long that took.
pub fn run(flags: &GenerateFlags) -> anyhow::Result<()> {
    let recipe = flags.recipe()?;
    let estimate = recipe.estimate()?;
    out::say(&format!(
        "{}: {} nodes and about {} edges, {} on disk; under {} of memory while it is made",
        flags.out.display(),
        format::count(estimate.nodes),
        format::count(estimate.edges),
        ByteSize::from_bytes(estimate.disk_bytes),
        ByteSize::from_bytes(estimate.memory_bytes)
    ));
    super::clean_up_on_signals()?;
    let work = Work::new();
    let start = Instant::now();
    recipe.write(&flags.out, &|progress| work.show(progress))?;
    drop(work);
    written::say(&flags.out, start.elapsed())
}
