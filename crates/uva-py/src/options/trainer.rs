//! The options of `python -m uvatrain.train`: those of `uvatrain train` and of loaders that it has, and of its ranks.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use uva_graph::TypedDataset;
use uva_launch::training::{
    OF_HOP_SETS, TrainingOptions, give_model_of_typed_graphs, of_no_use_with_a_hop_set,
    of_no_use_without_a_hop_set, of_one_relation,
};
use uva_runtime::options::hop_options::{HopOptions, HopRowsPlace, Shuffle};
use uva_runtime::tune::planning::CacheOptions;
use uva_runtime::{DiskReader, LoaderOptions};

use uva_runtime::spec::{Field, OptionError, Options, PartialOptions, Spelling, ValueKind};
use uva_sample::SamplerKind;

use crate::errors::{of_graph, of_launched};
use crate::options::described::described;
use crate::options::keywords::of_text;
use crate::options::ranks::{RankOptions, TrainerRankOptions};

/// The longest timeout: beyond that, waits overflow.
const MOST_SECONDS: f64 = 1e6;

/// Options of one struct, and which of them the trainer has.
trait TrainerFields: Options {
    fn takes(name: &str) -> bool;
}

impl TrainerFields for TrainingOptions {
    fn takes(name: &str) -> bool {
        // Evaluation is on sampled neighbours; threads are PyTorch's.
        let others = [
            "loss_every",
            "eval",
            "overwrite_checkpoint",
            "aggregate",
            "train_threads",
            "matmul_precision",
            "cores",
        ];
        // Trained rows of node types have one owner.
        !others.contains(&name) && !["embedding_dim", "embedding_init"].contains(&name)
    }
}

impl TrainerFields for LoaderOptions {
    fn takes(name: &str) -> bool {
        let sampling = ["edge_attr", "fanouts", "replace", "sampler_kind"];
        let both = ["batch_size", "drop_last", "seed", "samplers", "gather_threads", "slots", "reader"];
        sampling.contains(&name) || both.contains(&name)
    }
}

impl TrainerFields for HopOptions {
    fn takes(_: &str) -> bool {
        true
    }
}

impl TrainerFields for CacheOptions {
    fn takes(name: &str) -> bool {
        name == "gpu_cache"
    }
}

impl TrainerFields for RankOptions {
    fn takes(name: &str) -> bool {
        ["graph", "remote_cache", "gpu_cache_share"].contains(&name)
    }
}

impl TrainerFields for TrainerRankOptions {
    fn takes(_: &str) -> bool {
        true
    }
}

/// The names that an option accepts here, where they are fewer than the loader's: kinds whose picks weigh the same, and
/// places that each rank has.
fn accepted(field: &Field) -> Option<Vec<&'static str>> {
    match field.name {
        "sampler_kind" => Some(vec![SamplerKind::NEIGHBOR.name(), SamplerKind::LABOR.name()]),
        "place" => {
            Some(vec![HopRowsPlace::Auto.name(), HopRowsPlace::Host.name(), HopRowsPlace::Disk.name()])
        }
        _ => None,
    }
}

/// What is done with the options of each struct.
trait Visitor {
    fn visit<O: TrainerFields>(&mut self, field: &'static Field) -> PyResult<()>;
}

fn visit_all(visitor: &mut impl Visitor) -> PyResult<()> {
    fn of<O: TrainerFields>(visitor: &mut impl Visitor) -> PyResult<()> {
        O::declared().filter(|field| O::takes(field.name)).try_for_each(|field| visitor.visit::<O>(field))
    }
    of::<TrainingOptions>(visitor)?;
    of::<LoaderOptions>(visitor)?;
    of::<HopOptions>(visitor)?;
    of::<CacheOptions>(visitor)?;
    of::<RankOptions>(visitor)?;
    of::<TrainerRankOptions>(visitor)
}

/// The trainer's options, as `_loader_options` has the loader's, in the command line's spelling.
#[pyfunction]
pub fn _trainer_options(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    struct FieldList<'py>(Python<'py>, Vec<Bound<'py, PyDict>>);
    impl Visitor for FieldList<'_> {
        fn visit<O: TrainerFields>(&mut self, field: &'static Field) -> PyResult<()> {
            let option = described::<O>(self.0, field, &[], None, Spelling::CommandLine)?;
            if let Some(names) = accepted(field) {
                option.set_item("choices", names.into_iter().map(|name| (name, "")).collect::<Vec<_>>())?;
            }
            self.1.push(option);
            Ok(())
        }
    }
    let mut listed = FieldList(py, Vec::new());
    visit_all(&mut listed)?;
    Ok(listed.1)
}

