//! `uvatrain generate`: a graph made up on the spot.

use std::time::Instant;

use uva_graph::ElementType;
use uva_graph::generate::{self, Citation, Common, PowerLaw, Web};

use super::written;
use crate::flags::{FeatureType, GenerateFlags, GraphKind};
use crate::ui::work::Work;

/// Writes the graph, and says what it is and how long that took.
pub fn run(flags: &GenerateFlags) -> anyhow::Result<()> {
    super::clean_up_on_signals()?;
    let work = Work::new();
    let start = Instant::now();
    write(flags, &|progress| work.show(progress))?;
    drop(work);
    written::say(&flags.out, start.elapsed())
}

/// Writes the graph: what the flags say, and the shape's own defaults where they say nothing.
fn write(
    flags: &GenerateFlags,
    progress: &dyn Fn(generate::Progress),
) -> Result<generate::Summary, uva_graph::GraphError> {
    match flags.kind {
        GraphKind::Powerlaw => {
            let defaults = PowerLaw::default();
            let options = PowerLaw {
                nodes: flags.nodes,
                average_degree: flags.avg_degree.unwrap_or(defaults.average_degree),
                feature_dim: feature_dim(flags),
                classes: flags.classes,
                seed: flags.seed,
                feature_element: feature_element(flags),
                threads: threads(flags),
                train_share: flags.train_share.unwrap_or(defaults.train_share),
                ..defaults
            };
            generate::power_law(&flags.out, &options, progress)
        }
        GraphKind::Citation => {
            let defaults = Citation::default();
            let options = Citation { common: common(flags, defaults.common), ..defaults };
            generate::citation(&flags.out, &options, progress)
        }
        GraphKind::Web => {
            let defaults = Web::default();
            let options = Web { common: common(flags, defaults.common), ..defaults };
            generate::web(&flags.out, &options, progress)
        }
    }
}

fn common(flags: &GenerateFlags, defaults: Common) -> Common {
    Common {
        nodes: flags.nodes,
        average_degree: flags.avg_degree.unwrap_or(defaults.average_degree),
        feature_dim: feature_dim(flags),
        classes: flags.classes,
        seed: flags.seed,
        feature_element: feature_element(flags),
        threads: threads(flags),
        train_share: flags.train_share.unwrap_or(defaults.train_share),
        ..defaults
    }
}

fn feature_dim(flags: &GenerateFlags) -> usize {
    // Only a 32-bit machine has dims that do not fit, and no memory for a row of that size either.
    usize::try_from(flags.feat_dim).unwrap_or(usize::MAX)
}

fn feature_element(flags: &GenerateFlags) -> ElementType {
    match flags.feat_dtype {
        FeatureType::F32 => ElementType::F32,
        FeatureType::F16 => ElementType::F16,
    }
}

fn threads(flags: &GenerateFlags) -> Option<usize> {
    flags.threads.map(|threads| threads as usize)
}
