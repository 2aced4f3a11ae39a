//! The options of `generate`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use uva_graph::{ElementType, GraphError};
use uva_io::generate::{self, Common, GENERATORS, Generator, PRESETS, Preset, Recipe, ShapeOptions, TrainBy};

use crate::exit;
use crate::flags::within::within;
use crate::ui::format;
use crate::ui::table::TextTable;

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

    /// Known graph whose size, features, classes and splits are used; other options override single values
    #[arg(
        long,
        value_name = "NAME",
        value_parser = presets(),
        hide_possible_values = true,
        help_heading = SIZE
    )]
    pub preset: Option<String>,

    /// Factor of the preset's number of nodes; the degree does not change [default: 1]
    #[arg(long, value_name = "S", value_parser = above_zero, requires = "preset", help_heading = SIZE)]
    pub scale: Option<f64>,

    /// Number of nodes
    #[arg(
        long,
        value_name = "N",
        value_parser = within::<u64>(1..),
        required_unless_present = "preset",
        conflicts_with = "scale",
        help_heading = SIZE
    )]
    pub nodes: Option<u64>,

    #[arg(
        long,
        value_name = "D",
        value_parser = above_zero,
        help_heading = SIZE,
        help = format!("In-neighbours of a node on average [default: {}]", defaults(|common| common.average_degree))
    )]
    pub avg_degree: Option<f64>,

    /// Shape of the graph [default: powerlaw, or the preset's]
    #[arg(long, value_enum, help_heading = SHAPE)]
    pub kind: Option<GraphKind>,

    /// Share of the edges drawn within a class. For sbm, the other edges join different classes; for powerlaw and rmat,
    /// some of them also fall within a class by chance. For typed, share of an item's neighbours with its digit
    /// [default: 0.5, or 0.7 for typed]
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = SHAPE)]
    pub homophily: Option<f64>,

    /// For rmat: probabilities that an edge leads from first half to first, first to second, second to first, second to
    /// second [default: 0.57,0.19,0.19,0.05]
    #[arg(long, value_name = "A,B,C,D", value_delimiter = ',', value_parser = share, help_heading = SHAPE)]
    pub quadrants: Vec<f64>,

    /// For rmat: maximum random deviation of B and C at a level, which smooths the degree distribution [default: 0.1]
    #[arg(long, value_name = "X", value_parser = share, help_heading = SHAPE)]
    pub noise: Option<f64>,

    /// For typed: users have no features
    #[arg(long, help_heading = SHAPE)]
    pub featureless: bool,

    /// For sbm, instead of --avg-degree and --homophily: probability of an edge between two nodes of one class
    #[arg(
        long,
        value_name = "P",
        value_parser = share,
        requires = "p_out",
        conflicts_with_all = ["avg_degree", "homophily"],
        help_heading = SHAPE
    )]
    pub p_in: Option<f64>,

    /// For sbm: probability of an edge between two nodes of different classes
    #[arg(long, value_name = "P", value_parser = share, requires = "p_in", help_heading = SHAPE)]
    pub p_out: Option<f64>,

    /// Values per feature row [default: 100, or the preset's]
    #[arg(long, value_name = "F", value_parser = within::<u64>(1..), help_heading = FEATURES)]
    pub feat_dim: Option<u64>,

    /// Stored type of feature values [default: f32, or as in the preset]
    #[arg(long, value_enum, help_heading = FEATURES)]
    pub feat_dtype: Option<FeatureTypeFlag>,

    /// Number of classes, which features and edges depend on, with noise [default: 12, or the preset's]
    #[arg(long, value_name = "C", value_parser = within::<u64>(1..), help_heading = FEATURES)]
    pub classes: Option<u64>,

    #[arg(
        long,
        value_name = "SHARE",
        value_parser = share,
        help_heading = FEATURES,
        help = format!(
            "Share of the nodes that train [default: {}, or the preset's]",
            defaults(|common| common.train_share)
        )
    )]
    pub train_share: Option<f64>,

    /// Selection of the training nodes [default: shape, or as in the preset]
    #[arg(long, value_enum, help_heading = FEATURES)]
    pub train_by: Option<TrainNodes>,

    /// Random seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Threads that write [default: all CPU cores]
    #[arg(long, value_name = "T", value_parser = within::<u32>(1..=1024))]
    pub threads: Option<u32>,
}

/// The shape of a generated graph: the names and their help are the table's.
#[derive(Clone, Copy, Debug)]
pub struct GraphKind(&'static Generator);

impl ValueEnum for GraphKind {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: [GraphKind; GENERATORS.len()] = {
            let mut all = [GraphKind(GENERATORS[0]); GENERATORS.len()];
            let mut row = 0;
            while row < GENERATORS.len() {
                all[row] = GraphKind(GENERATORS[row]);
                row += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name).help(self.0.help))
    }
}

