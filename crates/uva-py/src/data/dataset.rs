//! An open dataset: its metadata, its tables as arrays without a copy, and rows of them picked by id.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use uva_graph::ranges::RangeParts;
use uva_graph::{
    Dataset as Graph, GraphError, Indices, Labels, NodeType, PartitionSummary, Relation, Split, TableSchema,
    TypedDataset, Verify,
};
use uva_rows::{GatherError, HostPlace, MappedTable, RowSource};
use uva_runtime::options::input_nodes::{InputSeeds, TypeName};

use crate::arrays::array::Array;
use crate::arrays::dlpack::DlpackType;
use crate::arrays::elements::of_features;
use crate::arrays::input::Input;
use crate::arrays::table::PrivateTable;
use crate::errors::{OrRaise, UvatrainError, of_graph};

/// A dataset of docs/reference/data-format.md, checked and mapped. `uvatrain.Dataset` is the public class.
#[pyclass(frozen, name = "Dataset", module = "uvatrain._core")]
pub struct PyDataset {
    graph: Arc<Graph>,
    /// The tables with their names in Python.
    tables: Vec<(&'static str, PrivateTable)>,
}

/// Opens a dataset.
pub fn open(path: &Path, how: Verify) -> PyResult<Graph> {
    on_threads(|| Graph::open_verified(path, how))
}

/// Opens a dataset of any number of node types to make batches of it, as [`open`] does.
pub fn open_here(path: &Path, target: Option<&TypeName>, seeds: Option<&InputSeeds>) -> PyResult<Graph> {
    let dataset = on_threads(|| TypedDataset::open(path))?;
    let target = TypeName::target_with(target, seeds, &dataset).or_raise()?;
    dataset.for_batches(target).map_err(of_graph)
}

/// The graph of a partition in ranges with the rows of one part. Checks as [`open`] does.
pub fn open_divided(path: &Path, part: u32, how: Verify) -> PyResult<Graph> {
    on_threads(|| RangeParts::open(path, &[part], how)?.dataset(part))
}

/// The content of `partition.json` in `directory`: the training nodes of each part, and the layout of the parts, None for a map
/// without parts. Raises ValueError, with the key, if it is not a partition's.
#[pyfunction]
pub fn _read_partition(directory: PathBuf) -> PyResult<(Vec<u64>, Option<String>)> {
    let summary = PartitionSummary::read(&directory).map_err(of_graph)?;
    let layout = summary.layout().map(str::to_owned);
    Ok((summary.train, layout))
}

/// The meaning of `verify` in Python.
pub fn verify_of(verify: &str) -> PyResult<Verify> {
    match verify {
        "stamp" => Ok(Verify::Stamp),
        "full" => Ok(Verify::Full),
        "features" => Ok(Verify::FullWithFeatures),
        other => Err(PyValueError::new_err(format!(
            "verify={other:?}: expected \"stamp\", \"full\" or \"features\""
        ))),
    }
}

/// Calls `work` on threads made for this call: shared threads do not survive a fork.
pub fn on_threads<T: Send>(work: impl FnOnce() -> Result<T, GraphError> + Send) -> PyResult<T> {
    let pool = rayon::ThreadPoolBuilder::new()
        .build()
        .map_err(|error| UvatrainError::new_err(format!("no threads to check a dataset with: {error}")))?;
    pool.install(work).map_err(of_graph)
}

impl PyDataset {
    /// Wraps a dataset that is already open.
    pub fn of(graph: &Arc<Graph>) -> PyResult<Self> {
        Ok(Self { tables: Self::tables(graph)?, graph: Arc::clone(graph) })
    }

    /// The shape of the feature rows of all nodes.
    fn table(&self) -> PyResult<TableSchema> {
        match self.graph.is_homogeneous() {
            true => Ok(self.graph.table()),
            false => Err(PyValueError::new_err("the rows of a typed graph are those of each node type")),
        }
    }

