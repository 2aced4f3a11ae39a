//! The options of `generate`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use uva_graph::ElementType;
use uva_io::generate::{Citation, Common, Mixing, PRESETS, PowerLaw, Preset, Recipe, Rmat, Sbm, Web};

use super::within::within;
use crate::exit;
use crate::ui::format;
use crate::ui::table::Table;

const SIZE: &str = "Size";
const SHAPE: &str = "Shape";
const FEATURES: &str = "Features and labels";

/// The options of `uvatrain generate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = after_help())]
pub struct GenerateFlags {
    /// The directory to write; it must not exist
    #[arg(value_name = "OUT")]
    pub out: PathBuf,

    /// The size, skew, features, classes and splits of a known graph; every other option changes its part of it
    #[arg(
        long,
        value_name = "NAME",
        value_parser = presets(),
        hide_possible_values = true,
        help_heading = SIZE
    )]
    pub preset: Option<String>,

    /// So many times the preset's nodes, each with as many neighbours [default: 1]
    #[arg(long, value_name = "S", value_parser = above_zero, requires = "preset", help_heading = SIZE)]
    pub scale: Option<f64>,

    /// How many nodes
    #[arg(
        long,
        value_name = "N",
        value_parser = within::<u64>(1..),
        required_unless_present = "preset",
        conflicts_with = "scale",
        help_heading = SIZE
    )]
    pub nodes: Option<u64>,

    /// In-neighbours of a node on average [default: 20 for powerlaw, rmat and sbm, 14 for citation, 35 for web]
    #[arg(long, value_name = "D", value_parser = above_zero, help_heading = SIZE)]
    pub avg_degree: Option<f64>,

    /// The graph's shape [default: powerlaw, or the preset's]
    #[arg(long, value_enum, help_heading = SHAPE)]
    pub kind: Option<GraphKind>,

    /// Share of the edges that are drawn within a class: for sbm that many stay there, for powerlaw and rmat so many
    /// and those of the others that do by chance [default: 0.5]
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = SHAPE)]
    pub homophily: Option<f64>,

    /// For rmat: the probabilities that an edge goes from first half to first, first to second, second to first, second
    /// to second [default: 0.57,0.19,0.19,0.05]
    #[arg(long, value_name = "A,B,C,D", value_delimiter = ',', value_parser = share, help_heading = SHAPE)]
    pub quadrants: Vec<f64>,

    /// For rmat: how far B and C may be off at a level, so that degrees do not come in waves [default: 0.1]
    #[arg(long, value_name = "X", value_parser = share, help_heading = SHAPE)]
    pub noise: Option<f64>,

    /// For sbm, instead of --avg-degree and --homophily: the probability of an edge between two nodes of one class
    #[arg(
        long,
        value_name = "P",
        value_parser = share,
        requires = "p_out",
        conflicts_with_all = ["avg_degree", "homophily"],
        help_heading = SHAPE
    )]
    pub p_in: Option<f64>,

    /// For sbm: that of an edge between two nodes of different classes
    #[arg(long, value_name = "P", value_parser = share, requires = "p_in", help_heading = SHAPE)]
    pub p_out: Option<f64>,

    /// Values in a feature row [default: 100, or the preset's]
    #[arg(long, value_name = "F", value_parser = within::<u64>(1..), help_heading = FEATURES)]
    pub feat_dim: Option<u64>,

    /// How feature values are stored [default: f32, or as in the preset]
    #[arg(long, value_enum, help_heading = FEATURES)]
    pub feat_dtype: Option<FeatureType>,

    /// Classes; features and edges both carry them, with noise [default: 12, or the preset's]
    #[arg(long, value_name = "C", value_parser = within::<u64>(1..), help_heading = FEATURES)]
    pub classes: Option<u64>,

    /// Share of the nodes that train [default: 0.4 for powerlaw, rmat and sbm, 0.0109 for citation, 0.013 for web, or
    /// the preset's]
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = FEATURES)]
    pub train_share: Option<f64>,

    /// Random seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Threads that write [default: all CPU cores]
    #[arg(long, value_name = "T", value_parser = within::<u32>(1..=1024))]
    pub threads: Option<u32>,
}

/// The shape of a generated graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphKind {
    /// Few nodes with very many neighbours, many with few, as in social and citation graphs
    Powerlaw,
    /// Nodes in order of time, each citing older ones of its field; few nodes train, recent ones of few fields, as in
    /// papers100M
    Citation,
    /// Pages of hosts, most links local or to a host's hubs; few nodes train, as with uk-2006
    Web,
    /// Graph500's: a matrix cut in four again and again, the quadrants with different probabilities
    Rmat,
    /// The stochastic block model: classes are communities, and degrees are all alike
    Sbm,
}

/// How generated feature values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FeatureType {
    /// 4 bytes a value
    F32,
    /// 2 bytes a value
    F16,
}

