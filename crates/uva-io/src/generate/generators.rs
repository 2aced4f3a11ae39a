//! The table of generators, and the operations on any of them.

use std::path::Path;

use uva_graph::{GraphError, Progress, Summary};

use super::estimate::GeneratorEstimate;
use super::options::shape_options::ShapeOptions;
use super::planted;
use super::planted_types;
use super::recipe::{Generator, Planned, Recipe};
use super::shapes::{citation, mag, power_law, rmat, sbm, typed, web};

/// Every generator, the default first, in the order of `--help`.
pub static GENERATORS: [&Generator; 7] = [
    &power_law::GENERATOR,
    &citation::GENERATOR,
    &web::GENERATOR,
    &rmat::GENERATOR,
    &sbm::GENERATOR,
    &mag::GENERATOR,
    &typed::GENERATOR,
];

/// Writes the graph to the directory `out`, which must not exist. `progress` is called periodically, on this thread.
///
/// Memory stays bounded for any size: about 64 MiB of output, or the lists of 1,024 nodes if those are larger; for a
/// typed graph also 1 GiB of edges.
///
/// # Errors
/// If an option is out of its range, `out` exists, or a write fails; no files remain after an error.
pub fn write(out: &Path, recipe: &dyn Recipe, progress: &dyn Fn(Progress)) -> Result<Summary, GraphError> {
    let (kind, common) = (recipe.generator().name, recipe.common());
    match recipe.plan()? {
        Planned::Graph(shape) => planted::write(out, kind, &common, &*shape, progress),
        Planned::Typed(shape) => planted_types::write(out, kind, &common, &*shape, progress),
    }
}

/// The memory and disk space for generating the graph.
///
/// # Errors
/// If an option shared by all shapes is out of range.
pub fn estimate(recipe: &dyn Recipe) -> Result<GeneratorEstimate, GraphError> {
    recipe.common().check()?;
    Ok(recipe.estimate())
}

/// The accuracies of the best possible classifiers of the graph, each with what it sees, from the graph's own parameters.
/// Empty for generators that do not compute them.
///
/// # Errors
/// If an option is out of range.
pub fn best_accuracies(recipe: &dyn Recipe) -> Result<Vec<(&'static str, f64)>, GraphError> {
    Ok(match recipe.plan()? {
        Planned::Graph(_) => Vec::new(),
        Planned::Typed(shape) => shape.best_accuracies(),
    })
}

/// Sets the options specific to some generators.
///
/// # Errors
/// If the recipe's generator does not support an option; the error lists the supported ones.
pub fn shape(recipe: &mut dyn Recipe, options: &ShapeOptions) -> Result<(), GraphError> {
    let takes = recipe.generator().takes;
    if let Some(option) = options.given().find(|option| !takes.contains(option)) {
        let kinds = GENERATORS.iter().filter(|generator| generator.takes.contains(&option));
        let kinds: Vec<_> = kinds.map(|generator| generator.name).collect();
        let kinds = match kinds.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => kinds.concat(),
        };
        return Err(GraphError::usage(option, format!("only valid with `kind={kinds}`")));
    }
    recipe.shape(options);
    Ok(())
}

#[cfg(test)]
mod tests {
    use uva_graph::NodeType;

    use super::*;
    use crate::generate::testing::generated_types;

    #[test]
    fn every_generator_makes_a_sound_graph_and_names_itself_in_it() {
        for generator in GENERATORS {
            let mut recipe = (generator.defaults)();
            let common = recipe.common_mut();
            (common.nodes, common.feature_dim) = (5000, 2);
            let (_directory, dataset, _) = generated_types(&*recipe);
            assert_eq!(dataset.nodes_of(NodeType::ONLY), 5000, "{}", generator.name);
            let meta = std::fs::read_to_string(dataset.path().join("meta.json")).unwrap();
            assert!(meta.contains(&format!("\"kind\": \"{}\"", generator.name)), "{meta}");
            assert!(!generator.help.is_empty() && !generator.help.ends_with('.'), "{}", generator.help);
        }
    }

    #[test]
    fn an_option_is_refused_by_other_generators_with_the_names_of_its_own() {
        let given = [
            ShapeOptions { homophily: Some(0.25), ..ShapeOptions::default() },
            ShapeOptions { probabilities: Some([0.25, 0.125]), ..ShapeOptions::default() },
            ShapeOptions { quadrants: Some([0.25; 4]), ..ShapeOptions::default() },
            ShapeOptions { noise: Some(0.025), ..ShapeOptions::default() },
            ShapeOptions { featureless: true, ..ShapeOptions::default() },
        ];
        for options in given {
            let name = options.given().next().unwrap();
            let (takes, refuses): (Vec<_>, Vec<_>) =
                GENERATORS.into_iter().partition(|generator| generator.takes.contains(&name));
            for generator in &takes {
                let mut recipe = (generator.defaults)();
                shape(&mut *recipe, &options).unwrap();
                let (changed, default) = (format!("{recipe:?}"), format!("{:?}", (generator.defaults)()));
                assert_ne!(changed, default, "{name} changes nothing in {}", generator.name);
            }
            for generator in refuses {
                let refused = shape(&mut *(generator.defaults)(), &options).unwrap_err().to_string();
                assert!(refused.starts_with(&format!("`{name}`")), "{refused}");
                assert!(takes.iter().all(|takes| refused.contains(takes.name)), "{refused}");
            }
        }
    }
}
