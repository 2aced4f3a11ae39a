//! Edge lists: lines of text with a source, a destination and an optional weight, plain or compressed by gzip or
//! Zstandard.
//!
//! [`layout`] finds what separates columns, and whether the first line is a header. Columns may be quoted. Empty lines
//! are skipped, and lines that begin with `#` or `%` are comments. A MatrixMarket file is known by its banner. The
//! caller says what the ids are: node numbers, any integers, or names; see
//! [`numbering`](crate::import::writing::numbering).

mod columns;
mod known_nodes;
mod layout;
mod lines;
mod matrix_market;

use std::path::{Path, PathBuf};

use uva_graph::csc::Changes;
use uva_graph::{GraphError, Meta, names};

use self::layout::EdgeListLayout;
use self::lines::{Edge, LineReader};
use self::matrix_market::MatrixMarket;
use super::npy::{NpyArrays, NpyEdgeRows};
use crate::import::importer::{Importer, SourceKind};
use crate::import::options::{EdgeList, Extra, Ids, Separator, ThirdColumn};
use crate::import::reading::nodes::NodeRange;
use crate::import::reading::text::{LineError, each_line, integer};
use crate::import::reading::unread_parts;
use crate::import::request::ImportRequest;
use crate::import::writing::numbering::{Numbering, Survey};
use crate::import::writing::output::{DatasetOutput, DatasetSizes};
use crate::import::writing::read_speed;

/// File names searched in a source directory.
const STEMS: [&str; 3] = ["edges.tsv", "edges.csv", "edges.txt"];
const ENDINGS: [&str; 3] = ["", ".gz", ".zst"];

/// The row in the table.
pub(crate) const IMPORTER: Importer = Importer {
    name: "edgelist",
    help: "Text with one edge per line, plain, .gz or .zst",
    source: SourceKind::Either(
        "a file with one edge per line, or a directory with edges.tsv, edges.csv or edges.txt",
    ),
    takes: &[Extra::Lines, Extra::Arrays, Extra::Regression],
    import,
};

