//! The Planetoid files (Yang, Cohen and Salakhutdinov 2016; Kipf and Welling's copies): Cora, Citeseer, Pubmed.
//!
//! `ind.NAME.{x,y,tx,ty,allx,ally,graph}` are pickles of Python 2, `ind.NAME.test.index` is text. The nodes of `allx`
//! come first; row k of `tx` belongs to the node on line k of `test.index`. Citeseer's test indices have gaps: nodes of
//! the graph that no file describes. They get a row of zeros and no label (−1).
//!
//! Splits are the published ones: the rows of `y` train, the next 500 validate, `test.index` tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, json};
use uva_files::quote::{listed, shown};
use uva_graph::csc::{Changes, SelfLoops};
use uva_graph::npy::{NpyType, write_array};
use uva_graph::{GraphError, Meta, names};
use uva_mem::files::{read_regular, read_regular_text};

use crate::import::importer::{Importer, SourceKind};
use crate::import::options::ImportOptions;
use crate::import::reading::features::FeatureSource;
use crate::import::reading::pickle::Pickle;
use crate::import::reading::scipy::SparseRows;
use crate::import::request::ImportRequest;
use crate::import::writing::output::{DatasetOutput, DatasetSizes, FeaturesOf};

/// Nodes that validate, after those that train.
const VALID_NODES: usize = 500;

/// The maximum number of nodes per described node. The published graphs have 15 undescribed ones in 3,327. Without a
/// limit, a test index of a few bytes could request a table of terabytes.
const NODES_PER_DESCRIBED: usize = 2;

/// The kind of source.
const READS: &str = "`from=planetoid` reads a directory with ind.NAME.x, .y, .tx, .ty, .allx, .ally, .graph and \
                     .test.index, or the DIRECTORY/ind.NAME of one graph";

/// More features and classes than the largest file could describe.
const MOST_COLUMNS: usize = 1 << 24;

/// The size limit: these files are read completely, and parsing a pickle takes several times its size. The published
/// files have megabytes.
const MOST_BYTES: u64 = 1 << 30;

/// The customary treatment of these graphs' edges.
pub(crate) const UNDIRECTED: Changes =
    Changes { symmetrise: true, deduplicate: true, self_loops: SelfLoops::Remove };

