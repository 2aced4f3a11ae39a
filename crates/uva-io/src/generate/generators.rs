//! The table of generators, and what is done with any of them.

use std::path::Path;

use uva_graph::{GraphError, Progress, Summary};

use super::estimate::GeneratorEstimate;
use super::planted;
use super::recipe::{Generator, Recipe};
use super::shape_options::ShapeOptions;
use super::{citation, power_law, rmat, sbm, web};

/// Every generator, the default first, in the order of `--help`.
pub static GENERATORS: [&Generator; 5] =
    [&power_law::GENERATOR, &citation::GENERATOR, &web::GENERATOR, &rmat::GENERATOR, &sbm::GENERATOR];

/// Writes the graph to the directory `out`, which must not exist. `progress` is called now and then, from this thread.
///
/// Memory stays bounded for any size: about 64 MiB of output is held at a time, or the lists of 1,024 nodes where
/// those are larger.
///
/// # Errors
/// Where an option is out of its range, `out` exists, or the system refuses to write; nothing is left behind then.
pub fn write(out: &Path, recipe: &dyn Recipe, progress: &dyn Fn(Progress)) -> Result<Summary, GraphError> {
    let shape = recipe.plan()?;
    planted::write(out, recipe.generator().name, &recipe.effective_common(), &*shape, progress)
}

/// The memory and disk space that making the graph takes.
///
/// # Errors
/// An option that all shapes share is out of its range.
pub fn estimate(recipe: &dyn Recipe) -> Result<GeneratorEstimate, GraphError> {
    let common = recipe.effective_common();
    common.check()?;
    Ok(GeneratorEstimate::of(&common))
}

/// Sets the options that only some generators take.
///
/// # Errors
/// An option that the recipe's generator does not take, with those that do.
pub fn shape(recipe: &mut dyn Recipe, options: &ShapeOptions) -> Result<(), GraphError> {
    let takes = recipe.generator().takes;
    if let Some(option) = options.given().find(|option| !takes.contains(option)) {
        let kinds = GENERATORS.iter().filter(|generator| generator.takes.contains(&option));
        let kinds: Vec<_> = kinds.map(|generator| generator.name).collect();
        let kinds = match kinds.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => kinds.concat(),
        };
        return Err(GraphError::usage(option.name(), format!("only --kind {kinds} takes it")));
    }
    recipe.shape(options);
    Ok(())
}