/// Imports an edge list. If arrays come with it, the features have a row for each node. Otherwise every node has one
/// feature, 1, and is in no split; there are no labels.
fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let options = &request.options.edge_list;
    let (file, beside) = found(request.source)?;
    if let Some(arrays) = options.arrays.as_deref().filter(|arrays| !arrays.is_dir()) {
        let message = format!(
            "{} is not a directory: expected one with feat.npy, train_idx.npy, valid_idx.npy and test_idx.npy, and \
             label.npy to train",
            arrays.display()
        );
        return Err(GraphError::usage("arrays", message));
    }
    if let Some(beside) = beside {
        say_other_texts(beside, &file, request)?;
    }
    let directory = options.arrays.as_deref().or(beside);
    let arrays = directory.map(|directory| NpyArrays::open(directory, request)).transpose()?;
    let matrix = MatrixMarket::read(&file)?;
    let asked = request.options.changes(Changes::NONE);
    // The entries that a symmetric matrix omits are added here, so that weights can follow.
    let mirrored = matrix.as_ref().is_some_and(|matrix| matrix.symmetric) && !asked.symmetrise;
    let changes = asked;
    let weighted = options.third_column == Some(ThirdColumn::Weight);
    if weighted && !changes.is_none() {
        let message = "weights are not supported for edges that are symmetrised, deduplicated or given self-loops: do \
                       not change the edges, or give `third_column=ignore`";
        return Err(GraphError::usage("third_column=weight", message));
    }
    // Rows of features belong to the corresponding lines, in their order.
    let edge_rows = beside.map(|beside| NpyEdgeRows::open(beside, changes)).transpose()?.flatten();
    if let Some(arrays) = &arrays {
        let mut elsewhere = vec!["indptr.npy", "indices.npy", "edge_index.npy", "src.npy", "dst.npy"];
        if edge_rows.is_some() && directory == beside {
            elsewhere.extend(["edge_feat.npy", "edge_attr.npy", "edge_features.npy", "edge_type.npy"]);
        }
        arrays.say_left_out(request.watch, &elsewhere)?;
    }

    let mut known = known_nodes::known(options, arrays.as_ref(), directory)?;
    if let Some(matrix) = &matrix {
        known = Some(of_matrix(matrix, known, &file, request)?);
    }
    let layout = match &matrix {
        Some(matrix) => {
            EdgeListLayout { separator: Separator::Blanks, skip_lines: matrix.size_line, notes: Vec::new() }
        }
        None => EdgeListLayout::find(&file, known.as_ref(), request)?,
    };
    layout.notes.iter().for_each(|note| (request.watch.note)(note));
    // If the nodes are known, one pass is enough, and the edges are not counted first.
    let (numbering, edges) = match known {
        Some(numbering) => (numbering, matrix.as_ref().map(|matrix| matrix.entries)),
        None => {
            let (numbering, edges) = survey(&file, &layout, request)?;
            (numbering, Some(edges))
        }
    };
    let nodes = numbering.nodes();
    if nodes == 0 {
        return Err(no_edge(&file, options));
    }
    let mut sizes = match &arrays {
        Some(arrays) => arrays.sizes(),
        None => DatasetSizes { feature_row_bytes: 4, ..DatasetSizes::default() },
    };
    sizes.nodes = Some(nodes);
    sizes.edges = edges.map(|edges| edges.saturating_mul(if mirrored { 2 } else { 1 }));
    sizes.weighted = weighted;
    sizes.edge_row_bytes = edge_rows.as_ref().map_or(0, NpyEdgeRows::row_bytes);
    sizes.seconds = read_speed::of_text(&file)?;
    let output = DatasetOutput::begin(request, sizes, changes)?;

    let of_edges = edge_rows.map(|rows| rows.write(&output)).transpose()?.flatten();
    let mut lists = output.lists(nodes, weighted)?;
    let mut reader = LineReader::new(options, &layout);
    let symmetric = matrix.as_ref().is_some_and(|matrix| matrix.symmetric);
    // Whether the matrix has an entry below the diagonal, and one above.
    let mut sides = [false; 2];
    let mut entries = 0;
    each_line(&file, &|position| request.watch.at("edges", position), |line, text| {
        if let Some(Edge { source, destination, weight }) = reader.edge(line, text)? {
            if symmetric && let (Some(row), Some(column)) = (integer(&source), integer(&destination)) {
                sides[0] |= row > column;
                sides[1] |= row < column;
                if sides == [true; 2] {
                    let problem = "the matrix is symmetric and has entries on both sides of the diagonal, of which each is \
                                   two edges: change the banner to general, or drop one side";
                    return Err(LineError::Line(problem.to_owned()));
                }
            }
            let source = numbering.place(&source, "source")?;
            let destination = numbering.place(&destination, "destination")?;
            lists.push(source, destination, weight)?;
            if mirrored && source != destination {
                lists.push(destination, source, weight)?;
            }
            entries += 1;
        }
        Ok::<(), LineError>(())
    })?;
    if let Some(matrix) = matrix.filter(|matrix| matrix.entries != entries) {
        let message =
            format!("{} has {entries} entries, but its line of sizes has {}", file.display(), matrix.entries);
        return Err(GraphError::usage("SRC", message));
    }
    for line in [reader.about_comments(), reader.about_weights()].into_iter().flatten() {
        output.note(&format!("{}: {line}", file.display()));
    }
    output.finish_lists(lists)?;
    if !arrays.as_ref().is_some_and(NpyArrays::have_ids) {
        numbering.write(output.directory())?;
    }
    let mut meta = match arrays {
        Some(arrays) => arrays.write(&output)?,
        None => {
            let element = output.constant_features(nodes)?;
            output.splits(&[[]; 3])?;
            Meta { feat_dtype: Some(element.name().to_owned()), ..Meta::default() }
        }
    };
    meta.name = request.name(meta.name);
    meta.edge_feat_dtype = of_edges.map(|element| element.name().to_owned());
    output.finish(meta)
}

