//! The sizes of published benchmark graphs, for generated graphs of their shape.
//!
//! Nodes, edges, features, classes and splits are the published ones; the closest shape was chosen by hand. The
//! generated graph has the original's size and skew, but not its content. Edges of published directed graphs are
//! counted once. Undirected edges count in both directions, as in a dataset.
//!
//! Sources of the figures:
//! - `products`, `papers100m`: Hu et al. 2020, "Open Graph Benchmark", and the split sizes that the loader of `ogb`
//!   gives. products has 61,859,140 undirected edges.
//! - `mag240m`: Hu et al. 2021, "OGB-LSC", the papers and the citations among them alone; features are float16. Test is
//!   test-dev and test-challenge together.
//! - `mag`, `mag240m-typed`, `igbh-tiny` … `igbh-full`: see `shapes/mag/published.rs`. Nodes and edges here are papers and
//!   citations.
//! - `reddit`: Hamilton et al. 2017, in the counts of DGL's `RedditDataset`.
//! - `twitter`: twitter-2010 (Kwak et al. 2010; Laboratory for Web Algorithmics). `uk-2006`: uk-2006-05 (Boldi et al.).
//!   Neither has features or labels. Rows of 256, 150 classes and the splits are those that GNNLab (Yang et al. 2022)
//!   gave them. `uk-2007`: uk-2007-05, 105,896,555 pages, with the rows, classes and splits of uk-2006. `uk-union`:
//!   uk-union-2006-06-2007-05 (Laboratory for Web Algorithmics), with the rows and classes of uk-2006. One per cent of
//!   its nodes train, drawn by degree, as in DUCATI (Zhang et al. 2023).
//! - `igb-tiny` … `igb-full`: Khatua et al. 2023, "IGB", table 2: the homogeneous graphs, 19 classes. The first 60 % of
//!   the labelled papers train, the next 20 % validate, the rest test. The edge count of igb-full is that of the
//!   heterogeneous graph's citations as DGL's loader asserts it; 227,130,858 of its papers have a label.

use uva_graph::{ElementType, GraphError};

use super::options::common::Common;
use super::options::train_by::TrainBy;
use super::recipe::{Generator, Recipe};
use super::shapes::citation::{self, Citation};
use super::shapes::mag::published::{self, PublishedGraph};
use super::shapes::mag::{self, Mag};
use super::shapes::power_law::{self, PowerLaw};
use super::shapes::web::{self, Web};

/// A known graph's size and shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// The name as an option's value.
    pub name: &'static str,
    /// The description.
    pub about: &'static str,
    /// The number of nodes.
    pub nodes: u64,
    /// The number of edges; both directions of an undirected edge count.
    pub edges: u64,
    /// Features per node.
    pub feature_dim: usize,
    /// The element type of features.
    pub feature_element: ElementType,
    /// The number of classes.
    pub classes: u64,
    /// Nodes of the train, valid and test split.
    pub splits: [u64; 3],
    /// How the nodes of the train split are chosen.
    pub train_by: TrainBy,
    shape: Shape,
}

/// The closest shape.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    PowerLaw,
    /// The citation shape, with labels in one field of sixteen, or of fewer if the fields would be too small to cite
    /// within.
    FewLabels,
    /// The citation shape, with labels in all fields.
    AllLabelled,
    Web,
    /// Typed: papers, authors and more.
    Mag(&'static PublishedGraph),
}

const IGBH: &str = "papers, authors, institutes, fields and venues of the IGB";

/// A preset with float32 rows.
const fn preset(
    name: &'static str,
    about: &'static str,
    shape: Shape,
    [nodes, edges]: [u64; 2],
    [feature_dim, classes]: [usize; 2],
    splits: [u64; 3],
) -> Preset {
    let classes = classes as u64;
    let (feature_element, train_by) = (ElementType::F32, TrainBy::Shape);
    Preset { name, about, nodes, edges, feature_dim, feature_element, classes, splits, train_by, shape }
}

/// The first `labelled` papers, divided 60, 20 and 20.
const fn igb(name: &'static str, nodes: u64, edges: u64, labelled: u64) -> Preset {
    let (train, valid) = (labelled * 6 / 10, labelled * 2 / 10);
    let splits = [train, valid, labelled - train - valid];
    preset(name, "citations of the IGB", Shape::AllLabelled, [nodes, edges], [1024, 19], splits)
}

/// A typed graph of papers.
const fn typed(name: &'static str, about: &'static str, published: &'static PublishedGraph) -> Preset {
    Preset {
        name,
        about,
        nodes: published.papers,
        edges: published.citations,
        feature_dim: published.feature_dim,
        feature_element: published.feature_element,
        classes: published.classes,
        splits: published.splits,
        train_by: TrainBy::Shape,
        shape: Shape::Mag(published),
    }
}

const fn in_half_precision(preset: Preset) -> Preset {
    Preset { feature_element: ElementType::F16, ..preset }
}

const fn trained_by_degree(preset: Preset) -> Preset {
    Preset { train_by: TrainBy::Degree, ..preset }
}