/// Inconsistencies between the files.
#[derive(Debug, thiserror::Error)]
enum PlanetoidProblem {
    #[error("{rows} rows, but {other} has {other_rows}")]
    Rows { rows: usize, other: &'static str, other_rows: usize },
    #[error("{columns} columns, but {other} has {other_columns}")]
    Columns { columns: usize, other: &'static str, other_columns: usize },
    #[error("the shape is {0:?}, it has to be [rows, columns] with 1 to {MOST_COLUMNS} columns")]
    Shape(Vec<usize>),
    #[error("row {0} marks more than one class")]
    SeveralClasses(usize),
    #[error("line {line} is '{text}', not a node id below {most} (allx and tx describe {described} nodes)")]
    TestLine { line: usize, text: String, most: usize, described: usize },
    #[error("line {line} names node {node}, which allx describes already (it has {rows} rows)")]
    TestNode { line: usize, node: usize, rows: usize },
    #[error("line {line} names node {node} again")]
    TestTwice { line: usize, node: usize },
    #[error("the list of node {node} names node {neighbour}, but there are {nodes} nodes")]
    Neighbour { node: i64, neighbour: i64, nodes: usize },
}

/// The row in the table.
pub(crate) const IMPORTER: Importer = Importer {
    name: "planetoid",
    help: "The ind.NAME.* files of cora, citeseer and pubmed; their pickles are read, never executed",
    source: SourceKind::Prefix,
    takes: &[],
    import,
};

/// Imports one Planetoid graph. `source` is the directory with the files, or any of the files, or their common prefix
/// (`…/ind.cora`). If the directory has several graphs, the requested name selects one, or else that of the output.
fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let (directory, name) = resolve(request.source, request.out, request.options)?;
    let changes = request.options.changes(UNDIRECTED);
    let file = |part: &str| directory.join(format!("ind.{name}.{part}"));

    let x = sparse_rows(&file("x"))?;
    let all_x = sparse_rows(&file("allx"))?;
    let test_x = sparse_rows(&file("tx"))?;
    let (y, all_y, test_y) =
        (Classes::read(&file("y"))?, Classes::read(&file("ally"))?, Classes::read(&file("ty"))?);
    for (part, rows, other, other_rows) in [
        ("y", y.labels.len(), "x", x.rows),
        ("ally", all_y.labels.len(), "allx", all_x.rows),
        ("ty", test_y.labels.len(), "tx", test_x.rows),
    ] {
        if rows != other_rows {
            return Err(GraphError::invalid(&file(part), PlanetoidProblem::Rows { rows, other, other_rows }));
        }
    }
    for (part, columns, other, other_columns) in [
        ("tx", test_x.columns, "allx", all_x.columns),
        ("x", x.columns, "allx", all_x.columns),
        ("ty", test_y.classes, "ally", all_y.classes),
        ("y", y.classes, "ally", all_y.classes),
    ] {
        if columns != other_columns {
            let problem = PlanetoidProblem::Columns { columns, other, other_columns };
            return Err(GraphError::invalid(&file(part), problem));
        }
    }
    if x.rows > all_x.rows {
        let problem = PlanetoidProblem::Rows { rows: x.rows, other: "allx", other_rows: all_x.rows };
        return Err(GraphError::invalid(&file("x"), problem));
    }
    let test = test_index(&file("test.index"), all_x.rows, test_x.rows)?;
    if test.len() != test_x.rows {
        let problem = PlanetoidProblem::Rows { rows: test.len(), other: "tx", other_rows: test_x.rows };
        return Err(GraphError::invalid(&file("test.index"), problem));
    }
    let nodes = test.iter().map(|&node| node + 1).max().unwrap_or(0).max(all_x.rows);

    let mut labels = all_y.labels.clone();
    labels.resize(nodes, -1);
    // The row in tx of each node; nodes in the gaps have none.
    let mut test_row = vec![None; nodes];
    for (row, &node) in test.iter().enumerate() {
        labels[node] = test_y.labels[row];
        test_row[node] = Some(row);
    }
    let edges = edges(&file("graph"), nodes)?;

    let sizes = DatasetSizes {
        nodes: Some(nodes as u64),
        edges: Some(edges.len() as u64),
        feature_row_bytes: 4 * all_x.columns as u64,
        label_row_bytes: 8,
        ..DatasetSizes::default()
    };
    let output = DatasetOutput::begin(request, sizes, changes)?;
    let mut lists = output.lists(nodes as u64, false)?;
    for (source, destination) in edges {
        lists.push(source as u64, destination as u64, 0.0)?;
    }
    output.finish_lists(lists)?;
    // Values come from two files; allx has all rows but the last ones.
    let source = |part: &str| FeatureSource { place: file(part), data_offset: None };
    let mut features =
        output.feature_writer(FeaturesOf::Nodes, source("allx"), NpyType::F32, all_x.columns, None)?;
    for (part, _) in
        [("allx", all_x.narrowed), ("tx", test_x.narrowed)].iter().filter(|(_, narrowed)| *narrowed)
    {
        output.note(&format!("{}: float64 becomes float32", file(part).display()));
    }
    for (node, test_row) in test_row.iter().enumerate() {
        let mut row = vec![0_f32; all_x.columns];
        let mut add = |(column, value): (usize, f32)| row[column] += value;
        if node < all_x.rows {
            all_x.row(node).for_each(&mut add);
        } else if let &Some(test_row) = test_row {
            test_x.row(test_row).for_each(&mut add);
        }
        features.write_floats(&row)?;
    }
    output.finish_features(features)?;
    write_array(&output.path(names::LABELS), NpyType::I64, &[], &labels)?;

    let train: Vec<i64> = (0..x.rows as i64).collect();
    let valid: Vec<i64> = (x.rows..(x.rows + VALID_NODES).min(all_x.rows)).map(|node| node as i64).collect();
    let test: Vec<i64> = BTreeSet::from_iter(&test).into_iter().map(|&node| node as i64).collect();
    output.splits(&[train, valid, test])?;
    let meta = Meta {
        name: Some(request.options.name.clone().unwrap_or(name)),
        classes: Some(all_y.classes as u64),
        other: Map::from_iter([("source".to_owned(), json!("planetoid"))]),
        ..Meta::default()
    };
    output.finish(meta)
}

/// The directory of the files and the graph's name in their names.
fn resolve(source: &Path, out: &Path, options: &ImportOptions) -> Result<(PathBuf, String), GraphError> {
    if source.is_dir() {
        let names = names_in(source)?;
        let called = |name: &str| names.iter().find(|found| *found == name).cloned();
        let out_name = out.file_name().map(|name| name.to_string_lossy().into_owned());
        let chosen = match (&options.name, names.len()) {
            (_, 0) => {
                let message = format!("{} has no ind.NAME.graph; {READS}", source.display());
                return Err(GraphError::usage("SRC", message));
            }
            // With one graph in the directory the user may choose any name.
            (_, 1) => names.first().cloned(),
            (Some(name), _) => called(name),
            (None, _) => out_name.as_deref().and_then(called),
        };
        let chosen = chosen.ok_or_else(|| {
            let all = listed(&names);
            GraphError::usage(
                "SRC",
                format!(
                    "{} has several graphs ({all}): name one of them, as in {}/ind.{}",
                    source.display(),
                    source.display(),
                    shown(&names[0])
                ),
            )
        })?;
        return Ok((source.to_owned(), chosen));
    }
    // `…/ind.cora`, `…/ind.cora.x`, `…/ind.cora.test.index` or `…/cora`.
    let directory = source.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.strip_prefix("ind.").unwrap_or(&name);
    // A missing directory has no graph.
    let found = if directory.is_dir() { names_in(directory)? } else { Vec::new() };
    match found.iter().find(|found| {
        name == *found || name.strip_prefix(found.as_str()).is_some_and(|rest| rest.starts_with('.'))
    }) {
        Some(found) => Ok((directory.to_owned(), found.clone())),
        None => {
            let file = directory.join(format!("ind.{name}.graph"));
            Err(GraphError::usage("SRC", format!("there is no {}; {READS}", file.display())))
        }
    }
}

/// Every NAME with an `ind.NAME.graph` in `directory`, sorted.
fn names_in(directory: &Path) -> Result<Vec<String>, GraphError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(GraphError::io(directory, "open"))? {
        let file = entry.map_err(GraphError::io(directory, "read"))?.file_name();
        let name = file.to_str().and_then(|file| file.strip_prefix("ind.")?.strip_suffix(".graph"));
        names.extend(name.map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

fn read_pickle(path: &Path) -> Result<Pickle, GraphError> {
    let bytes = read_regular(path, MOST_BYTES).map_err(GraphError::io(path, "open"))?;
    Pickle::read(&bytes).map_err(|e| GraphError::invalid(path, e))
}

fn sparse_rows(path: &Path) -> Result<SparseRows, GraphError> {
    let matrix = read_pickle(path)?.sparse_rows().map_err(|e| GraphError::invalid(path, e))?;
    if !(1..=MOST_COLUMNS).contains(&matrix.columns) {
        return Err(GraphError::invalid(path, PlanetoidProblem::Shape(vec![matrix.rows, matrix.columns])));
    }
    Ok(matrix)
}

/// Labels from one-hot rows.
struct Classes {
    classes: usize,
    labels: Vec<i64>,
}

impl Classes {
    fn read(path: &Path) -> Result<Classes, GraphError> {
        let pickle = read_pickle(path)?;
        let array = pickle.root_array().map_err(|e| GraphError::invalid(path, e))?;
        let &[rows, classes @ 1..=MOST_COLUMNS] = array.shape.as_slice() else {
            return Err(GraphError::invalid(path, PlanetoidProblem::Shape(array.shape)));
        };
        let marks = array.integers().map_err(|e| GraphError::invalid(path, e))?;
        let mut labels = Vec::with_capacity(rows);
        for row in 0..rows {
            let marks = &marks[row * classes..][..classes];
            let mut marked = marks.iter().enumerate().filter(|(_, mark)| **mark != 0);
            labels.push(marked.next().map_or(-1, |(class, _)| class as i64));
            if marked.next().is_some() {
                return Err(GraphError::invalid(path, PlanetoidProblem::SeveralClasses(row)));
            }
        }
        Ok(Classes { classes, labels })
    }
}

/// The nodes of `tx`'s rows, in their order; `allx` has `trained` nodes.
fn test_index(path: &Path, trained: usize, tested: usize) -> Result<Vec<usize>, GraphError> {
    let described = trained + tested;
    let most = described.saturating_mul(NODES_PER_DESCRIBED);
    let text = read_regular_text(path, MOST_BYTES).map_err(GraphError::io(path, "read"))?;
    let mut seen = BTreeSet::new();
    let mut nodes = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let node = text.parse().ok().filter(|&node| node < most).ok_or_else(|| {
            let text = shown(text);
            GraphError::invalid(path, PlanetoidProblem::TestLine { line, text, most, described })
        })?;
        if node < trained {
            return Err(GraphError::invalid(path, PlanetoidProblem::TestNode { line, node, rows: trained }));
        }
        if !seen.insert(node) {
            return Err(GraphError::invalid(path, PlanetoidProblem::TestTwice { line, node }));
        }
        nodes.push(node);
    }
    Ok(nodes)
}

/// (source, destination) pairs: each node's list names its neighbours.
fn edges(path: &Path, nodes: usize) -> Result<Vec<(i64, i64)>, GraphError> {
    let lists = read_pickle(path)?.lists().map_err(|e| GraphError::invalid(path, e))?;
    let valid = 0..nodes as i64;
    let mut edges = Vec::with_capacity(lists.iter().map(|(_, list)| list.len()).sum());
    for (node, list) in lists {
        for neighbour in list {
            if !valid.contains(&node) || !valid.contains(&neighbour) {
                let problem = PlanetoidProblem::Neighbour { node, neighbour, nodes };
                return Err(GraphError::invalid(path, problem));
            }
            edges.push((neighbour, node));
        }
    }
    Ok(edges)
}
