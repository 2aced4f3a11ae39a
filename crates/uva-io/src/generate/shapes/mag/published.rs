//! The sizes of published graphs of papers: types, relations, features, labels and splits.
//!
//! Sources of the figures:
//! - ogbn-mag: Hu et al. 2020, "Open Graph Benchmark", and the split sizes of ogb's loader.
//! - MAG240M: Hu et al. 2021, "OGB-LSC", as its loader gives the shapes. Test is test-dev and test-challenge together.
//! - IGBH: nodes as MLPerf Training 5.0's submissions to its graph benchmark count them, edges as a GraphBolt conversion of
//!   IGB (Khatua et al. 2023) counts them, for igbh-tiny without the self-loops. In igbh-full, 227,130,858 papers have a
//!   label. 60 % of the labelled papers train and 0.5 % validate, as in MLPerf's reference.

use serde_json::{Map, Value, json};
use uva_graph::ElementType;

/// Source, name and destination of a relation.
type Names = [&'static str; 3];

/// A published graph of papers.
#[derive(Debug, PartialEq)]
pub(crate) struct PublishedGraph {
    pub(crate) papers: u64,
    /// Citations, each counted once.
    pub(crate) citations: u64,
    pub(crate) feature_dim: usize,
    pub(crate) feature_element: ElementType,
    pub(crate) classes: u64,
    /// Papers of the splits.
    pub(crate) splits: [u64; 3],
    /// Whether only the papers of few fields have labels.
    pub(super) few_labels: bool,
    /// Whether all types have features, not only papers.
    pub(super) all_have_features: bool,
    /// The types except papers, and their nodes.
    pub(super) types: &'static [&'static str],
    pub(super) nodes: &'static [u64],
    /// The relations except the citations, and their edges.
    pub(super) relations: &'static [Names],
    pub(super) edges: &'static [u64],
    /// Relations without a published size: the share of the sources that have one edge.
    pub(super) guessed: &'static [(Names, f64)],
}

pub(crate) static OGBN_MAG: PublishedGraph = PublishedGraph {
    papers: 736_389,
    citations: 5_416_271,
    feature_dim: 128,
    feature_element: ElementType::F32,
    classes: 349,
    splits: [629_571, 64_879, 41_939],
    few_labels: false,
    all_have_features: false,
    types: &["author", "institution", "field"],
    nodes: &[1_134_649, 8740, 59_965],
    relations: &[
        ["author", "writes", "paper"],
        ["author", "affiliated_with", "institution"],
        ["paper", "has_topic", "field"],
    ],
    edges: &[7_145_660, 1_043_998, 7_505_078],
    guessed: &[],
};

pub(crate) static MAG240M: PublishedGraph = PublishedGraph {
    papers: 121_751_666,
    citations: 1_297_748_926,
    feature_dim: 768,
    feature_element: ElementType::F16,
    classes: 153,
    splits: [1_112_392, 138_949, 146_818],
    few_labels: true,
    all_have_features: false,
    types: &["author", "institution"],
    nodes: &[122_383_112, 25_721],
    relations: &[["author", "writes", "paper"], ["author", "affiliated_with", "institution"]],
    edges: &[386_022_720, 44_592_586],
    guessed: &[],
};

pub(crate) static IGBH_TINY: PublishedGraph =
    igbh([100_000, 447_416], 100_000, &[357_041, 8738, 84_220, 8101, 398], &[471_443, 718_445, 325_410]);

pub(crate) static IGBH_SMALL: PublishedGraph = igbh(
    [1_000_000, 12_070_502],
    1_000_000,
    &[1_926_066, 14_751, 190_449, 15_277, 1215],
    &[4_553_516, 7_234_122, 1_630_476],
);

pub(crate) static IGBH_MEDIUM: PublishedGraph = igbh(
    [10_000_000, 120_077_694],
    10_000_000,
    &[15_544_654, 23_256, 415_054, 37_565, 4189],
    &[39_854_592, 68_510_495, 11_049_412],
);

pub(crate) static IGBH_LARGE: PublishedGraph = igbh(
    [100_000_000, 1_223_571_364],
    100_000_000,
    &[116_959_896, 26_524, 649_707, 48_820, 4490],
    &[289_502_107, 457_577_294, 34_099_660],
);

pub(crate) static IGBH_FULL: PublishedGraph = igbh(
    [269_346_174, 3_996_442_004],
    227_130_858,
    &[277_220_883, 26_918, 712_960, 49_052, 4547],
    &[716_761_549, 1_050_280_600, 48_521_486],
);

/// A graph of IGBH. `nodes` are authors, institutes, fields of study, journals and conferences, `edges` those of the
/// relations to authors, fields of study and institutes.
const fn igbh(
    [papers, citations]: [u64; 2],
    labelled: u64,
    nodes: &'static [u64; 5],
    edges: &'static [u64; 3],
) -> PublishedGraph {
    PublishedGraph {
        papers,
        citations,
        feature_dim: 1024,
        feature_element: ElementType::F32,
        classes: 19,
        splits: [labelled * 6 / 10, labelled / 200, 0],
        few_labels: false,
        all_have_features: true,
        types: &["author", "institute", "fos", "journal", "conference"],
        nodes,
        relations: &[
            ["paper", "written_by", "author"],
            ["paper", "topic", "fos"],
            ["author", "affiliated_to", "institute"],
        ],
        edges,
        guessed: &[(["paper", "published", "journal"], 0.6), (["paper", "venue", "conference"], 0.12)],
    }
}

impl PublishedGraph {
    /// The names and nodes of all types, papers first.
    pub(super) fn all_types(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let others = self.types.iter().copied().zip(self.nodes.iter().copied());
        std::iter::once(("paper", self.papers)).chain(others)
    }

    /// The place of a type among all types.
    pub(super) fn type_at(&self, name: &str) -> usize {
        self.types.iter().position(|other| *other == name).map_or(0, |at| at + 1)
    }

    /// The sizes that are not published, for `meta.json`.
    pub(super) fn guesses(&self) -> Map<String, Value> {
        let guess = |(names, share): &(Names, f64)| {
            format!("{} for {:.0} % of the {}s", names.join("__"), share * 100.0, names[0])
        };
        let guesses: Vec<String> = self.guessed.iter().map(guess).collect();
        let key = ("guessed".to_owned(), json!(guesses));
        if guesses.is_empty() { Map::new() } else { Map::from_iter([key]) }
    }
}
