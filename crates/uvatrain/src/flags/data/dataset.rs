//! The commands that import, show and export datasets: `import`, `info`, `export`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, ValueEnum};
use uva_graph::csc::SelfLoops;
use uva_io::export::{self, EXPORTERS, Exporter};
use uva_io::import::{self, IMPORTERS, Importer, Scoped, Separator, SplitRule};

use uva_runtime::spec::ByteSize;

/// The options of `uvatrain import`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain import --from planetoid planetoid/data data/cora --name cora
  uvatrain import --from npy my_arrays data/mine --symmetrise --dedup
  uvatrain import --from ogb dataset/ogbn_products data/products
  uvatrain import --from gnn-npz amazon_computers.npz data/computers --split per-class:20,30
  uvatrain import --from edgelist soc-pokec.txt.gz data/pokec --memory 2GiB
  uvatrain import --from csv tables data/papers --label field

SRC is only read. OUT appears only when it is complete. The required disk space and memory are printed first.")]
pub struct ImportFlags {
    /// Format of SRC
    #[arg(long, value_name = "FORMAT", value_parser = importers())]
    pub from: &'static Importer,

    /// Graph to read
    #[arg(value_name = "SRC")]
    pub source: PathBuf,

    /// The directory to write; it must not exist
    #[arg(value_name = "OUT")]
    pub out: PathBuf,

    /// Name of the dataset; for planetoid also selects the graph of SRC, the NAME in ind.NAME.graph
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Add the reverse of every edge; of a typed graph, in the relations that have both ends in one type, or in the named
    /// ones [default: true for planetoid and gnn-npz; as ogb does for ogb; otherwise false]
    #[arg(
        long,
        visible_alias = "symmetrize",
        value_name = "BOOL|RELATION,…",
        value_parser = switch,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub symmetrise: Option<Scoped<bool>>,

    /// Remove duplicate edges; of a typed graph, in every relation, or in the named ones [default: true for planetoid and
    /// gnn-npz, otherwise false]
    #[arg(
        long,
        value_name = "BOOL|RELATION,…",
        value_parser = switch,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub dedup: Option<Scoped<bool>>,

    /// Treatment of self-loops: keep, add (exactly one per node) or remove; of a typed graph, in the relations that have
    /// both ends in one type, or in the named ones [default: remove for planetoid and gnn-npz, add for igb, otherwise keep]
    #[arg(long, value_name = "CHANGE[=RELATION,…]", value_parser = self_loops)]
    pub self_loops: Option<Scoped<SelfLoops>>,

    /// Memory for edges; more edges are sorted in a temporary file next to OUT, with the same result
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize::from_bytes(import::DEFAULT_MEMORY))]
    pub memory: ByteSize,

    /// Splits instead of those of SRC: none, per-class[:TRAIN,VALID] (numbers per class, all other nodes test), or
    /// random[:TRAIN,VALID[,TEST[,SEED]]] (shares of the labelled nodes, or of all) [default: those of SRC; for gnn-npz
    /// per-class:20,30, or random:0.6,0.2 for multi-label data]
    #[arg(long, value_name = "RULE", value_parser = split_rule)]
    pub split: Option<SplitRule>,

    /// Random seed of such splits, unless --split contains one
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Variant to import: the split of ogb, the task of graphbolt, the classes of igb (19 or 2K), or
    /// its typed graph (typed, typed-2K, mlperf or mlperf-19)
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,

    /// For typed graphs: add the reverse of every relation, or of the named ones [default: true for ogb and igb, otherwise
    /// false]
    #[arg(
        long,
        value_name = "BOOL|RELATION,…",
        value_parser = switch,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub reverse: Option<Scoped<bool>>,

    /// For nt: treatment of literals. keep makes them nodes, drop omits the triples that have one [default: keep]
    #[arg(long, value_enum)]
    pub literals: Option<LiteralsFlag>,

    /// For nt: table of entities and their classes, with a header and columns separated by tabs, in addition to those of
    /// the splits in SRC
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,

    /// For nt: columns of the entity and of its class in these tables [default: the first and the last]
    #[arg(long, value_name = "ENTITY,CLASS", value_parser = label_columns)]
    pub label_columns: Option<[String; 2]>,

    /// For typed graphs of ogb: times of nodes, from the files of this name, such as node_year
    #[arg(long, value_name = "NAME")]
    pub time: Option<String>,

    /// For npy, edgelist, graphbolt, csv and parquet: read labels as float32 regression targets, even if they are whole
    /// numbers; of a typed graph, those of every node type, or of the named ones. npy does so by default for floats that
    /// are not whole numbers
    #[arg(
        long,
        value_name = "NODE_TYPE,…",
        value_parser = switch,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub regression: Option<Scoped<bool>>,

    /// Stored type of node features: e4m3, one byte per value, with values beyond ±448 clipped; of a typed graph, for every
    /// node type, or for the named ones [default: as in the source]
    #[arg(long, value_name = "TYPE[=NODE_TYPE,…]", value_parser = feature_type)]
    pub feat_dtype: Option<Scoped<ImportedFeatures>>,

    /// With --feat-dtype e4m3: accept any number of values beyond ±448, not only one in a thousand
    #[arg(long, requires = "feat_dtype")]
    pub saturate: bool,

    #[command(flatten)]
    pub tables: TableFlags,

    #[command(flatten)]
    pub edge_list: EdgeListFlags,
}

/// Columns of tables.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Tables (csv and parquet)")]
pub struct TableFlags {
    /// Column of the node ids [default: id, node_id or node; otherwise the first for csv]
    #[arg(long, value_name = "COLUMN")]
    pub node_id: Option<String>,

