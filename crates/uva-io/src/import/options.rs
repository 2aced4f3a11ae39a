//! The options of an import.

use std::path::PathBuf;

use uva_graph::GraphError;
use uva_graph::csc::{Changes, SelfLoops};

use super::scoped::Scoped;
use super::split::SplitRule;

/// Default memory of an import for edges.
pub const DEFAULT_MEMORY: u64 = 4 << 30;

/// Changes during the import, and facts that the source does not state. `None` selects the default for the source; the
/// table in docs/guide/datasets.md lists these. Names of relations and node types require a typed graph.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportOptions {
    /// Add the reverse of every edge, of typed graphs in the relation itself. Each list is then sorted, if edges have no
    /// values.
    pub symmetrise: Option<Scoped<bool>>,
    /// Keep one of several equal edges. Each list is then sorted.
    pub deduplicate: Option<Scoped<bool>>,
    /// Treatment of self-loops.
    pub self_loops: Option<Scoped<SelfLoops>>,
    /// The name in `meta.json`; for `planetoid` it also selects one of several graphs in the directory.
    pub name: Option<String>,
    /// The maximum memory for edges in bytes; the rest uses a temporary file next to the output.
    pub memory: u64,
    /// The rule for splits, instead of those of the source.
    pub split: Option<SplitRule>,
    /// The key of random splits.
    pub seed: u64,
    /// The meaning of lines of text; for `edgelist` only.
    pub edge_list: EdgeList,
    /// Columns of tables; for `csv` and `parquet` only.
    pub tables: TableColumns,
    /// Selects one of several: the scheme of an `ogb` split, the task of a `graphbolt` dataset, `19` or `2K` for the
    /// labels of `igb`, `typed` or `mlperf` for its typed graphs.
    pub variant: Option<String>,
    /// Add the reverse of relations of a typed graph: `rev_R`, or for `ogb` the same relation if both its ends are of one
    /// type. `None` adds them for `ogb` and `igb` only.
    pub reverse: Option<Scoped<bool>>,
    /// Read labels as float32 targets of regression, even where they are whole numbers.
    pub regression: Option<Scoped<bool>>,
    /// Store features of nodes as float8_e4m3fn, one byte per value.
    pub float8: Option<Scoped<Float8>>,
    /// Treatment of literals; for `nt` only. `None` keeps them.
    pub literals: Option<Literals>,
    /// The classes of entities; for `nt` only.
    pub labels: LabelTables,
    /// The file with the time of each node; for typed graphs of `ogb` only.
    pub time: Option<String>,
}

/// Tables of entities and their classes: columns separated by tabs, below a header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelTables {
    /// A table in addition to those of the splits.
    pub file: Option<PathBuf>,
    /// The columns of the entity and of its class in each table. `None` selects the first and the last.
    pub columns: Option<[String; 2]>,
}

/// Treatment of the texts and numbers that are objects of triples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Literals {
    /// Nodes, as other objects.
    Keep,
    /// Triples with one are not read.
    Drop,
}

/// Features as float8_e4m3fn, whose largest value is 448.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Float8 {
    /// Clamp any number of values beyond ±448, instead of at most one in a thousand.
    pub saturate: bool,
}

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions {
            symmetrise: None,
            deduplicate: None,
            self_loops: None,
            name: None,
            memory: DEFAULT_MEMORY,
            split: None,
            seed: 0,
            edge_list: EdgeList::default(),
            tables: TableColumns::default(),
            variant: None,
            reverse: None,
            regression: None,
            float8: None,
            literals: None,
            labels: LabelTables::default(),
            time: None,
        }
    }
}

impl ImportOptions {
    /// The changes to make; `default` is the default for the source.
    pub(super) fn changes(&self, default: Changes) -> Changes {
        Changes {
            symmetrise: value_of(self.symmetrise.as_ref(), default.symmetrise),
            deduplicate: value_of(self.deduplicate.as_ref(), default.deduplicate),
            self_loops: value_of(self.self_loops.as_ref(), default.self_loops),
        }
    }

    /// Whether labels of a source with one type are targets of regression.
    pub(super) fn is_regression(&self) -> bool {
        value_of(self.regression.as_ref(), false)
    }

    /// Refuses options of typed graphs, and names of types, for a source with one type of nodes and of edges.
    ///
    /// # Errors
    /// If there are some.
    pub(super) fn refuse_types(&self) -> Result<(), GraphError> {
        for (option, instead) in [("reverse", ": `symmetrise` adds reverse edges"), ("time", "")] {
            if self.extras().iter().any(|(extra, given)| extra.name() == option && *given) {
                return Err(GraphError::usage(option, format!("only valid for typed graphs{instead}")));
            }
        }
        let switches = [
            ("symmetrise", &self.symmetrise),
            ("dedup", &self.deduplicate),
            ("regression", &self.regression),
        ];
        for (option, value) in switches {
            value.as_ref().map_or(Ok(()), |value| value.refuse_names(option))?;
        }
        self.self_loops.as_ref().map_or(Ok(()), |value| value.refuse_names("self_loops"))?;
        self.float8.as_ref().map_or(Ok(()), |value| value.refuse_names("feat_dtype"))
    }