/// All presets, the small ones first.
pub static PRESETS: [Preset; 20] = [
    igb("igb-tiny", 100_000, 547_416, 100_000),
    typed("igbh-tiny", IGBH, &published::IGBH_TINY),
    preset(
        "reddit",
        "posts with a commenter in common",
        Shape::PowerLaw,
        [232_965, 114_615_892],
        [602, 41],
        [153_431, 23_831, 55_703],
    ),
    typed("mag", "papers, authors, institutions and fields, ogbn-mag", &published::OGBN_MAG),
    igb("igb-small", 1_000_000, 12_070_502, 1_000_000),
    typed("igbh-small", IGBH, &published::IGBH_SMALL),
    preset(
        "products",
        "co-purchases, ogbn-products",
        Shape::PowerLaw,
        [2_449_029, 2 * 61_859_140],
        [100, 47],
        [196_615, 39_323, 2_213_091],
    ),
    igb("igb-medium", 10_000_000, 120_077_694, 10_000_000),
    typed("igbh-medium", IGBH, &published::IGBH_MEDIUM),
    preset(
        "twitter",
        "followers, twitter-2010",
        Shape::PowerLaw,
        [41_652_230, 1_468_365_182],
        [256, 150],
        [416_500, 100_000, 200_000],
    ),
    preset(
        "uk-2006",
        "links of .uk, uk-2006-05",
        Shape::Web,
        [77_741_046, 2_965_197_340],
        [256, 150],
        [1_000_000, 200_000, 100_000],
    ),
    igb("igb-large", 100_000_000, 1_223_571_364, 100_000_000),
    typed("igbh-large", IGBH, &published::IGBH_LARGE),
    preset(
        "uk-2007",
        "links of .uk, uk-2007-05",
        Shape::Web,
        [105_896_555, 3_738_733_648],
        [256, 150],
        [1_000_000, 200_000, 100_000],
    ),
    preset(
        "papers100m",
        "citations, ogbn-papers100M",
        Shape::FewLabels,
        [111_059_956, 1_615_685_872],
        [128, 172],
        [1_207_179, 125_265, 214_338],
    ),
    in_half_precision(preset(
        "mag240m",
        "papers and citations of MAG240M",
        Shape::FewLabels,
        [121_751_666, 1_297_748_926],
        [768, 153],
        [1_112_392, 138_949, 146_818],
    )),
    typed("mag240m-typed", "papers, authors and institutions of MAG240M", &published::MAG240M),
    trained_by_degree(preset(
        "uk-union",
        "links of .uk over a year, uk-union-2006-06-2007-05",
        Shape::Web,
        [133_633_040, 5_507_679_822],
        [256, 150],
        [1_336_330, 200_000, 100_000],
    )),
    igb("igb-full", 269_346_174, 3_996_442_004, 227_130_858),
    typed("igbh-full", IGBH, &published::IGBH_FULL),
];

impl Preset {
    /// The preset of this name; `uk` is `uk-2006`.
    pub fn named(name: &str) -> Option<&'static Preset> {
        let name = if name == "uk" { "uk-2006" } else { name };
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The generator of the preset's shape.
    pub fn generator(&self) -> &'static Generator {
        match self.shape {
            Shape::PowerLaw => &power_law::GENERATOR,
            Shape::FewLabels | Shape::AllLabelled => &citation::GENERATOR,
            Shape::Web => &web::GENERATOR,
            Shape::Mag(_) => &mag::GENERATOR,
        }
    }

    /// The graph at `scale`, 1 being the published size: that many times the nodes, with the same neighbours and
    /// features per node, and the same shares in the splits. The number of classes is unchanged, but at most that of
    /// the nodes.
    ///
    /// # Errors
    /// If `scale` is not a number above 0, or leaves fewer than 2 nodes.
    pub fn recipe(&self, scale: f64) -> Result<Box<dyn Recipe>, GraphError> {
        let nodes = (self.nodes as f64 * scale).round();
        if !(scale > 0.0 && (2.0..=(1_u64 << 40) as f64).contains(&nodes)) {
            return Err(GraphError::usage(
                "scale",
                format!("{scale} of {}'s {} nodes is outside 2..=2^40", self.name, self.nodes),
            ));
        }
        let nodes = nodes as u64;
        let share = |count: u64| count as f64 / self.nodes as f64;
        let [train_share, valid_share, test_share] = self.splits.map(share);
        let common = Common {
            nodes,
            average_degree: share(self.edges),
            feature_dim: self.feature_dim,
            feature_element: self.feature_element,
            classes: self.classes.min(nodes),
            train_share,
            valid_share,
            test_share,
            train_by: self.train_by,
            ..Common::default()
        };
        Ok(match self.shape {
            Shape::PowerLaw => Box::new(PowerLaw::of(common)),
            Shape::FewLabels => Box::new(Citation::few_labelled(common)),
            Shape::AllLabelled => Box::new(Citation::all_labelled(common)),
            Shape::Web => Box::new(Web { common, ..Web::default() }),
            Shape::Mag(published) => Box::new(Mag::of(published).with(common)),
        })
    }
}

#[cfg(test)]
mod tests;
