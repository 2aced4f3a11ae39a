//! The kinds of batches: what the options of a run mean for each.

use uva_graph::{Dataset, NodeType, SeedTimes, Split, TypedDataset, names};
use uva_options::{OptionError, Options as _};
use uva_sample::{TimeLimit, Trees, TypedView};

use super::LoaderOptions;
use super::hop_options::HopBatches;
use super::run_data::RunData;
use crate::RuntimeError;
use crate::backend::{BackendOptions, SamplerChoice};

/// A kind of batches.
trait BatchKind {
    /// Checks the options that such batches depend on, apart from their ranges.
    fn check(&self, options: &LoaderOptions) -> Result<(), RuntimeError>;

    /// Checks that such batches can be made of the dataset.
    fn check_dataset(&self, options: &LoaderOptions, dataset: &Dataset) -> Result<(), RuntimeError>;

    /// The options of every checkpoint that such batches do not depend on.
    fn unused(&self) -> &'static [&'static str];

    /// The properties on which such batches depend, if no option has them.
    fn identity(&self) -> Vec<(&'static str, usize)>;
}

/// Batches that are sampled in a graph.
struct GraphBatches;

impl BatchKind for GraphBatches {
    fn check(&self, options: &LoaderOptions) -> Result<(), RuntimeError> {
        options.check_sampling()
    }

    fn check_dataset(&self, options: &LoaderOptions, dataset: &Dataset) -> Result<(), RuntimeError> {
        match RunData::of(dataset, options) {
            RunData::Types(dataset) => check_types(options, dataset),
            _ => options.check_graph(dataset),
        }
    }

    fn unused(&self) -> &'static [&'static str] {
        &[]
    }

    fn identity(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }
}

/// Options that typed graphs do not support, with the reason.
const NOT_TYPED: [(&str, &str); 5] = [
    ("seed_order", "nearness over several node types is not defined"),
    ("order", "nearness over several node types is not defined"),
    ("pad", "static shapes are those of one node type"),
    ("aggregate", "each relation would have its own sums"),
    ("edge_type", "relations have one type of edges each"),
];

/// Checks that batches of a typed graph support these options. Every refusal of an option for typed graphs is here, but
/// those of the backend and of caches, which the loader's options do not have.
fn check_types(options: &LoaderOptions, dataset: &Dataset) -> Result<(), RuntimeError> {
    let refused = |name: &str, value: String, reason: &str| {
        OptionError::new(name, value, format!("not supported for typed graphs: {reason}")).into()
    };
    let default = LoaderOptions::default();
    for (name, reason) in NOT_TYPED {
        let field = LoaderOptions::field(name);
        if let Some(field) = field.filter(|field| options.text(field) != default.text(field)) {
            return Err(refused(name, options.text(field), reason));
        }
    }
    let sampling = options.sampling_in(dataset.metagraph())?;
    if sampling.trees.is_some_and(|trees| trees.time.is_some()) {
        check_orders(dataset)?;
    }
    TypedView::of(dataset).check(&sampling)?;
    for split in Split::ALL {
        for (of, _) in dataset.seeds(split) {
            options.seed_times_of(dataset, of, split)?;
        }
    }
    Ok(())
}

/// Checks that the lists of relations with times are sorted by them.
fn check_orders(dataset: &Dataset) -> Result<(), RuntimeError> {
    for relation in dataset.metagraph().relations() {
        if dataset.entry_times(relation).is_some() && !dataset.is_ordered_by_time(relation) {
            let name = dataset.metagraph().full_name(relation);
            let reason = format!(
                "the lists of {name} are not known to be sorted by time: meta.json has no \"order\": \"time\" for it; \
                 `uvatrain import --order time` sorts them"
            );
            return Err(OptionError::of("time_rule", reason).into());
        }
    }
    Ok(())
}

/// Their rows are all that they need, and `HopOptions` has checked the order of these.
impl BatchKind for HopBatches {
    fn check(&self, _: &LoaderOptions) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn check_dataset(&self, _: &LoaderOptions, _: &Dataset) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn unused(&self) -> &'static [&'static str] {
        // No neighbours are picked.
        &["fanouts", "replace"]
    }

    fn identity(&self) -> Vec<(&'static str, usize)> {
        vec![("chunk", self.chunk)]
    }
}

impl LoaderOptions {
    /// Whether each seed has a tree of its own, and what it sees.
    pub(super) fn trees(&self) -> Option<Trees> {
        // The option's range ends at the largest int64.
        let window = self.time_window.map(|window| i64::try_from(window).unwrap_or(i64::MAX));
        let pick = self.time_pick;
        let time = self.time_rule.map(|rule| TimeLimit { rule, window, pick });
        (self.disjoint || time.is_some()).then_some(Trees { time })
    }

