//! `uvatrain generate`: creates a synthetic graph.

use std::time::Instant;

use uva_graph::Summary;
use uva_io::generate::{self, Recipe};

use crate::flags::data::GenerateFlags;
use crate::signals::ending::clean_up_on_signals;
use crate::ui::work::Work;
use crate::ui::{format, out, written};
use uva_runtime::spec::ByteSize;

/// Prints the graph's expected size, writes it, and prints a summary and the time taken.
pub fn run(flags: &GenerateFlags) -> anyhow::Result<()> {
    let recipe = flags.recipe()?;
    let estimate = generate::estimate(&*recipe).map_err(|error| flags.explained(error))?;
    let [nodes, edges] = [estimate.nodes, estimate.edges].map(format::count);
    out::say(&format!("{}: {nodes} nodes, about {edges} edges", flags.out.display()));
    let [disk, memory] = [estimate.disk_bytes, estimate.memory_bytes].map(ByteSize::from_bytes);
    out::say(&format!("requires {disk} on disk and {memory} of memory"));
    clean_up_on_signals()?;
    let work = Work::new();
    let start = Instant::now();
    let summary = generate::write(&flags.out, &*recipe, &|progress| work.show(progress))
        .map_err(|error| flags.explained(error))?;
    drop(work);
    if let Some(line) = shortfall(&*recipe, &summary, flags.option_of_edges()) {
        out::say(&line);
    }
    for (sees, accuracy) in generate::best_accuracies(&*recipe)? {
        out::say(&format!(
            "the best possible classifier that sees {sees} is right for {:.1} %",
            100.0 * accuracy
        ));
    }
    written::say(&flags.out, start.elapsed())
}

/// The message for a graph with fewer edges than requested: how many it has, and why. `None` if it is only slightly
/// smaller, by chance.
fn shortfall(recipe: &dyn Recipe, summary: &Summary, option: &str) -> Option<String> {
    let asked = recipe.common().average_degree;
    let came = summary.edges as f64 / summary.nodes.max(1) as f64;
    (came < 0.99 * asked).then(|| {
        format!(
            "a node has {came:.1} in-neighbours on average, not {asked}: {}; a larger {option} gives more",
            recipe.generator().why_fewer_edges
        )
    })
}

#[cfg(test)]
mod tests {
    use uva_io::generate::{Common, Rmat};

    use super::*;

    #[test]
    fn fewer_edges_than_the_options_say_are_noted_and_chance_is_not() {
        let common = Common { average_degree: 31.0, ..Common::default() };
        let recipe = Rmat { common, ..Rmat::default() };
        let of = |edges: u64| Summary {
            nodes: 1000,
            edges,
            feature_dim: 1,
            classes: 2,
            split_sizes: [0; 3],
            seconds: 0.0,
        };
        assert_eq!(shortfall(&recipe, &of(30_900), "--avg-degree"), None);
        let line = shortfall(&recipe, &of(28_200), "--avg-degree").unwrap();
        assert!(line.starts_with("a node has 28.2 in-neighbours on average, not 31: "), "{line}");
    }
}