/// The defaults of an option that each generator has its own of: `20 for powerlaw, rmat and sbm, 14 for citation`.
fn defaults(of: impl Fn(&Common) -> f64) -> String {
    let mut values: Vec<(f64, Vec<&str>)> = Vec::new();
    for generator in GENERATORS {
        let value = (of(&(generator.defaults)().common()) * 1000.0).round() / 1000.0;
        match values.iter_mut().find(|(known, _)| *known == value) {
            Some((_, names)) => names.push(generator.name),
            None => values.push((value, vec![generator.name])),
        }
    }
    let listed = values.iter().map(|(value, names)| match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{value} for {} and {last}", others.join(", ")),
        _ => format!("{value} for {}", names.concat()),
    });
    listed.collect::<Vec<_>>().join(", ")
}

/// The stored type of generated feature values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FeatureTypeFlag {
    /// 4 bytes per value
    F32,
    /// 2 bytes per value
    F16,
    /// 1 byte per value: float8 with four bits of exponent
    E4m3,
}

/// The selection of the training nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrainNodes {
    /// Uniform; for citation, among recent nodes of few fields
    Shape,
    /// In proportion to the length of their lists, so that hubs are training nodes
    Degree,
}

impl GenerateFlags {
    /// The graph of these options; omitted options have the defaults of the preset or the shape.
    ///
    /// # Errors
    /// Bad usage: an option that the shape does not have. The shape rejects values that are out of range.
    pub fn recipe(&self) -> anyhow::Result<Box<dyn Recipe>> {
        let preset = self.preset.as_deref().and_then(Preset::named);
        let mut recipe = match (preset, self.kind) {
            (Some(preset), kind) => {
                let recipe = preset.recipe(self.scale.unwrap_or(1.0))?;
                match kind {
                    Some(GraphKind(other)) if other.name != preset.generator().name => {
                        let mut shaped = (other.defaults)();
                        *shaped.common_mut() = recipe.common();
                        shaped
                    }
                    _ => recipe,
                }
            }
            (None, kind) => (kind.map_or(GENERATORS[0], |kind| kind.0).defaults)(),
        };
        let common = recipe.common_mut();
        *common = self.common(common.clone());
        let quadrants = match self.quadrants.as_slice() {
            [] => None,
            given => Some(given.try_into().map_err(|_| {
                exit::usage(format!("--quadrants takes 4 probabilities, not {}", given.len()))
            })?),
        };
        let options = ShapeOptions {
            homophily: self.homophily,
            probabilities: self.p_in.zip(self.p_out).map(|(within, between)| [within, between]),
            quadrants,
            noise: self.noise,
            featureless: self.featureless,
        };
        generate::shape(&mut *recipe, &options)?;
        Ok(recipe)
    }

    /// The error for a graph, in terms of given options. An error about a default names the options that contradict it.
    pub fn explained(&self, error: GraphError) -> GraphError {
        let GraphError::Usage { option, message } = &error else { return error };
        let texts = [
            ("preset", self.preset.clone()),
            ("scale", self.scale.map(|scale| scale.to_string())),
            ("nodes", self.nodes.map(|nodes| nodes.to_string())),
            ("kind", self.kind.map(|kind| kind.0.name.to_owned())),
            ("avg_degree", self.avg_degree.map(|degree| degree.to_string())),
            ("homophily", self.homophily.map(|share| share.to_string())),
            ("p_in", self.p_in.map(|share| share.to_string())),
            ("p_out", self.p_out.map(|share| share.to_string())),
            ("feat_dim", self.feat_dim.map(|values| values.to_string())),
            ("classes", self.classes.map(|classes| classes.to_string())),
            ("train_share", self.train_share.map(|share| share.to_string())),
        ];
        let is_given = |name: &str| texts.iter().any(|(known, text)| *known == name && text.is_some());
        if is_given(option) || texts.iter().all(|(known, _)| known != option) {
            return error;
        }
        let given: Vec<_> =
            texts.iter().filter_map(|(name, text)| Some(format!("`{name}={}`", text.as_ref()?))).collect();
        let whose = if self.preset.is_some() { "preset's" } else { "default" };
        let message = match option.as_str() {
            "avg_degree" if self.p_in.is_some() => format!("in-neighbours of a node: {message}"),
            _ => format!("the {whose} `{option}` does not fit: {message}; give `{option}` too"),
        };
        GraphError::usage(given.join(" "), message)
    }

