//! Training options for models over the relations of a typed graph.

use uva_graph::TypedDataset;
use uva_model::{FeatureNorm, ModelGraph, ModelKind, ModelRow, NormKind, OptionsError, RootKind};
use uva_options::{OptionError, PartialOptions};
use uva_runtime::LoaderOptions;
use uva_runtime::backend::{BackendOptions, DeviceChoice};
use uva_runtime::options::Pad;

use super::job::{Aggregate, TrainingOptions};

impl TrainingOptions {
    /// Checks the options that models over relations do not have.
    pub(super) fn check_for_relations(&self, loader: &LoaderOptions) -> Result<(), OptionError> {
        if !self.model.row().reads_relations() {
            return Ok(());
        }
        let model = self.model.name();
        let summed = matches!(self.aggregate, Aggregate::Host | Aggregate::Device);
        for (option, given, reason) in [
            ("residual", self.residual, "not supported with"),
            ("norm", self.norm != NormKind::None, "not supported yet with"),
            ("feature_norm", self.feature_norm != FeatureNorm::None, "not supported with"),
            ("aggregate", summed, "each relation has its own sums with"),
            ("pad", loader.pad != Pad::Off, "padding is not supported with"),
            ("first_layer", loader.first_layer.is_some(), "a hop set has the sums of one relation, unlike"),
        ] {
            if given {
                return Err(OptionError::of(option, format!("{reason} `model={model}`")));
            }
        }
        Ok(())
    }

    /// Sets the types of the dataset for a model over relations, and the default that depends on them. Its logits have
    /// `outputs` columns. Returns notes on what may be unexpected.
    ///
    /// # Errors
    /// Seeds without neighbours, an option that does not fit the relations, or options of tables where no node type
    /// requires one.
    pub fn see_relations(
        &mut self,
        dataset: &TypedDataset,
        outputs: usize,
    ) -> Result<Vec<String>, OptionError> {
        let Some(relations) = self.model.row().relations else { return Ok(Vec::new()) };
        let graph = ModelGraph::of(dataset, dataset.seed_type());
        let (usual, most) = ((relations.usual_root)(&graph), graph.most_into_one_type());
        let mut notes = Vec::new();
        if self.root.is_none() && relations.roots.contains(&RootKind::Relation) && usual == RootKind::Type {
            notes.push(format!(
                "`root=type`, since {most} relations lead into one node type: a map for each of them learns worse"
            ));
        }
        if !relations.roots.is_empty() {
            self.root = self.root.or(Some(usual));
        }
        self.graph = Some(graph);
        self.check_graph(dataset, outputs)?;
        let tables = self.trainer().embeddings();
        for (option, given) in [
            ("embedding_dim", self.embedding_dim.is_some()),
            ("embedding_init", self.embedding_init.is_some()),
        ] {
            if given && tables.is_empty() {
                let reason = "every node type that the model reads has features";
                return Err(OptionError::of(option, reason.to_owned()));
            }
        }
        if !tables.is_empty() && self.weight_decay > 0.0 {
            let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
            notes.push(format!("`weight_decay` does not apply to the trained rows of {}", names.join(", ")));
        }
        Ok(notes)
    }

    /// Checks that each layer has what it reads, and that the options fit the relations.
    fn check_graph(&self, dataset: &TypedDataset, outputs: usize) -> Result<(), OptionError> {
        let name = dataset.path().display();
        self.trainer().check_relations(outputs).map_err(|error| match error {
            OptionsError::Option { option, problem } => OptionError::of(option, problem),
            OptionsError::Unsupported(problem) => OptionError::new(
                "model",
                self.model.name(),
                format!("cannot be trained on {name}: {problem}"),
            ),
            other => OptionError::new("model", self.model.name(), other.to_string()),
        })
    }
}

/// Gives the model that typed graphs have by default. Returns a note on it.
///
/// # Errors
/// The table of models has no such name, which a test excludes.
pub fn give_model_of_typed_graphs(
    given: &mut PartialOptions<TrainingOptions>,
) -> Result<String, OptionError> {
    let model = ModelKind::OF_TYPED_GRAPHS.name();
    given.give("model", model)?;
    Ok(format!("`model={model}`, the default for a typed graph"))
}

/// The refusal of a model of one node type and one relation for a typed graph.
pub fn of_one_relation(model: ModelKind) -> OptionError {
    let reason = format!(
        "for one node type and one relation, and DATA is a typed graph: use `model={}`",
        ModelKind::names_of(ModelRow::reads_relations)
    );
    OptionError::new("model", model.name(), reason)
}

/// The backend without the GPU that a model cannot use; `None` for a model that can.
///
/// # Errors
/// A GPU that was requested by its number.
pub(super) fn on_cpu(
    model: ModelKind,
    backend: &BackendOptions,
) -> Result<Option<BackendOptions>, OptionError> {
    if !model.row().reads_relations() {
        return Ok(None);
    }
    if matches!(backend.device, DeviceChoice::Auto | DeviceChoice::Cpu) {
        return Ok(Some(BackendOptions { device: DeviceChoice::Cpu, ..backend.clone() }));
    }
    let reason = format!("not supported yet with `model={}`: give `device=cpu`", model.name());
    Err(OptionError::new("device", backend.device, reason))
}
