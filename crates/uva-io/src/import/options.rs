//! The options of an import.

use std::path::PathBuf;

use uva_graph::GraphError;
use uva_graph::csc::{Changes, SelfLoops};

use super::split::SplitRule;

/// Default memory of an import for edges.
pub const DEFAULT_MEMORY: u64 = 4 << 30;

/// Changes during the import, and facts that the source does not state. `None` selects the default for the source; the
/// table in docs/guide/datasets.md lists these.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportOptions {
    /// Add the reverse of every edge. Each list is then sorted.
    pub symmetrise: Option<bool>,
    /// Keep one of several equal edges. Each list is then sorted.
    pub deduplicate: Option<bool>,
    /// Treatment of self-loops.
    pub self_loops: Option<SelfLoops>,
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
    /// labels of `igb`.
    pub variant: Option<String>,
    /// Add the reverse of each relation of a typed graph: `rev_R`, or for `ogb` the same relation if both its ends are of
    /// one type. `None` adds them for `ogb` only.
    pub reverse: Option<bool>,
    /// Read labels as float32 targets of regression, even where they are whole numbers.
    pub regression: bool,
    /// Store features of nodes as float8_e4m3fn, one byte per value.
    pub float8: Option<Float8>,
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
            regression: false,
            float8: None,
        }
    }
}

impl ImportOptions {
    /// The changes to make; `default` is the default for the source.
    pub(super) fn changes(&self, default: Changes) -> Changes {
        Changes {
            symmetrise: self.symmetrise.unwrap_or(default.symmetrise),
            deduplicate: self.deduplicate.unwrap_or(default.deduplicate),
            self_loops: self.self_loops.unwrap_or(default.self_loops),
        }
    }

    /// The options specific to some importers, and whether each was given.
    pub(super) fn extras(&self) -> [(Extra, bool); 5] {
        [
            (Extra::Variant, self.variant.is_some()),
            (Extra::Reverse, self.reverse.is_some()),
            (Extra::Regression, self.regression),
            (Extra::Lines, self.edge_list != EdgeList::default()),
            (Extra::Tables, self.tables != TableColumns::default()),
        ]
    }
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
    /// [`ImportOptions::edge_list`].
    Lines,
    /// [`ImportOptions::tables`].
    Tables,
    /// [`ImportOptions::regression`].
    Regression,
}

impl Extra {
    /// The options' names.
    pub(super) fn name(self) -> &'static str {
        match self {
            Extra::Variant => "variant",
            Extra::Reverse => "reverse",
            Extra::Tables => "`node_id` or `label`",
            Extra::Regression => "regression",
            Extra::Lines => {
                "`ids`, `nodes`, `skip_lines`, `separator`, `quotes`, `comments`, `third_column` or `arrays`"
            }
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
    /// The directory with features, labels and splits, named as for `npy`.
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