/// The nodes of a matrix: `known` ones, or its rows, numbered from 1.
fn of_matrix(
    matrix: &MatrixMarket,
    known: Option<Numbering>,
    file: &Path,
    request: &ImportRequest<'_>,
) -> Result<Numbering, GraphError> {
    let options = &request.options.edge_list;
    if options.ids == Ids::Name {
        let message = format!("{} is a MatrixMarket file, whose ids are numbers", file.display());
        return Err(GraphError::usage("ids=name", message));
    }
    let rows = matrix.nodes;
    if let Some(known) = &known
        && known.nodes() != rows
    {
        let message =
            format!("{}: the matrix has {rows} rows, but there are {} nodes", file.display(), known.nodes());
        return Err(GraphError::usage("SRC", message));
    }
    let mut note =
        format!("{} is a MatrixMarket file of {rows} rows, whose ids begin with 1", file.display());
    if matrix.symmetric {
        note += "; it is symmetric, so an entry off the diagonal is two edges";
    }
    (request.watch.note)(&note);
    match known {
        Some(Numbering::Integers(ids)) => Ok(Numbering::Integers(ids)),
        _ => Ok(Numbering::FromOne(NodeRange::new(rows, "the line of sizes"))),
    }
}

/// The error about a list without edges and without a known number of nodes.
fn no_edge(file: &Path, options: &EdgeList) -> GraphError {
    let comments =
        if options.comments { "; lines that begin with # or % are comments (`comments`=false)" } else { "" };
    let message = format!(
        "{} has no edges, and a dataset needs at least one node: give `nodes` for nodes without edges{comments}",
        file.display()
    );
    GraphError::usage("SRC", message)
}

/// The file with the edges, and the directory to search for arrays, if any.
fn found(source: &Path) -> Result<(PathBuf, Option<&Path>), GraphError> {
    if !source.is_dir() {
        return Ok((source.to_owned(), None));
    }
    let stems = STEMS.iter().flat_map(|stem| ENDINGS.map(|ending| format!("{stem}{ending}")));
    let mut there = stems.map(|name| source.join(name)).filter(|path| path.exists());
    match (there.next(), there.next()) {
        (Some(file), None) => Ok((file, Some(source))),
        (None, _) => {
            let message = format!(
                "{} has no edges.tsv, edges.csv or edges.txt, nor any of them with .gz or .zst: give the file itself",
                source.display()
            );
            Err(GraphError::usage("SRC", message))
        }
        (Some(first), Some(second)) => {
            let message =
                format!("both {} and {} exist: give one of them", first.display(), second.display());
            Err(GraphError::usage("SRC", message))
        }
    }
}

/// Reports the other texts of the source directory, which are not read.
fn say_other_texts(directory: &Path, file: &Path, request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let read = [file.file_name(), Some(names::NODE_NAMES.as_ref())];
    let mut left = Vec::new();
    for stem in ["tsv", "csv", "txt"] {
        for ending in ENDINGS {
            let is_read = |name: &str| read.contains(&Some(name.as_ref()));
            left.extend(unread_parts::files(directory, &format!(".{stem}{ending}"), is_read)?);
        }
    }
    unread_parts::say(request.watch.note, directory, &left);
    Ok(())
}

/// The nodes, and the number of edges.
fn survey(
    file: &Path,
    layout: &EdgeListLayout,
    request: &ImportRequest<'_>,
) -> Result<(Numbering, u64), GraphError> {
    let options = &request.options.edge_list;
    let mut reader = LineReader::new(options, layout);
    let mut survey = Survey::new(options.ids);
    let mut edges = 0;
    each_line(file, &|position| request.watch.at("nodes", position), |line, text| {
        if let Some(edge) = reader.edge(line, text)? {
            survey.see(&edge.source)?;
            survey.see(&edge.destination)?;
            edges += 1;
        }
        Ok::<(), LineError>(())
    })?;
    Ok((survey.finish(), edges))
}