/// Raises ValueError, without the option's name, if the option does not accept this value.
#[pyfunction]
pub fn _read_trainer_option(name: &str, text: &str) -> PyResult<()> {
    struct Reading<'a>(&'a str, &'a str);
    impl Visitor for Reading<'_> {
        fn visit<O: TrainerFields>(&mut self, field: &'static Field) -> PyResult<()> {
            if field.name != self.0 {
                return Ok(());
            }
            let read = field.read(self.1);
            read.map(drop).map_err(|reason| PyValueError::new_err(Spelling::CommandLine.sentence(&reason)))
        }
    }
    visit_all(&mut Reading(name, text))
}

/// The options of a training, which go together.
#[pyclass(frozen, module = "uvatrain._core")]
pub struct TrainerArguments {
    training: TrainingOptions,
    /// A note on the model, if it is the default for the data.
    chosen_model: Option<String>,
    /// Values by option name, with defaults; None if the default is not a constant.
    values: Py<PyDict>,
}

#[derive(Default)]
struct TrainerValues {
    training: PartialOptions<TrainingOptions>,
    loader: PartialOptions<LoaderOptions>,
    hops: PartialOptions<HopOptions>,
    cache: PartialOptions<CacheOptions>,
    ranks: PartialOptions<RankOptions>,
    of_trainer: PartialOptions<TrainerRankOptions>,
}

#[pymethods]
impl TrainerArguments {
    /// given: the options' texts by name. hops: for a hop set, the hops of each operator and the number of operators.
    /// is_typed: whether the data is a graph of several node types or relations.
    ///
    /// Raises ValueError, in the command line's spelling, for the first option that does not fit the others or the data.
    #[new]
    fn new(
        py: Python<'_>,
        given: &Bound<'_, PyDict>,
        hops: Option<(usize, usize)>,
        is_typed: bool,
    ) -> PyResult<Self> {
        let mut all = TrainerValues::default();
        for (name, text) in given {
            let (name, text): (String, String) = (name.extract()?, text.extract()?);
            all.give(&name, &text).map_err(refused)?;
        }
        let chosen_model = (is_typed && all.training.get("model").is_none())
            .then(|| give_model_of_typed_graphs(&mut all.training))
            .transpose()
            .map_err(refused)?;
        let training = all.checked(hops).map_err(refused)?;
        if is_typed && !training.model.row().reads_relations() {
            return Err(refused(of_one_relation(training.model)));
        }
        Ok(Self { training, chosen_model, values: all.values(py)?.unbind() })
    }

    #[getter]
    fn values(&self, py: Python<'_>) -> Py<PyDict> {
        self.values.clone_ref(py)
    }

    /// Whether the model requires edge features.
    #[getter]
    fn needs_edges(&self) -> bool {
        self.training.model.row().needs_edge_features()
    }

    /// Whether the model is one over relations.
    #[getter]
    fn reads_relations(&self) -> bool {
        self.training.model.row().reads_relations()
    }

    /// The trainer's options as checkpoints have them, as JSON, and notes on what may be unexpected. layers: blocks of a
    /// batch. edge_dim: features of an edge that the model gets. dataset, outputs: for a model over relations, the
    /// directory of the dataset and the columns of its logits.
    #[pyo3(signature = (layers, edge_dim, seed, dataset=None, outputs=0))]
    fn trainer(
        &self,
        layers: usize,
        edge_dim: usize,
        seed: u64,
        dataset: Option<PathBuf>,
        outputs: usize,
    ) -> PyResult<(String, Vec<String>)> {
        let mut options = TrainingOptions { blocks: layers, edge_dim, seed, ..self.training.clone() };
        let notes = match dataset {
            Some(path) => {
                let dataset = TypedDataset::open(&path).map_err(of_graph)?;
                options.see_relations(&dataset, outputs).map_err(refused)?
            }
            None => Vec::new(),
        };
        if let Some(table) = options.trainer().embeddings().first() {
            let reason = format!(
                "{} has no features, and ranks do not share trained rows yet: train with `uvatrain train`",
                table.name
            );
            return Err(refused(OptionError::new("model", options.model.name(), reason)));
        }
        let notes =
            self.chosen_model.iter().chain(&notes).map(|note| Spelling::CommandLine.sentence(note)).collect();
        let written = serde_json::to_value(options.trainer());
        let mut trainer = written.map_err(|error| PyValueError::new_err(error.to_string()))?;
        if let Some(fields) = trainer.as_object_mut() {
            fields.remove("threads");
        }
        Ok((trainer.to_string(), notes))
    }
}