impl GraphKind {
    fn recipe(self) -> Recipe {
        match self {
            GraphKind::Powerlaw => Recipe::PowerLaw(PowerLaw::default()),
            GraphKind::Citation => Recipe::Citation(Citation::default()),
            GraphKind::Web => Recipe::Web(Web::default()),
            GraphKind::Rmat => Recipe::Rmat(Rmat::default()),
            GraphKind::Sbm => Recipe::Sbm(Sbm::default()),
        }
    }
}

impl GenerateFlags {
    /// The graph that is asked for: the preset's or the shape's own defaults where the options say nothing.
    ///
    /// # Errors
    /// Bad usage: an option that the shape does not have. What is out of range the shape itself refuses.
    pub fn recipe(&self) -> anyhow::Result<Recipe> {
        let preset = self.preset.as_deref().and_then(Preset::named);
        let recipe = match (preset, self.kind) {
            (Some(preset), kind) => {
                let recipe = preset.recipe(self.scale.unwrap_or(1.0))?;
                match kind {
                    Some(kind) if kind.name() != preset.kind() => kind.recipe().with_common(recipe.common()),
                    _ => recipe,
                }
            }
            (None, kind) => kind.unwrap_or(GraphKind::Powerlaw).recipe(),
        };
        let common = self.common(recipe.common());
        self.shaped(recipe.with_common(common))
    }

    fn common(&self, defaults: Common) -> Common {
        Common {
            nodes: self.nodes.unwrap_or(defaults.nodes),
            average_degree: self.avg_degree.unwrap_or(defaults.average_degree),
            // Only a 32-bit machine has dims that do not fit, and no memory for a row of that size either.
            feature_dim: self
                .feat_dim
                .map_or(defaults.feature_dim, |dim| usize::try_from(dim).unwrap_or(usize::MAX)),
            classes: self.classes.unwrap_or(defaults.classes),
            seed: self.seed,
            feature_element: match self.feat_dtype {
                None => defaults.feature_element,
                Some(FeatureType::F32) => ElementType::F32,
                Some(FeatureType::F16) => ElementType::F16,
            },
            threads: self.threads.map(|threads| threads as usize),
            train_share: self.train_share.unwrap_or(defaults.train_share),
            ..defaults
        }
    }

    /// The options that only some shapes have.
    fn shaped(&self, mut recipe: Recipe) -> anyhow::Result<Recipe> {
        let foreign =
            |option: &str, kinds: &str| Err(exit::usage(format!("{option} is for --kind {kinds}")).into());
        match &mut recipe {
            Recipe::PowerLaw(PowerLaw { homophily, .. }) | Recipe::Rmat(Rmat { homophily, .. }) => {
                *homophily = self.homophily.unwrap_or(*homophily);
            }
            Recipe::Sbm(Sbm { mixing, .. }) => match (self.p_in, self.p_out, self.homophily) {
                (Some(within), Some(between), _) => *mixing = Mixing::Probabilities { within, between },
                (_, _, Some(share)) => *mixing = Mixing::Homophily(share),
                _ => {}
            },
            Recipe::Citation(_) | Recipe::Web(_) if self.homophily.is_some() => {
                return foreign("--homophily", "powerlaw, rmat or sbm");
            }
            Recipe::Citation(_) | Recipe::Web(_) => {}
        }
        if self.p_in.is_some() && !matches!(recipe, Recipe::Sbm(_)) {
            return foreign("--p-in", "sbm");
        }
        match &mut recipe {
            Recipe::Rmat(options) => {
                options.noise = self.noise.unwrap_or(options.noise);
                if !self.quadrants.is_empty() {
                    options.quadrants = self.quadrants.as_slice().try_into().map_err(|_| {
                        exit::usage(format!(
                            "--quadrants takes 4 probabilities, not {}",
                            self.quadrants.len()
                        ))
                    })?;
                }
            }
            _ if !self.quadrants.is_empty() => return foreign("--quadrants", "rmat"),
            _ if self.noise.is_some() => return foreign("--noise", "rmat"),
            _ => {}
        }
        Ok(recipe)
    }
}

impl GraphKind {
    /// As it is written on the command line, and in `meta.json`.
    fn name(self) -> &'static str {
        match self {
            GraphKind::Powerlaw => "powerlaw",
            GraphKind::Citation => "citation",
            GraphKind::Web => "web",
            GraphKind::Rmat => "rmat",
            GraphKind::Sbm => "sbm",
        }
    }
}

fn presets() -> PossibleValuesParser {
    let value = |preset: &Preset| match preset.name {
        "uk-2006" => PossibleValue::new(preset.name).alias("uk"),
        name => PossibleValue::new(name),
    };
    PossibleValuesParser::new(PRESETS.iter().map(value))
}