    /// Column of the labels [default: label, labels, y, node_label, class or target]
    #[arg(long, value_name = "COLUMN")]
    pub label: Option<String>,
}

/// A type that features can be imported as, whatever they are in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImportedFeatures {
    /// float8 with four bits of exponent and three of fraction
    E4m3,
}

/// The format of the lines of an edge list.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Edge lists")]
pub struct EdgeListFlags {
    /// Type of the ids [default: number]
    #[arg(long, value_enum)]
    pub ids: Option<EdgeListIds>,

    /// Number of nodes, if ids are 0 to N - 1 [default: the nodes that occur, or the rows of the features]
    #[arg(long, value_name = "N")]
    pub nodes: Option<u64>,

    /// Lines to skip at the beginning [default: one if it is a header, such as source,target]
    #[arg(long, value_name = "LINES")]
    pub skip_lines: Option<u64>,

    /// Separator of columns: comma, tab, semicolon, pipe, blanks, or one character [default: the one that divides every
    /// line into the same number of columns]
    #[arg(long, value_name = "SEPARATOR", value_parser = separator)]
    pub separator: Option<Separator>,

    /// Whether columns may be double-quoted, as in RFC 4180
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        action = ArgAction::Set
    )]
    pub quotes: bool,

    /// Whether lines that begin with # or % are comments
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        action = ArgAction::Set
    )]
    pub comments: bool,

    /// Meaning of a third column
    #[arg(long, value_enum)]
    pub third_column: Option<ThirdColumnFlag>,

    /// Directory with features, labels and splits, as for npy; for typed graphs of igb, with splits [default: SRC, if it is a
    /// directory]
    #[arg(long, value_name = "DIR")]
    pub arrays: Option<PathBuf>,
}

/// What the ids of an edge list are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EdgeListIds {
    /// Integers
    Number,
    /// Any text
    Name,
}

/// What the third column of an edge list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ThirdColumnFlag {
    /// The edge's weight
    Weight,
    /// Ignored, as are further columns
    Ignore,
}

/// The options of `uvatrain export`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Example:
  uvatrain export data/mine mine_graphbolt --to graphbolt

DATA is only read. OUT appears only when it is complete, and can be imported again.")]
pub struct ExportFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// The directory to write; it must not exist
    #[arg(value_name = "OUT")]
    pub out: PathBuf,

    /// Format to write
    #[arg(long, value_name = "FORMAT", value_parser = exporters())]
    pub to: &'static Exporter,

    /// Compress the lines of an edge list
    #[arg(long)]
    pub gzip: bool,
}

/// What literals of N-Triples become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LiteralsFlag {
    /// Nodes
    Keep,
    /// Omitted, with their triples
    Drop,
}

/// The options of `uvatrain info`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain info data/demo --verify
  uvatrain info data/demo-4 --verify --source data/demo")]
pub struct InfoFlags {
    /// The dataset, the hop set of `uvatrain propagate`, or the partition of `uvatrain partition`
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Check everything again: every edge, even if an earlier run has checked it, and every feature value for NaN; every
    /// hash and value of a hop set; all counts of a partition, and all of its available parts
    #[arg(long)]
    pub verify: bool,

    /// Dataset that was partitioned: compare rows and lists of the parts with it
    #[arg(long, value_name = "DATA", requires = "verify")]
    pub source: Option<PathBuf>,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
}

fn split_rule(text: &str) -> Result<SplitRule, String> {
    SplitRule::from_text(text).ok_or_else(|| {
        let numbers = "expected shares above 0 with a sum of at most 1";
        format!("expected none, per-class, per-class:20,30, random, random:0.6,0.2 or random:0.6,0.2,0.2,SEED; {numbers}")
    })
}

/// `true`, `false`, or names. It cannot fail.
fn switch(text: &str) -> Result<Scoped<bool>, String> {
    Ok(Scoped::from_switch(text))
}

fn self_loops(text: &str) -> Result<Scoped<SelfLoops>, String> {
    Scoped::from_text(text, SelfLoops::from_name).ok_or_else(|| {
        "expected keep, add or remove, or one of them and names: add=paper__cites__paper".to_owned()
    })
}

fn feature_type(text: &str) -> Result<Scoped<ImportedFeatures>, String> {
    let named = |text: &str| ImportedFeatures::from_str(text, false).ok();
    Scoped::from_text(text, named)
        .ok_or_else(|| "expected e4m3, or e4m3 and names: e4m3=paper,author".to_owned())
}

fn label_columns(text: &str) -> Result<[String; 2], String> {
    let names = text.split_once(',').filter(|(entity, class)| !entity.is_empty() && !class.is_empty());
    let (entity, class) = names.ok_or("expected two names: ENTITY,CLASS")?;
    Ok([entity, class].map(str::to_owned))
}

fn separator(text: &str) -> Result<Separator, String> {
    let wanted =
        "comma, tab, semicolon, pipe, blanks, or one ASCII character other than letters, digits and quotes";
    Separator::from_text(text).ok_or_else(|| format!("expected {wanted}"))
}

fn importers() -> impl TypedValueParser<Value = &'static Importer> {
    one_of(IMPORTERS.iter().map(|row| (row.name, row.help)), import::importer)
}

fn exporters() -> impl TypedValueParser<Value = &'static Exporter> {
    one_of(EXPORTERS.iter().map(|row| (row.name, row.help)), export::exporter)
}

/// Takes the name of a row of a table, of which `rows` gives names and help.
fn one_of<R: Clone + Send + Sync + 'static>(
    rows: impl Iterator<Item = (&'static str, &'static str)>,
    find: impl Fn(&str) -> Option<R> + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = R> {
    let names = rows.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(names).try_map(move |name| find(&name).ok_or("no such format"))
}