    /// The option that determines the number of edges.
    pub fn option_of_edges(&self) -> &'static str {
        if self.p_in.is_some() { "--p-in" } else { "--avg-degree" }
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
                Some(FeatureTypeFlag::F32) => ElementType::F32,
                Some(FeatureTypeFlag::F16) => ElementType::F16,
                Some(FeatureTypeFlag::E4m3) => ElementType::E4m3,
            },
            threads: self.threads.map(|threads| threads as usize),
            train_share: self.train_share.unwrap_or(defaults.train_share),
            train_by: match self.train_by {
                None => defaults.train_by,
                Some(TrainNodes::Shape) => TrainBy::Shape,
                Some(TrainNodes::Degree) => TrainBy::Degree,
            },
            ..defaults
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
        TextTable::with_heading(&["preset", "nodes", "edges", "features", "classes", "train", "kind"]);
    for preset in &PRESETS {
        let share = 100.0 * preset.splits[0] as f64 / preset.nodes as f64;
        table.row(&[
            preset.name.to_owned(),
            format::count(preset.nodes),
            format::count(preset.edges),
            format!("{} {}", preset.feature_dim, preset.feature_element),
            preset.classes.to_string(),
            format!("{share:.3} %"),
            preset.generator().name.to_owned(),
        ]);
    }
    let rows: String = table.render().lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "\
Presets (where the figures are from: docs/guide/datasets.md):
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
        _ => Err(format!("'{text}' is not a number from 0 to 1")),
    }
}

fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(format!("'{text}' is not a number above 0")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use uva_io::generate::{Citation, Mixing, Rmat, Sbm};
    use uva_runtime::spec::Spelling;

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

    fn recipe(args: &str) -> Box<dyn Recipe> {
        parsed(args).unwrap_or_else(|error| panic!("{error}")).recipe().unwrap()
    }

    /// The options are these, but for those that all shapes share.
    fn is<R: Recipe>(mut recipe: Box<dyn Recipe>, expected: &dyn Fn(Common) -> R) {
        let expected = expected(recipe.common_mut().clone());
        assert_eq!(format!("{recipe:?}"), format!("{expected:?}"));
    }

    #[test]
    fn every_generator_has_a_name_of_its_own_and_presets_have_one_of_them() {
        for kind in GraphKind::value_variants() {
            assert_eq!(GraphKind::from_str(kind.0.name, false).unwrap().0.name, kind.0.name);
        }
        let known = |preset: &Preset| GENERATORS.iter().any(|row| row.name == preset.generator().name);
        assert!(PRESETS.iter().all(known));
    }

    #[test]
    fn defaults_are_grouped_by_value() {
        assert_eq!(
            defaults(|common| common.average_degree),
            "20 for powerlaw, rmat, sbm and typed, 14 for citation, 35 for web, 7.355 for mag"
        );
    }

    #[test]
    fn given_options_override_those_of_a_preset() {
        let papers = recipe("--preset papers100m --scale 0.01").common();
        assert_eq!((papers.nodes, papers.classes, papers.feature_dim), (1_110_600, 172, 128));
        let changed =
            recipe("--preset papers100m --nodes 5000 --classes 3 --feat-dtype f16 --seed 4 --avg-degree 2");
        let common = changed.common();
        assert_eq!((common.nodes, common.classes, common.seed), (5000, 3, 4));
        assert_eq!((common.feature_dim, common.feature_element), (128, ElementType::F16));
        assert_eq!((common.average_degree, common.train_share), (2.0, papers.train_share));
        assert_eq!(recipe("--preset uk-union --scale 0.001").common().train_by, TrainBy::Degree);
        let by_shape = recipe("--preset uk-union --scale 0.001 --train-by shape");
        assert_eq!(by_shape.common().train_by, TrainBy::Shape);
        assert_eq!(changed.generator().name, "citation");
        let rmat = recipe("--preset products --kind rmat --noise 0");
        assert_eq!(rmat.common().nodes, 2_449_029);
        is(rmat, &|common| Rmat { common, noise: 0.0, ..Rmat::default() });
        // Labels in one field of sixteen would be too few for IGB's splits.
        let igb = recipe("--preset igb-tiny --kind citation");
        is(igb, &|common| Citation {
            common,
            fields_per_class: 1,
            coverage: 1.0,
            window: 1.0,
            ..Citation::default()
        });
    }

    #[test]
    fn options_of_a_shape_reach_it_and_are_refused_by_others() {
        let rmat = recipe("--nodes 9 --kind rmat --quadrants 0.4,0.3,0.2,0.1 --noise 0.05 --homophily 0");
        let quadrants = [0.4, 0.3, 0.2, 0.1];
        is(rmat, &|common| Rmat { common, quadrants, noise: 0.05, homophily: 0.0 });
        let sbm = recipe("--nodes 9 --kind sbm --p-in 0.4 --p-out 0.1");
        let mixing = Mixing::Probabilities { within: 0.4, between: 0.1 };
        is(sbm, &|common| Sbm { common, mixing });
        let sbm = recipe("--nodes 9 --kind sbm --homophily 0.9");
        is(sbm, &|common| Sbm { common, mixing: Mixing::Homophily(0.9) });
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
            let spelled = Spelling::CommandLine.sentence(&problem.to_string());
            assert!(spelled.starts_with(option), "{args}: {problem}");
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
