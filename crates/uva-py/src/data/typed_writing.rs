//! A typed dataset written from arrays: types and shapes are checked before, everything else after the arrays are
//! written, and the dataset appears only if both checks succeed.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyFileExistsError, PyValueError};
use pyo3::prelude::*;
use uva_graph::csc::CscBuilder;
use uva_graph::npy::NpyType;
use uva_graph::typed_meta::NodeTypeMeta;
use uva_graph::{GraphError, Meta, NodeType, Relation, TypedDataset, Verify, names};
use uva_io::typed::{EdgeColumn, EdgeColumns, GraphPlan, RelationPlan, Reversal, TypedWriter};

use crate::arrays::input::Input;
use crate::data::dataset::on_threads;
use crate::data::writing::{
    As, about, check_types, labels_wanted, rows_of_features, rows_of_labels, unnamed, write_array,
};
use crate::errors::of_graph;

/// Memory for the edges of a relation.
const EDGE_MEMORY: u64 = 1 << 30;

const FEATURES_WANTED: &str = "float32, float16, bfloat16, float8_e4m3fn, uint8 or int8";

/// The arguments of a node type that are integers, their files, and the argument whose length they have; the nodes',
/// if none.
const NODE_INTEGERS: [(&str, &str, Option<&str>); 8] = [
    ("train_idx", "train_idx.npy", Some("train_idx")),
    ("valid_idx", "valid_idx.npy", Some("valid_idx")),
    ("test_idx", "test_idx.npy", Some("test_idx")),
    ("train_time", "train_time.npy", Some("train_idx")),
    ("valid_time", "valid_time.npy", Some("valid_idx")),
    ("test_time", "test_time.npy", Some("test_idx")),
    ("time", names::TIMES, None),
    ("orig_id", names::ORIGINAL_IDS, None),
];

/// A node type: name, number of nodes if given, number of classes if given, and arrays with their names.
type NodeArgument<'py> = (String, Option<u64>, Option<u64>, Vec<(String, Bound<'py, PyAny>)>);

/// A relation: names, arrays with their names, how its reverse edges are added, and whether edge ids are written.
type EdgeArgument<'py> = ([String; 3], Vec<(String, Bound<'py, PyAny>)>, Option<String>, bool);

/// Writes a typed dataset to the directory `path`. `meta` has the other keys of meta.json. Before anything is written,
/// `warn` is called with each conversion of an array.
#[pyfunction]
pub fn write_typed_dataset(
    py: Python<'_>,
    path: PathBuf,
    graph: (Vec<NodeArgument<'_>>, Vec<EdgeArgument<'_>>, Option<String>),
    meta: &str,
    overwrite: bool,
    warn: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let meta: Meta = serde_json::from_str(meta)
        .map_err(|error| PyValueError::new_err(format!("the content of meta.json: {error}")))?;
    let (nodes, edges, target) = graph;
    let types = nodes.into_iter().map(Nodes::new).collect::<PyResult<Vec<_>>>()?;
    let relations = edges.into_iter().map(Edges::new).collect::<PyResult<Vec<_>>>()?;
    if !overwrite && path.symlink_metadata().is_ok() {
        let message = format!("{}: it already exists; overwrite=True replaces it", path.display());
        return Err(PyFileExistsError::new_err(message));
    }
    let of_nodes = types.iter().flat_map(|nodes| &nodes.files).map(|file| (&file.input, file.how));
    let of_edges = relations.iter().flat_map(|edges| &edges.columns).map(|file| (&file.input, file.how));
    for (input, how) in of_nodes.chain(of_edges) {
        if matches!(how, As::Narrow) {
            warn.call1((format!("{} is {}: float64 becomes float32", input.name, input.describe()),))?;
        }
    }
    py.detach(|| write(&path, &types, &relations, target, meta, overwrite))
}

/// An array to write.
struct Column {
    input: Input,
    file: String,
    how: As,
}

fn refuse<T>(input: &Input, wanted: &str) -> PyResult<T> {
    Err(PyValueError::new_err(format!("{} is {}, but must be {wanted}", input.name, input.describe())))
}