    /// The dataset itself.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    fn tables(graph: &Graph) -> PyResult<Vec<(&'static str, PrivateTable)>> {
        if !graph.is_homogeneous() {
            // The tables are those of node types and relations.
            return Ok(Vec::new());
        }
        let csc = graph.csc();
        let (nodes, edges) = (csc.nodes(), csc.edges());
        let indices = match csc.indices {
            Indices::I32(_) => DlpackType::I32,
            Indices::I64(_) => DlpackType::I64,
        };
        let features = graph.table();
        let labels = match graph.labels() {
            Labels::Absent => None,
            Labels::Single(_) => Some((None, DlpackType::I64)),
            Labels::Multi { classes, .. } => Some((Some(classes), DlpackType::U8)),
            Labels::Regression { columns, .. } => Some((columns, DlpackType::F32)),
        };
        // In format 2, the only type and the only relation have directories.
        let of_nodes = graph.directory_of_type(NodeType::ONLY);
        let of_edges = graph.directory_of_relation(Relation::ONLY);
        let edge_features = if graph.metagraph().is_named() { "feat.npy" } else { "edge_feat.npy" };
        let mut wanted = vec![
            ("indptr", of_edges.join("indptr.npy"), nodes + 1, None, DlpackType::I64),
            ("indices", of_edges.join("indices.npy"), edges, None, indices),
        ];
        if graph.own_rows().is_none() {
            wanted.push((
                "features",
                of_nodes.join("feat.npy"),
                nodes,
                Some(features.dim),
                of_features(features.element),
            ));
        }
        if let Some((columns, element)) = labels {
            wanted.push(("labels", of_nodes.join("label.npy"), nodes, columns, element));
        }
        for split in Split::ALL {
            let name = ["train_idx", "valid_idx", "test_idx"][split as usize];
            let file = graph.split_file(NodeType::ONLY, split);
            // In format 2, each split may be absent.
            if !graph.metagraph().is_named() || file.is_file() {
                wanted.push((name, file, graph.split(split).len(), None, DlpackType::I64));
            }
        }
        if graph.weights().is_some() {
            wanted.push(("weight", of_edges.join("weight.npy"), edges, None, DlpackType::F32));
        }
        if let Some(table) = graph.edge_features() {
            let element = of_features(table.element);
            wanted.push(("edge_attr", of_edges.join(edge_features), edges, Some(table.dim), element));
        }
        if graph.edge_types().is_some() {
            wanted.push(("edge_type", of_edges.join("edge_type.npy"), edges, None, DlpackType::U16));
        }
        if graph.original_ids().is_some() {
            wanted.push(("orig_id", of_nodes.join("orig_id.npy"), nodes, None, DlpackType::I64));
        }
        let table = |(name, file, rows, columns, element): (_, PathBuf, _, _, _)| {
            PrivateTable::map(&file, rows, columns, element).map(|table| (name, table))
        };
        wanted.into_iter().map(table).collect()
    }
}

#[pymethods]
impl PyDataset {
    /// Opens the dataset in the directory `path`.
    ///
    /// verify: "stamp": everything but feature values, the pass over the edges only where no stamp says that these
    /// files have been checked; "full": that pass in any case; "features": feature values too (`uvatrain info
    /// --verify`).
    #[new]
    #[pyo3(signature = (path, verify="stamp"))]
    fn new(py: Python<'_>, path: PathBuf, verify: &str) -> PyResult<Self> {
        let how = verify_of(verify)?;
        py.detach(|| {
            let graph = Arc::new(open(&path, how)?);
            Self::of(&graph)
        })
    }