fn refused(error: OptionError) -> PyErr {
    of_launched(error.into())
}

impl TrainerValues {
    fn give(&mut self, name: &str, text: &str) -> Result<(), OptionError> {
        match name {
            name if taken::<TrainingOptions>(name) => self.training.give(name, text),
            name if taken::<LoaderOptions>(name) => self.loader.give(name, text),
            name if taken::<HopOptions>(name) => self.hops.give(name, text),
            name if taken::<CacheOptions>(name) => self.cache.give(name, text),
            name if taken::<RankOptions>(name) => self.ranks.give(name, text),
            name => self.of_trainer.give(name, text),
        }
    }

    fn gives(&self, name: &str) -> bool {
        let found = [self.loader.get(name), self.hops.get(name), self.cache.get(name), self.ranks.get(name)];
        found.into_iter().flatten().next().is_some()
    }

    /// The options of training, checked with all others.
    fn checked(&self, hops: Option<(usize, usize)>) -> Result<TrainingOptions, OptionError> {
        let mut training = self.training.options();
        let (loader, order) = (self.loader.options(), self.hops.options());
        let timeout = self.of_trainer.options().timeout;
        if timeout > MOST_SECONDS {
            let reason = format!("expected at most {MOST_SECONDS}");
            return Err(OptionError::new("timeout", timeout, reason));
        }
        self.hops.check_use(&order)?;
        match hops {
            Some((stored, operators)) => {
                self.check_with_hop_set(&loader, &order)?;
                training.check_for_hops(stored, operators)?;
            }
            None => {
                let of_hop_sets = ["shuffle", "chunk", "place", "reader"];
                if let Some(name) = of_hop_sets.into_iter().find(|name| self.gives(name)) {
                    return Err(of_no_use_without_a_hop_set(name));
                }
                if self.ranks.options().gpu_cache_share && self.cache.get("gpu_cache").is_none() {
                    return Err(OptionError::of("gpu_cache_share", "requires `gpu_cache`"));
                }
                training.check(&loader)?;
            }
        }
        self.training.check_use(&training)?;
        Ok(training)
    }

    fn check_with_hop_set(&self, loader: &LoaderOptions, order: &HopOptions) -> Result<(), OptionError> {
        let of_loader = LoaderOptions::declared().filter(|field| !OF_HOP_SETS.contains(&field.name));
        let of_ranks = RankOptions::declared().chain(CacheOptions::declared());
        if let Some(field) = of_loader.chain(of_ranks).find(|field| self.gives(field.name)) {
            return Err(of_no_use_with_a_hop_set(field.name));
        }
        if self.gives("gather_threads") {
            let reason = "each worker copies the rows of its own batches: give `samplers` instead";
            return Err(OptionError::of("gather_threads", reason));
        }
        if order.place == HopRowsPlace::Host && loader.reader != DiskReader::Auto {
            let reason = "with `place=host` rows are read from the mapped files: use `place=disk`";
            return Err(OptionError::new("reader", loader.reader, reason));
        }
        if order.shuffle == Shuffle::Chunks { order.check_chunk(loader.batch_size) } else { Ok(()) }
    }

    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        add(&self.training, &values)?;
        add(&self.loader, &values)?;
        add(&self.hops, &values)?;
        add(&self.cache, &values)?;
        add(&self.ranks, &values)?;
        add(&self.of_trainer, &values)?;
        Ok(values)
    }
}

fn taken<O: TrainerFields>(name: &str) -> bool {
    O::takes(name) && O::field(name).is_some()
}

fn add<O: TrainerFields>(given: &PartialOptions<O>, values: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = values.py();
    let default = O::default();
    for field in O::declared().filter(|field| O::takes(field.name)) {
        let text = match given.get(field.name) {
            Some(text) => text.to_owned(),
            None if field.unless_given.is_some() => String::new(),
            None => default.text(field),
        };
        // Numbers and names of one option are of one type.
        let value = match field.kind {
            ValueKind::Text { .. } if !text.is_empty() => PyString::new(py, &text).into_any(),
            _ => of_text(py, field, &text)?,
        };
        values.set_item(field.name, value)?;
    }
    Ok(())
}