/// The arrays of `place`, whose names in messages are `place["NAME"]`.
fn inputs(place: &str, arrays: &[(String, Bound<'_, PyAny>)]) -> PyResult<Vec<(String, Input)>> {
    let input = |(name, array): &(String, Bound<'_, PyAny>)| {
        Ok((name.clone(), Input::new(&format!("{place}[{name:?}]"), array)?))
    };
    arrays.iter().map(input).collect()
}

/// An array of the user's own, of a type that `.npy` has a name for.
fn own(name: &str, input: Input, rows: usize) -> PyResult<Column> {
    let kind = match input.kind.name() {
        "bool" => Some(NpyType::Bool),
        "int8" => Some(NpyType::I8),
        "int16" => Some(NpyType::I16),
        "int32" => Some(NpyType::I32),
        "int64" => Some(NpyType::I64),
        "uint8" => Some(NpyType::U8),
        "uint16" => Some(NpyType::U16),
        "uint32" => Some(NpyType::U32),
        "uint64" => Some(NpyType::U64),
        "float16" => Some(NpyType::F16),
        "float32" => Some(NpyType::F32),
        "float64" => Some(NpyType::F64),
        _ => None,
    };
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
    let fits =
        matches!(input.shape[..], [found] | [found, _] if found == rows) && !input.shape[1..].contains(&0);
    match kind {
        Some(kind) if fits && is_name => {
            Ok(Column { input, file: format!("{name}.npy"), how: As::Bytes(kind) })
        }
        _ => refuse(
            &input,
            &format!("numbers [{rows}] or [{rows}, columns], under a name of letters, digits, _ and -"),
        ),
    }
}

/// A node type whose arrays have been checked.
struct Nodes {
    meta: NodeTypeMeta,
    files: Vec<Column>,
}

impl Nodes {
    fn new((name, num, classes, arrays): NodeArgument<'_>) -> PyResult<Self> {
        let place = format!("nodes[{name:?}]");
        let mut inputs = inputs(&place, &arrays)?;
        let of_rows = |name: &str| ["features", "labels", "time", "orig_id"].contains(&name);
        let counted = inputs.iter().find(|(name, input)| of_rows(name) && !input.shape.is_empty());
        let Some(num) = num.or(counted.map(|(_, input)| input.shape[0] as u64)) else {
            let message = format!(
                "{place} has no features, labels or time with a row for each node: give num_nodes, the number of nodes"
            );
            return Err(PyValueError::new_err(message));
        };
        let nodes = num as usize;
        let mut meta = GraphPlan::node_type(name, num);
        meta.classes = classes;
        let length = |of: &str| inputs.iter().find(|(name, _)| name == of).map(|(_, input)| input.elements());
        let lengths: Vec<Option<usize>> =
            NODE_INTEGERS.iter().map(|(_, _, of)| of.map_or(Some(nodes), length)).collect();
        let mut files = Vec::new();
        for (argument, input) in inputs.drain(..) {
            if let Some(row) = NODE_INTEGERS.iter().position(|(name, ..)| *name == argument) {
                let (_, file, _) = NODE_INTEGERS[row];
                if !input.is_integer() || input.shape.len() != 1 || lengths[row] != Some(input.shape[0]) {
                    let length =
                        lengths[row].map_or("nodes of the split".to_owned(), |length| length.to_string());
                    return refuse(&input, &format!("integers [{length}]"));
                }
                files.push(Column { input, file: file.to_owned(), how: As::Wide });
                continue;
            }
            let (how, file, wanted) = match argument.as_str() {
                "features" => {
                    meta.feat_dtype = unnamed(input.kind).map(|element| element.name().to_owned());
                    let wanted = format!("{FEATURES_WANTED} [{nodes}, features]");
                    (rows_of_features(&input, nodes), names::FEATURES, wanted)
                }
                "labels" => (rows_of_labels(&input, nodes), names::LABELS, labels_wanted(nodes)),
                _ => {
                    files.push(own(&argument, input, nodes)?);
                    continue;
                }
            };
            let Some(how) = how else { return refuse(&input, &wanted) };
            files.push(Column { input, file: file.to_owned(), how });
        }
        Ok(Self { meta, files })
    }
}

/// A relation whose arrays have been checked, except the ids of its ends.
struct Edges {
    plan: RelationPlan,
    ends: EdgeEnds,
    columns: Vec<Column>,
    edge_ids: bool,
}

/// The ends of the edges, in the order of the user.
enum EdgeEnds {
    /// [2, edges]: sources, then destinations.
    Pairs(Input),
    Lists {
        indptr: Input,
        indices: Input,
    },
}

impl Edges {
    fn new((names, arrays, reverse, edge_ids): EdgeArgument<'_>) -> PyResult<Self> {
        let full_name = names.join("__");
        let place = format!("edges[{full_name:?}]");
        let mut inputs = inputs(&place, &arrays)?;
        let mut take = |name: &str| {
            let found = inputs.iter().position(|(of, _)| of == name);
            found.map(|at| inputs.remove(at).1)
        };
        let ends = match (take("edge_index"), take("indptr"), take("indices")) {
            (Some(edges), None, None) => {
                if !edges.is_integer() || edges.shape.len() != 2 || edges.shape[0] != 2 {
                    return refuse(&edges, "integers [2, edges]: sources, then destinations");
                }
                EdgeEnds::Pairs(edges)
            }
            (None, Some(indptr), Some(indices)) => {
                if !indptr.is_integer() || indptr.shape.len() != 1 || indptr.shape[0] == 0 {
                    return refuse(&indptr, "integers [destinations + 1]");
                }
                if !indices.is_integer() || indices.shape.len() != 1 {
                    return refuse(&indices, "integers [edges]");
                }
                EdgeEnds::Lists { indptr, indices }
            }
            _ => {
                let message = format!("{place}: expected edge_index, or indptr and indices");
                return Err(PyValueError::new_err(message));
            }
        };
        let edges = match &ends {
            EdgeEnds::Pairs(edges) => edges.shape[1],
            EdgeEnds::Lists { indices, .. } => indices.shape[0],
        };
        let reversal = match reverse.as_deref() {
            None => Reversal::None,
            Some("separate") => Reversal::Separate,
            Some("same") => Reversal::Same,
            Some(other) => {
                let message = format!("{place}: reverse={other:?}: expected True, False or \"same\"");
                return Err(PyValueError::new_err(message));
            }
        };
        let mut plan = RelationPlan::new(names.each_ref().map(String::as_str), reversal);
        let mut columns = Vec::new();
        for (argument, input) in inputs {
            let (how, file, wanted) = match argument.as_str() {
                "weight" => {
                    let how = rows_of_labels(&input, edges).filter(|how| !matches!(how, As::Wide));
                    let how = how.filter(|_| input.shape.len() == 1);
                    (how, self::names::WEIGHTS, format!("float32 [{edges}]"))
                }
                "time" | "edge_id" => {
                    let fits = input.is_integer() && input.shape == [edges];
                    let file = if argument == "time" { self::names::TIMES } else { self::names::EDGE_IDS };
                    (fits.then_some(As::Wide), file, format!("integers [{edges}]"))
                }
                "edge_type" => {
                    let fits = input.is_integer() && input.shape == [edges];
                    if fits {
                        check_types(&input)?;
                    }
                    (fits.then_some(As::Types), self::names::EDGE_TYPES, format!("integers [{edges}]"))
                }
                "features" => {
                    plan.meta.feat_dtype = unnamed(input.kind).map(|element| element.name().to_owned());
                    let wanted = format!("{FEATURES_WANTED} [{edges}, features]");
                    (rows_of_features(&input, edges), self::names::FEATURES, wanted)
                }
                _ => {
                    columns.push(own(&argument, input, edges)?);
                    continue;
                }
            };
            let Some(how) = how else { return refuse(&input, &wanted) };
            columns.push(Column { input, file: file.to_owned(), how });
        }
        // Ids of the user's own take the place of the rows of the table.
        let edge_ids = (edge_ids || reversal != Reversal::None)
            && columns.iter().all(|column| column.file != self::names::EDGE_IDS);
        Ok(Self { plan, ends, columns, edge_ids })
    }
}

fn write(
    path: &Path,
    types: &[Nodes],
    relations: &[Edges],
    target: Option<String>,
    meta: Meta,
    overwrite: bool,
) -> PyResult<()> {
    let plan = GraphPlan {
        nodes: types.iter().map(|nodes| nodes.meta.clone()).collect(),
        relations: relations.iter().map(|edges| edges.plan.clone()).collect(),
        target,
    };
    let mut writer = match overwrite {
        true => TypedWriter::replacing(path, plan, EDGE_MEMORY),
        false => TypedWriter::new(path, plan, EDGE_MEMORY),
    }
    .map_err(of_graph)?;
    let staged = writer.directory().to_owned();
    let written = on_threads(|| {
        for (number, nodes) in (0..).zip(types) {
            for column in &nodes.files {
                write_array(&writer.node_file(NodeType(number), &column.file), &column.input, column.how)?;
            }
        }
        for (number, edges) in (0..).zip(relations) {
            write_edges(&mut writer, Relation(number), edges)?;
        }
        // As in `uvatrain info --verify`, before the directory is renamed.
        let check = |path: &Path| TypedDataset::open_verified(path, Verify::FullWithFeatures).map(drop);
        writer.finish(meta, &check)
    });
    written.map_err(|error| about(error, &staged, path))
}

/// The elements of an array of integers as int64, copied only where they are narrower.
fn integers(input: &Input) -> Cow<'_, [i64]> {
    if let Some(values) = input.as_i64() {
        return Cow::Borrowed(values);
    }
    let mut all = Vec::with_capacity(input.elements());
    let _ = input.widened(|values| {
        all.extend_from_slice(values);
        Ok::<_, GraphError>(())
    });
    Cow::Owned(all)
}

/// The bytes of a column as its file has them, with their type.
fn stored(column: &Column) -> (NpyType, Cow<'_, [u8]>) {
    let input = &column.input;
    match column.how {
        As::Bytes(kind) => (kind, Cow::Borrowed(input.bytes())),
        As::Wide => (NpyType::I64, bytes_of(integers(input))),
        As::Narrow => {
            let values = bytemuck::cast_slice::<u8, f64>(input.bytes()).iter();
            (NpyType::F32, bytes_of(Cow::Owned(values.map(|&value| value as f32).collect::<Vec<f32>>())))
        }
        As::Types => {
            let types: Vec<u16> = integers(input).iter().map(|&value| value as u16).collect();
            (NpyType::U16, bytes_of(Cow::Owned(types)))
        }
    }
}

fn bytes_of<T: bytemuck::NoUninit>(values: Cow<'_, [T]>) -> Cow<'_, [u8]> {
    match values {
        Cow::Borrowed(values) => Cow::Borrowed(bytemuck::cast_slice(values)),
        Cow::Owned(values) => Cow::Owned(bytemuck::cast_slice(&values).to_vec()),
    }
}

fn write_edges(writer: &mut TypedWriter, relation: Relation, edges: &Edges) -> Result<(), GraphError> {
    let stored: Vec<_> = edges.columns.iter().map(|column| (column, stored(column))).collect();
    let mut table = EdgeColumns { edge_ids: edges.edge_ids, ..EdgeColumns::default() };
    for (column, (kind, bytes)) in &stored {
        let row = EdgeColumn::of_bytes(column.file.as_str(), *kind, &column.input.shape[1..], bytes);
        match column.file.as_str() {
            names::FEATURES => table.features = Some(row),
            names::TIMES => table.times = Some(row),
            _ => table.columns.push(row),
        }
    }
    let metagraph = writer.metagraph();
    let [source, destination] = [metagraph.source(relation), metagraph.destination(relation)]
        .map(|node_type| metagraph.type_name(node_type).to_owned());
    let ends = writer.ends(relation);
    let checked = |input: &Input, values: &[i64], first: usize, (name, nodes): (&str, u64)| match values
        .iter()
        .position(|id| id.cast_unsigned() >= nodes)
    {
        None => Ok(()),
        Some(at) => {
            let outside = uva_graph::verify::outside(nodes);
            let message = format!("entry {} is {}, of {name}, {outside}", first + at, values[at]);
            Err(GraphError::usage(&input.name, message))
        }
    };
    let (of_source, of_destination) = ((&*source, ends.sources), (&*destination, ends.destinations));
    let push: &mut dyn FnMut(&mut CscBuilder) -> Result<(), GraphError> = &mut |lists| match &edges.ends {
        EdgeEnds::Pairs(input) => {
            let values = integers(input);
            let (sources, destinations) = values.split_at(input.shape[1]);
            checked(input, sources, 0, of_source)?;
            checked(input, destinations, sources.len(), of_destination)?;
            let mut pairs = sources.iter().zip(destinations);
            pairs.try_for_each(|(&from, &to)| lists.push(from.cast_unsigned(), to.cast_unsigned(), 0.0))
        }
        EdgeEnds::Lists { indptr, indices } => {
            let (bounds, values) = (integers(indptr), integers(indices));
            let rises = bounds.windows(2).all(|pair| pair[0] <= pair[1]);
            let fits = bounds[0] == 0 && bounds.last() == Some(&(values.len() as i64)) && rises;
            if !fits || bounds.len() as u64 != ends.destinations + 1 {
                let message = format!(
                    "it has to be [{} + 1], from 0 up to the {} entries of indices, for each {destination}",
                    ends.destinations,
                    values.len()
                );
                return Err(GraphError::usage(&indptr.name, message));
            }
            checked(indices, &values, 0, of_source)?;
            for (owner, pair) in (0..).zip(bounds.windows(2)) {
                for &id in &values[pair[0] as usize..pair[1] as usize] {
                    lists.push(id.cast_unsigned(), owner, 0.0)?;
                }
            }
            Ok(())
        }
    };
    writer.relation(relation, &table, &|_| {}, push).map(drop)
}
