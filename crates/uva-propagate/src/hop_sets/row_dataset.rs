//! A hop set as a dataset of rows, the form that a run uses.

use std::path::Path;

use uva_graph::npy::NpyArray;
use uva_graph::{Dataset, GraphError, HopPlace, HopRows, Split, Verify, hash};

use crate::hop_sets::description::{FILE_NAME, HopSet, LABELS, NODE_IDS, SourceDataset};
use crate::options::Layout;

#[derive(Debug, thiserror::Error)]
#[error(
    "operators have different numbers of hops: training on all of them requires the same number for each"
)]
struct UnequalHops;

impl HopSet {
    /// Opens the hop set at `path` as a dataset whose nodes are its rows ([`Dataset::hops`]). Checks `hops.json`, the
    /// shapes of all files and, unless `how` omits content, the labels.
    ///
    /// # Errors
    /// As [`HopSet::open`]; about the first wrong label; for operators with different numbers of hops.
    pub fn open_dataset(path: &Path, how: Verify) -> Result<Dataset, GraphError> {
        let set = HopSet::open(path)?;
        let hops = set.operators.iter().map(|operator| operator.hops);
        if hops.clone().min() != hops.max() {
            return Err(GraphError::invalid(&path.join(FILE_NAME), UnequalHops));
        }
        let open = |name: &str| NpyArray::open(&path.join(name));
        let element = set.dtype.element();
        let row_bytes = set.dim * set.dtype.bytes();
        let place = |hop| match set.layout {
            Layout::Hops => HopPlace { array: hop, first: 0, stride: row_bytes },
            Layout::Rows => HopPlace { array: 0, first: hop * row_bytes, stride: set.hops() * row_bytes },
        };
        let labels = set.files.contains_key(LABELS).then(|| open(LABELS)).transpose()?;
        let rows = HopRows {
            path: path.to_owned(),
            name: set.dataset.name.clone(),
            fingerprint: set.fingerprint(),
            classes: set.classes,
            dim: set.dim,
            element,
            nodes: open(NODE_IDS)?,
            labels,
            splits: Split::ALL.map(|split| {
                let [first, end] = set.split(split.name());
                first..end
            }),
            arrays: set.hop_files().iter().map(|name| open(name)).collect::<Result<_, _>>()?,
            hops: (0..set.hops()).map(place).collect(),
            operators: set.operators.len(),
        };
        Dataset::of_hops(rows, how)
    }

    /// Opens the dataset or the hop set at `path`.
    ///
    /// # Errors
    /// As [`open_dataset`](Self::open_dataset) and [`Dataset::open_verified`].
    pub fn open_either(path: &Path, how: Verify) -> Result<Dataset, GraphError> {
        Self::open_or(path, how, || Dataset::open_verified(path, how))
    }

    /// Opens the hop set at `path`, or what `open` opens if there is none.
    ///
    /// # Errors
    /// As [`open_dataset`](Self::open_dataset), and those of `open`.
    pub fn open_or<E: From<GraphError>>(
        path: &Path,
        how: Verify,
        open: impl FnOnce() -> Result<Dataset, E>,
    ) -> Result<Dataset, E> {
        if Self::is_at(path) { Ok(Self::open_dataset(path, how)?) } else { open() }
    }

    /// 16 hex digits that identify the content: a hash of `hops.json` without the dataset's name, the program that made
    /// it, and its duration. So the hash of every file counts.
    pub fn fingerprint(&self) -> String {
        let dataset = SourceDataset { name: String::new(), ..self.dataset.clone() };
        let content = HopSet { dataset, made_by: String::new(), seconds: 0.0, ..self.clone() };
        // Keys are in the order of the fields, or sorted.
        let text = serde_json::to_vec(&content).unwrap_or_default();
        format!("{:016x}", hash::of_array(0, &text))
    }
}