    /// The options specific to some importers, and whether each was given.
    pub(super) fn extras(&self) -> [(Extra, bool); 9] {
        let lines = EdgeList { arrays: None, ..self.edge_list.clone() };
        [
            (Extra::Variant, self.variant.is_some()),
            (Extra::Reverse, self.reverse.is_some()),
            (Extra::Regression, self.regression.is_some()),
            (Extra::Literals, self.literals.is_some()),
            (Extra::Labels, self.labels != LabelTables::default()),
            (Extra::Time, self.time.is_some()),
            (Extra::Lines, lines != EdgeList::default()),
            (Extra::Arrays, self.edge_list.arrays.is_some()),
            (Extra::Tables, self.tables != TableColumns::default()),
        ]
    }
}

/// The value for a source with one type.
fn value_of<T: Copy>(value: Option<&Scoped<T>>, default: T) -> T {
    value.map_or(default, |value| value.value)
}

/// Rejects changes of edges that have weights or features: `weights` names them in the message.
///
/// # Errors
/// If there are changes.
pub(super) fn refuse_changes_of_weighted(changes: Changes, weights: &str) -> Result<(), GraphError> {
    if changes.is_none() {
        return Ok(());
    }
    let message = format!("not supported with {weights}: omit these options, or remove {weights}");
    Err(GraphError::usage("`symmetrise`, `dedup` or `self_loops`", message))
}

/// An option, or a group of options, specific to some importers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// [`ImportOptions::variant`].
    Variant,
    /// [`ImportOptions::reverse`].
    Reverse,
    /// [`ImportOptions::edge_list`], except the arrays.
    Lines,
    /// [`EdgeList::arrays`].
    Arrays,
    /// [`ImportOptions::tables`].
    Tables,
    /// [`ImportOptions::regression`].
    Regression,
    /// [`ImportOptions::literals`].
    Literals,
    /// [`ImportOptions::labels`].
    Labels,
    /// [`ImportOptions::time`].
    Time,
}

impl Extra {
    /// The options' names.
    pub(super) fn name(self) -> &'static str {
        match self {
            Extra::Variant => "variant",
            Extra::Reverse => "reverse",
            Extra::Tables => "`node_id` or `label`",
            Extra::Regression => "regression",
            Extra::Literals => "literals",
            Extra::Labels => "`labels` or `label_columns`",
            Extra::Time => "time",
            Extra::Lines => {
                "`ids`, `nodes`, `skip_lines`, `separator`, `quotes`, `comments` or `third_column`"
            }
            Extra::Arrays => "arrays",
        }
    }
}

/// The meaning of an edge list's lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeList {
    /// The kind of ids.
    pub ids: Ids,
    /// The number of nodes, for ids that are node numbers; some may have no edge.
    pub nodes: Option<u64>,
    /// Lines to skip at the beginning: a header. `None` recognises one line of usual names of columns.
    pub skip_lines: Option<u64>,
    /// The separator of columns. `None` infers it from the file.
    pub separator: Option<Separator>,
    /// Whether columns may be quoted, as in RFC 4180. Otherwise a quote is an ordinary character.
    pub quotes: bool,
    /// Whether lines that begin with `#` or `%` are comments.
    pub comments: bool,
    /// The meaning of a third column.
    pub third_column: Option<ThirdColumn>,
    /// The directory with features, labels and splits, named as for `npy`; for typed graphs of `igb` with splits only.
    pub arrays: Option<PathBuf>,
}

impl Default for EdgeList {
    fn default() -> Self {
        EdgeList {
            ids: Ids::default(),
            nodes: None,
            skip_lines: None,
            separator: None,
            quotes: true,
            comments: true,
            third_column: None,
            arrays: None,
        }
    }
}

/// Columns of a table of nodes, by name. `None` selects the first usual name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableColumns {
    /// The column of ids.
    pub node_id: Option<String>,
    /// The column of labels.
    pub label: Option<String>,
}

/// The separator of the columns of an edge list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separator {
    /// This ASCII character, with optional blanks around it.
    Byte(u8),
    /// Any run of blanks and tabs.
    Blanks,
}

impl Separator {
    /// The separators with a name, which are tried when the separator is inferred.
    pub(super) const NAMED: [(&'static str, Separator); 5] = [
        ("comma", Separator::Byte(b',')),
        ("tab", Separator::Byte(b'\t')),
        ("semicolon", Separator::Byte(b';')),
        ("pipe", Separator::Byte(b'|')),
        ("blanks", Separator::Blanks),
    ];

    /// Parses `comma`, `tab`, `semicolon`, `pipe`, `blanks`, or one ASCII character other than letters, digits and quotes.
    pub fn from_text(text: &str) -> Option<Separator> {
        if let Some((_, separator)) = Separator::NAMED.iter().find(|(name, _)| *name == text) {
            return Some(*separator);
        }
        match *text.as_bytes() {
            [b' '] => Some(Separator::Blanks),
            [byte] if byte == b'\t' || byte.is_ascii_punctuation() && byte != b'"' => {
                Some(Separator::Byte(byte))
            }
            _ => None,
        }
    }

    /// Its name, or the character.
    pub(super) fn name(self) -> String {
        match (Separator::NAMED.iter().find(|(_, separator)| *separator == self), self) {
            (Some((name, _)), _) => (*name).to_owned(),
            (None, Separator::Byte(byte)) => format!("'{}'", char::from(byte)),
            (None, Separator::Blanks) => "blanks".to_owned(),
        }
    }
}

/// The kind of ids in an edge list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ids {
    /// Integers. If the number of nodes is not known otherwise, the nodes are the occurring ids, in ascending order.
    #[default]
    Number,
    /// Text. The nodes are the occurring names, in order of first appearance.
    Name,
}

/// The meaning of an edge list's third column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThirdColumn {
    /// The edge's weight.
    Weight,
    /// Ignored, like further columns.
    Ignore,
}