    /// The directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.graph.path().to_owned()
    }

    /// The name in meta.json, else the directory's.
    #[getter]
    fn name(&self) -> &str {
        self.graph.name()
    }

    /// Number of nodes.
    #[getter]
    fn num_nodes(&self) -> usize {
        self.graph.nodes()
    }

    /// Number of edges; both directions of an undirected edge count.
    #[getter]
    fn num_edges(&self) -> usize {
        self.graph.edges()
    }

    /// Number of values in a feature row.
    #[getter]
    fn feature_dim(&self) -> PyResult<usize> {
        Ok(self.table()?.dim)
    }

    /// The type of a feature value: float32, float16, bfloat16, float8_e4m3fn, uint8 or int8.
    #[getter]
    fn feature_dtype(&self) -> PyResult<&'static str> {
        Ok(of_features(self.table()?.element).name())
    }

    /// Number of classes; 0 if no node has a class.
    #[getter]
    fn num_classes(&self) -> usize {
        self.graph.classes()
    }

    /// Whether a node may have several classes: labels are then uint8 [nodes, classes].
    #[getter]
    fn multi_label(&self) -> bool {
        matches!(self.graph.labels(), Labels::Multi { .. })
    }

    /// Number of values to predict per node if labels are float32 targets of regression; else None.
    #[getter]
    fn num_targets(&self) -> Option<usize> {
        self.graph.labels().regression_columns()
    }

    /// The fingerprint of the content, 16 hex digits; it does not depend on path or name.
    #[getter]
    fn fingerprint(&self) -> String {
        self.graph.fingerprint()
    }

    /// The content of meta.json, as JSON.
    #[getter]
    fn meta(&self) -> PyResult<String> {
        serde_json::to_string(self.graph.meta())
            .map_err(|error| UvatrainError::new_err(format!("meta.json: {error}")))
    }

    /// Numbers of nodes of the splits: (train, valid, test).
    #[getter]
    fn split_lengths(&self) -> (usize, usize, usize) {
        let length = |split| self.graph.split(split).len();
        (length(Split::Train), length(Split::Valid), length(Split::Test))
    }

    /// The ids (first, end) of the nodes whose feature rows this rank has, if other ranks have the others; else None.
    #[getter]
    fn own_rows(&self) -> Option<(u64, u64)> {
        let own = self.graph.own_rows()?.nodes();
        Some((own.start, own.end))
    }

    /// One of the tables without a copy; None if the dataset has no such table.
    fn array(&self, name: &str) -> Option<Array> {
        self.tables.iter().find(|(of, _)| *of == name).map(|(_, table)| table.lent())
    }

    /// Copies rows of "features" or "labels" to `out`: `out[i]` is the row of node `ids[i]`. ids is int64 [n].
    fn gather(
        &self,
        py: Python<'_>,
        table: &str,
        ids: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let labels = self.graph.labels();
        let (bytes, row_bytes) = match (table, self.graph.feature_rows()) {
            ("features", None) => {
                return Err(UvatrainError::new_err(
                    "the feature table is divided among ranks: batches have rows of it",
                ));
            }
            ("features", Some(rows)) => (rows.bytes, rows.row_bytes()),
            ("labels", _) => (labels.bytes(), labels.row_bytes()),
            (other, _) => {
                return Err(PyValueError::new_err(format!(
                    "table {other:?} is not \"features\" or \"labels\""
                )));
            }
        };
        let ids = Input::new("ids", ids)?;
        let mut out = Input::new("out", out)?;
        let (Some(ids), 1) = (ids.as_i64(), ids.shape.len()) else {
            return Err(PyValueError::new_err(format!("ids is {}, but must be int64 [n]", ids.describe())));
        };
        let described = out.describe();
        // SAFETY: our own Python (pyg/stores.py) allocated `out` for this call, and no other code has it yet.
        let Some(out) = (unsafe { out.bytes_mut() }) else {
            return Err(PyValueError::new_err("out cannot be written to"));
        };
        py.detach(|| {
            MappedTable::new(bytes, row_bytes, 1).and_then(|mut table| table.fill(ids, HostPlace::new(out)))
        })
        .map(drop)
        .map_err(|error| match error {
            GatherError::IdOutOfRange { position, id, rows } => PyIndexError::new_err(format!(
                "entry {position} is node {id}, but the graph's nodes are 0 to {}",
                rows as i64 - 1
            )),
            other => PyValueError::new_err(format!("out is {described}: {other}")),
        })
    }
}
