//! One line per edge: source, tab, destination, and, for weighted graphs, tab and weight. Ids are those that an import
//! has kept in `node_id.npy` or `node_names.txt`, else the nodes' numbers. Names are quoted if they would otherwise be
//! read differently. Edge features and types are in the order of the lines.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use uva_graph::npy::{NpyArray, NpyType};
use uva_graph::{GraphError, Progress, names};
use uva_mem::MappedFile;

use super::export_files::{CHUNK, Export, pairs};
use super::exporter::Exporter;
use crate::import::{check_ids, check_names};

#[derive(Debug, thiserror::Error)]
enum NamesProblem {
    #[error("it has {found} lines, there are {nodes} nodes")]
    Lines { found: usize, nodes: usize },
}

/// The names of the nodes.
enum NodeIds {
    Numbers,
    Integers(Vec<i64>),
    Names(Vec<Vec<u8>>),
}

/// The row in the table.
pub(super) const EXPORTER: Exporter = Exporter {
    name: "edgelist",
    help: "edges.tsv with one edge per line, and .npy files",
    has_lines: true,
    omits: &[],
    write,
    write_types: None,
};

fn write(export: &Export<'_>) -> Result<Vec<&'static str>, GraphError> {
    let gzip = export.options.gzip;
    let ids = ids(export)?;
    let path = export.to.join(if gzip { "edges.tsv.gz" } else { "edges.tsv" });
    let file = File::create_new(&path).map_err(GraphError::io(&path, "create"))?;
    let file = BufWriter::with_capacity(1 << 18, file);
    let written = if gzip {
        // Two buffers: uncompressed input, and output.
        let mut encoder = BufWriter::with_capacity(1 << 16, GzEncoder::new(file, Compression::default()));
        lines(export, &ids, &mut encoder)
            .and_then(|()| encoder.into_inner().map_err(io::IntoInnerError::into_error))
            .and_then(|encoder| encoder.finish()?.flush())
    } else {
        let mut file = file;
        lines(export, &ids, &mut file).and_then(|()| file.flush())
    };
    written.map_err(GraphError::io(&path, "write"))?;
    export.copy_arrays()?;
    export.copy(&[], &[names::EDGE_FEATURES, names::EDGE_TYPES])?;
    let mut to_import = Vec::new();
    if matches!(ids, NodeIds::Names(_)) {
        // Names may look like a header, and contain other separators.
        to_import.extend(["--ids", "name", "--separator", "tab", "--skip-lines", "0"]);
    }
    if export.dataset.weights().is_some() {
        to_import.extend(["--third-column", "weight"]);
    }
    Ok(to_import)
}

fn ids(export: &Export<'_>) -> Result<NodeIds, GraphError> {
    let nodes = export.dataset.nodes();
    let directory = export.dataset.path();
    let (of_integers, of_names) = (directory.join(names::NODE_IDS), directory.join(names::NODE_NAMES));
    if of_integers.exists() {
        let array = NpyArray::open(&of_integers)?;
        if array.shape() != [nodes] {
            return Err(array.wrong_shape(format!("[{nodes}], one id for each node")));
        }
        let ids = array.elements::<i64>(NpyType::I64)?.to_vec();
        check_ids(&of_integers, &ids)?;
        return Ok(NodeIds::Integers(ids));
    }
    if of_names.exists() {
        // The file grows with the number of nodes, so it is mapped instead of read into memory.
        let file = MappedFile::open(&of_names).map_err(GraphError::io(&of_names, "open"))?;
        let text = file.bytes().strip_suffix(b"\n").unwrap_or(file.bytes());
        let names: Vec<Vec<u8>> = text.split(|&c| c == b'\n').map(<[u8]>::to_vec).collect();
        if names.len() != nodes {
            return Err(GraphError::invalid(&of_names, NamesProblem::Lines { found: names.len(), nodes }));
        }
        check_names(&of_names)?;
        return Ok(NodeIds::Names(names));
    }
    Ok(NodeIds::Numbers)
}

/// The name as a column, in quotes of RFC 4180 if it would otherwise be read back differently.
fn quoted(name: &[u8]) -> Cow<'_, [u8]> {
    let blank = |c: Option<&u8>| c.is_none_or(u8::is_ascii_whitespace);
    let comment = matches!(name.first(), Some(b'#' | b'%'));
    let divided = name.iter().any(|c| matches!(c, b'\t' | b'"' | b'\r'));
    if !comment && !divided && !blank(name.first()) && !blank(name.last()) {
        return Cow::Borrowed(name);
    }
    let mut column = vec![b'"'];
    for &c in name {
        column.extend(std::iter::repeat_n(c, if c == b'"' { 2 } else { 1 }));
    }
    column.push(b'"');
    Cow::Owned(column)
}

fn lines(export: &Export<'_>, ids: &NodeIds, file: &mut impl Write) -> io::Result<()> {
    let csc = export.dataset.csc();
    let weights = export.dataset.weights();
    let id = |file: &mut dyn Write, node: i64| match ids {
        NodeIds::Numbers => write!(file, "{node}"),
        NodeIds::Integers(ids) => write!(file, "{}", ids[node as usize]),
        NodeIds::Names(names) => file.write_all(&quoted(&names[node as usize])),
    };
    for (edge, (source, destination)) in pairs(csc).enumerate() {
        id(file, source)?;
        file.write_all(b"\t")?;
        id(file, destination)?;
        if let Some(weights) = weights {
            // The shortest text that parses to the same number.
            write!(file, "\t{}", weights[edge])?;
        }
        file.write_all(b"\n")?;
        if edge.is_multiple_of(CHUNK) {
            (export.progress)(Progress { stage: "edges", done: edge as u64, total: csc.edges() as u64 });
        }
    }
    Ok(())
}