/// The presets as a table, and the rest.
fn after_help() -> String {
    let mut table =
        Table::with_heading(&["preset", "nodes", "edges", "features", "classes", "train", "kind"]);
    for preset in &PRESETS {
        let share = 100.0 * preset.splits[0] as f64 / preset.nodes as f64;
        table.row(&[
            preset.name.to_owned(),
            format::count(preset.nodes),
            format::count(preset.edges),
            format!("{} {}", preset.feature_dim, preset.feature_element),
            preset.classes.to_string(),
            format!("{share:.3} %"),
            preset.kind().to_owned(),
        ]);
    }
    let rows: String = table.render().lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "\
Presets (where the figures are from: docs/datasets.md):
{rows}
Examples, 200,000 nodes and about 4 million edges, and papers100M a hundred times smaller:
  uvatrain generate data/demo --nodes 200000 --avg-degree 20 --feat-dim 100 --classes 12
  uvatrain generate data/papers --preset papers100m --scale 0.01

The same options give the same bytes, whatever --threads is. OUT appears only when it is complete."
    )
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is no number from 0 to 1")),
    }
}

fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(format!("'{text}' is no number above 0")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::exit::{Code, code_of};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        generate: GenerateFlags,
    }

    fn parsed(args: &str) -> Result<GenerateFlags, clap::Error> {
        let words = ["x", "out"].into_iter().chain(args.split_whitespace());
        Line::try_parse_from(words).map(|line| line.generate)
    }

    fn recipe(args: &str) -> Recipe {
        parsed(args).unwrap_or_else(|error| panic!("{error}")).recipe().unwrap()
    }

    #[test]
    fn names_of_kinds_are_those_of_the_command_line() {
        for kind in GraphKind::value_variants() {
            assert_eq!(kind.to_possible_value().unwrap().get_name(), kind.name());
        }
        assert!(PRESETS.iter().all(|preset| GraphKind::from_str(preset.kind(), false).is_ok()));
    }

    #[test]
    fn a_preset_is_what_it_is_but_for_what_is_said_otherwise() {
        let papers = recipe("--preset papers100m --scale 0.01").common();
        assert_eq!((papers.nodes, papers.classes, papers.feature_dim), (1_110_600, 172, 128));
        let changed =
            recipe("--preset papers100m --nodes 5000 --classes 3 --feat-dtype f16 --seed 4 --avg-degree 2");
        let common = changed.common();
        assert_eq!((common.nodes, common.classes, common.seed), (5000, 3, 4));
        assert_eq!((common.feature_dim, common.feature_element), (128, ElementType::F16));
        assert_eq!((common.average_degree, common.train_share), (2.0, papers.train_share));
        assert!(matches!(changed, Recipe::Citation(_)));
        let Recipe::Rmat(rmat) = recipe("--preset products --kind rmat --noise 0") else {
            panic!("another kind")
        };
        assert_eq!((rmat.common.nodes, rmat.noise), (2_449_029, 0.0));
        // Labels in one field of sixteen would be too few for IGB's splits.
        let Recipe::Citation(igb) = recipe("--preset igb-tiny --kind citation") else {
            panic!("another kind")
        };
        assert_eq!(igb.fields_per_class, 1);
    }

    #[test]
    fn options_of_a_shape_reach_it_and_are_refused_by_others() {
        let rmat = recipe("--nodes 9 --kind rmat --quadrants 0.4,0.3,0.2,0.1 --noise 0.05 --homophily 0");
        let Recipe::Rmat(rmat) = rmat else { panic!("another kind") };
        assert_eq!((rmat.quadrants, rmat.noise, rmat.homophily), ([0.4, 0.3, 0.2, 0.1], 0.05, 0.0));
        let Recipe::Sbm(sbm) = recipe("--nodes 9 --kind sbm --p-in 0.4 --p-out 0.1") else {
            panic!("another kind")
        };
        assert_eq!(sbm.mixing, Mixing::Probabilities { within: 0.4, between: 0.1 });
        let Recipe::Sbm(sbm) = recipe("--nodes 9 --kind sbm --homophily 0.9") else { panic!("another kind") };
        assert_eq!(sbm.mixing, Mixing::Homophily(0.9));
        for (args, option) in [
            ("--nodes 9 --kind web --homophily 0.4", "--homophily"),
            ("--nodes 9 --p-in 0.4 --p-out 0.4", "--p-in"),
            ("--nodes 9 --quadrants 0.4,0.3,0.2,0.1", "--quadrants"),
            ("--nodes 9 --kind sbm --noise 0.1", "--noise"),
            ("--nodes 9 --kind rmat --quadrants 0.4,0.6", "--quadrants"),
            ("--preset products --scale 1e-9", "--scale"),
        ] {
            let problem = parsed(args).unwrap().recipe().unwrap_err();
            assert_eq!(code_of(&problem), Code::BadInput, "{args}");
            assert!(problem.to_string().starts_with(option), "{args}: {problem}");
        }
        for args in [
            "",
            "--scale 0.1 --nodes 9",
            "--preset products --scale 0",
            "--preset nothing",
            "--nodes 9 --kind sbm --p-in 0.1",
            "--nodes 9 --kind sbm --p-in 0.1 --p-out 0.1 --avg-degree 3",
        ] {
            assert!(parsed(args).is_err(), "{args} was taken");
        }
    }
}