    /// The times of the seeds of a type; `None` if no rule reads them.
    ///
    /// # Errors
    /// If they have none.
    pub fn seed_times_of<'d>(
        &self,
        dataset: &'d TypedDataset,
        node_type: NodeType,
        split: Split,
    ) -> Result<Option<SeedTimes<'d>>, OptionError> {
        if self.time_rule.is_none() || dataset.split_of(node_type, split).is_empty() {
            return Ok(None);
        }
        let missing = || {
            let (name, file) = (dataset.metagraph().type_name(node_type), names::split_times(split));
            OptionError::of(
                "time_rule",
                format!("seeds of {name} have no time: {file}, time.npy or `seed_time`"),
            )
        };
        dataset.seed_times_of(node_type, split, self.seed_time).map(Some).ok_or_else(missing)
    }
}

impl LoaderOptions {
    fn kind(&self) -> &dyn BatchKind {
        match &self.hops {
            None => &GraphBatches,
            Some(hops) => hops,
        }
    }

    /// Checks what can be checked without a dataset.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] naming the option and its valid values.
    pub fn check(&self) -> Result<(), RuntimeError> {
        self.check_ranges()?;
        self.kind().check(self)
    }

    /// Checks that batches with these options can be made of the dataset. It must have the arrays that sampling needs,
    /// no list may need more picks than there are random words, a [part](Self::check_part) has to reach as far as batches
    /// do, and rows have to be such that they can be aggregated, if they shall.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] naming the file, and the place in it; [`RuntimeError::Option`] naming the option and the
    /// node.
    pub fn check_dataset(&self, dataset: &Dataset) -> Result<(), RuntimeError> {
        self.kind().check_dataset(self, dataset)
    }

    /// Checks that such batches support a cache, which this option requests. Rows of files may be kept in host memory.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] for a typed graph.
    pub fn check_cache(&self, dataset: &Dataset, option: &'static str) -> Result<(), RuntimeError> {
        match option {
            "host_cache" => Ok(()),
            _ => self.check_one_type(dataset, option, "not supported for typed graphs yet; omit it"),
        }
    }

    /// Checks that such batches support samplers for all ranks, which this option requests.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] for a typed graph.
    pub fn check_shared_samplers(&self, dataset: &Dataset, option: &'static str) -> Result<(), RuntimeError> {
        let reason = "not supported for typed graphs: each rank samples its own batches; give `ranks=N`";
        self.check_one_type(dataset, option, reason)
    }

    /// The options of the backend for such batches, and a line for people if `sampler=auto` is the CPU: the GPU samples
    /// one type of nodes.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] for `sampler=gpu` and a typed graph.
    pub fn backend_of(
        &self,
        dataset: &Dataset,
        backend: &BackendOptions,
    ) -> Result<(BackendOptions, Option<String>), RuntimeError> {
        let note = match (RunData::of(dataset, self), backend.sampler) {
            (RunData::Types(_), SamplerChoice::Gpu) => {
                let reason = "not supported for typed graphs yet; give `sampler=cpu`";
                return Err(OptionError::new("sampler", backend.sampler, reason).into());
            }
            (RunData::Types(_), SamplerChoice::Auto) => {
                "`sampler=auto`: the CPU samples, since the GPU does not sample typed graphs yet".to_owned()
            }
            _ => return Ok((backend.clone(), None)),
        };
        Ok((BackendOptions { sampler: SamplerChoice::Cpu, ..backend.clone() }, Some(note)))
    }

    fn check_one_type(
        &self,
        dataset: &Dataset,
        option: &'static str,
        reason: &str,
    ) -> Result<(), RuntimeError> {
        match RunData::of(dataset, self) {
            RunData::Types(_) => Err(OptionError::of(option, reason).into()),
            _ => Ok(()),
        }
    }

    /// The properties on which batches depend, if no option has them, by name.
    #[must_use]
    pub fn kind_identity(&self) -> Vec<(&'static str, usize)> {
        self.kind().identity()
    }

    /// The fingerprint of a checkpoint: options that another run must share to continue with the same batches.
    #[must_use]
    pub fn fingerprint(&self) -> serde_json::Map<String, serde_json::Value> {
        let kind = self.kind();
        let mut found = self.options_of_batches();
        found.retain(|name, _| !kind.unused().contains(&name.as_str()));
        found.extend(kind.identity().into_iter().map(|(name, value)| (name.to_owned(), value.into())));
        self.with_content(found)
    }
}
