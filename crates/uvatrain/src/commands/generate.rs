//! `uvatrain generate`: a graph made up on the spot.

use std::time::Instant;

use uva_graph::ElementType;
use uva_graph::generate::{PowerLaw, power_law};

use super::written;
use crate::flags::{FeatureType, GenerateFlags, GraphKind};
use crate::ui::work::Work;

/// Writes the graph, and says what it is and how long that took.
pub fn run(flags: &GenerateFlags) -> anyhow::Result<()> {
    super::clean_up_on_signals()?;
    let GraphKind::Powerlaw = flags.kind;
    let options = PowerLaw {
        nodes: flags.nodes,
        average_degree: flags.avg_degree,
        // Only a 32-bit machine has dims that do not fit, and no memory for a row of that size either.
        feature_dim: usize::try_from(flags.feat_dim).unwrap_or(usize::MAX),
        classes: flags.classes,
        seed: flags.seed,
        feature_element: match flags.feat_dtype {
            FeatureType::F32 => ElementType::F32,
            FeatureType::F16 => ElementType::F16,
        },
        threads: flags.threads.map(|threads| threads as usize),
        ..PowerLaw::default()
    };
    let work = Work::new();
    let start = Instant::now();
    power_law(&flags.out, &options, &|progress| work.show(progress))?;
    drop(work);
    written::say(&flags.out, start.elapsed())
}
