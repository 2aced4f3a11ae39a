//! The job that the launcher gives the built-in consumer.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uva_model::checkpoint::Keep;
use uva_model::{
    ActivationKind, ClassWeights, EmbeddingInit, FeatureNorm, MatmulPrecision, Metric, ModelGraph, ModelKind,
    ModelRow, NormKind, RegressionLoss, RelationSum, RelationWeights, RootKind, TrainerOptions,
};
use uva_options::OptionPurpose::{Speed, Training};
use uva_options::{Field, Named, OptionError, Options as _, Real, named, options};
use uva_sample::SamplerKind;

use uva_runtime::backend::Backend;
use uva_runtime::machine::cores::Cores;
use uva_runtime::options::first_layer::FirstLayer;
use uva_runtime::{LoaderOptions, RuntimeError};

const MODEL: &str = "Model";
const OPTIMISATION: &str = "Optimisation";
const EVALUATION: &str = "Evaluation";
const CHECKPOINTS: &str = "Checkpoints";
const MACHINE: &str = "Machine";

options! {
    /// What the consumer does with the batches. Each option is declared only here ([`uva_options`]).
    pub struct TrainingOptions {
        /// Model to train (docs/guide/models.md); for a typed graph, the default is rsage
        model: ModelKind = ModelKind::Sage
            => Field::choice::<ModelKind>("MODEL").of(MODEL, &[Training]).brief("sage, gcn, gat, gin, …"),
        /// Width of the hidden layers
        hidden: usize = 128
            => Field::within("UNITS", 1, 65536).of(MODEL, &[Training]).brief("Width of the hidden layers"),
        /// Number of layers of SIGN or HOGA: linear maps of SIGN, including the one of each hop; attention layers of HOGA
        layers: Option<usize> = None
            => Field::within("N", 1, 32).of(MODEL, &[Training]).unless_given("2 for sign, 1 for hoga"),
        /// Number of hops that a model on a hop set reads
        use_hops: Option<usize> = None
            => Field::within("HOPS", 1, 64).of(MODEL, &[Training]).unless_given("all"),
        /// Weight of the input features in each hop of S²GC's mean, 0 to below 1
        alpha: Option<f64> = None
            => Field::real("SHARE", Real::Probability).of(MODEL, &[Training]).unless_given("0.05"),
        /// Map of a node's own row in rsage (relation, type or none) and rgcn (type or shared)
        root: Option<RootKind> = None
            => Field::choice::<RootKind>("ROOT").of(MODEL, &[Training])
                .unless_given("rsage: relation, or type where more than 8 relations lead into a node type; rgcn: type, or \
                    shared if there is one type"),
        /// How rsage combines the relations into a node type
        relation_sum: Option<RelationSum> = None
            => Field::choice::<RelationSum>("HOW").of(MODEL, &[Training]).unless_given("sum"),
        /// Number of matrices that the relations of rgcn share: each relation has a weighted sum of them
        bases: Option<usize> = None
            => Field::within("BASES", 1, 4096).of(MODEL, &[Training]).unless_given("a matrix for each relation"),
        /// Number of blocks on the diagonal of each relation's matrix in rgcn, with zeros elsewhere
        diagonal_blocks: Option<usize> = None
            => Field::within("BLOCKS", 1, 65536).of(MODEL, &[Training]).named("blocks").unless_given("whole matrices")
                .excludes(&["bases"]),
        /// Width of the trained rows of node types without features
        embedding_dim: Option<usize> = None
            => Field::within("UNITS", 1, 65536).of(MODEL, &[Training]).unless_given("the width of `hidden`"),
        /// How the trained rows of node types without features begin
        embedding_init: Option<EmbeddingInit> = None
            => Field::choice::<EmbeddingInit>("INIT").of(MODEL, &[Training]).unless_given("xavier"),
        /// Activation between the layers of SIGN
        activation: Option<ActivationKind> = None
            => Field::choice::<ActivationKind>("ACTIVATION").of(MODEL, &[Training]).unless_given("relu"),
        /// Attention heads of a hidden layer of GAT, rgat, hgt or HOGA; they divide `hidden` between them
        heads: Option<usize> = None
            => Field::at_least("HEADS", 1).of(MODEL, &[Training]).unless_given("8, or 4 for rgat and hgt"),
        /// Attention heads of the last layer of GAT, which are averaged
        output_heads: Option<usize> = None
            => Field::within("HEADS", 1, 1024).of(MODEL, &[Training]).unless_given("the number of `heads`")
                .excludes(&["residual"]),
        /// Dropout probability of GAT's attention weights, 0 to below 1
        attention_dropout: Option<f64> = None
            => Field::real("P", Real::Probability).of(MODEL, &[Training]).unless_given("0"),
        /// Add residual connections between a linear map to `hidden` columns and one to the classes, for deeper networks
        residual: bool = false => Field::switch().of(MODEL, &[Training]),
        /// Normalisation between layers
        norm: NormKind = NormKind::None => Field::choice::<NormKind>("NORM").of(MODEL, &[Training]),
        /// Dropout probability of hidden values, 0 to below 1
        dropout: f64 = 0.5
            => Field::real("P", Real::Probability).of(MODEL, &[Training]).brief("Dropout of hidden values"),
        /// Dropout probability of feature values, 0 to below 1
        input_dropout: f64 = 0.0 => Field::real("P", Real::Probability).of(MODEL, &[Training]),
        /// Normalisation of feature rows: none, or scaled to a sum of 1
        feature_norm: FeatureNorm = FeatureNorm::None
            => Field::choice::<FeatureNorm>("FEATURE_NORM").of(MODEL, &[Training]),
        /// Passes over the training nodes; with `resume`, including those of the checkpoint
        epochs: u32 = 10
            => Field::at_least("EPOCHS", 1).of(OPTIMISATION, &[]).brief("Passes over the training nodes"),
        /// Learning rate of Adam
        learning_rate: f64 = 0.003
            => Field::real("RATE", Real::Positive).of(OPTIMISATION, &[Training]).named("lr")
                .brief("Learning rate of Adam"),
        /// Weight decay of Adam
        weight_decay: f64 = 0.0 => Field::real("DECAY", Real::NotNegative).of(OPTIMISATION, &[Training]),
        /// Loss of regression (float32 targets), averaged over nodes and columns; auto is mse
        loss: LossChoice = LossChoice(None) => Field::choice::<LossChoice>("LOSS").of(OPTIMISATION, &[Training]),
        /// Weight of each class in the training loss, for single-label data: balanced for the inverse of the number of its
        /// training nodes, or one number per class: 1,1,20
        class_weights: Option<ClassWeights> = None
            => Field::text::<ClassWeights>("balanced|LIST", "`balanced`, or positive numbers like `1,1,20`")
                .of(OPTIMISATION, &[Training]).unless_given("equal weights"),
        /// Interval in batches between reports of the loss; an epoch's last batch is always reported. The loss of an epoch
        /// includes all batches. On a GPU, fewer reports mean fewer copies to the host
        loss_every: u32 = 1 => Field::at_least("BATCHES", 1).of(OPTIMISATION, &[]),
        /// Stop after this many epochs without improvement of the validation `metric`
        patience: Option<u32> = None
            => Field::at_least("EPOCHS", 1).of(OPTIMISATION, &[]).unless_given("never"),
        /// Evaluate on sampled neighbours (fast), or on all neighbours, layer by layer (exact)
        evaluate_by: EvaluateBy = EvaluateBy::Sampled
            => Field::choice::<EvaluateBy>("EVAL").of(EVALUATION, &[Training]).named("eval"),
        /// Metric that selects the best model: accuracy, area under the ROC curve (two classes or multi-label data), or for
        /// regression mean squared or absolute error. auto is accuracy for single-label data, roc-auc for multi-label
        /// data, the loss for regression
        metric: MetricChoice = MetricChoice(None)
            => Field::choice::<MetricChoice>("METRIC").of(EVALUATION, &[Training]),
        /// Model that is tested and kept for predictions: of the best epoch by validation, or after the last batch. Without
        /// validation data, the model after the last batch is kept
        keep: Keep = Keep::Best => Field::choice::<Keep>("MODEL").of(CHECKPOINTS, &[]),
        /// Directory of checkpoints; Ctrl-C finishes the batch and writes one
        checkpoint: Option<PathBuf> = None
            => Field::path("DIR").of(CHECKPOINTS, &[]).brief("Directory of checkpoints"),
        /// Interval in batches between checkpoints
        checkpoint_every: Option<u32> = None
            => Field::at_least("BATCHES", 1).of(CHECKPOINTS, &[]).unless_given("once per epoch").needs("checkpoint"),
        /// Resume from the checkpoint in `checkpoint`, at the batch after the last trained one. A completed run continues
        /// with a larger `epochs`
        resume: bool = false
            => Field::switch().of(CHECKPOINTS, &[]).needs("checkpoint").brief("Resume from the checkpoint"),
        /// Replace the checkpoint in `checkpoint`; without this option, an existing checkpoint is an error
        overwrite_checkpoint: bool = false
            => Field::switch().of(CHECKPOINTS, &[]).needs("checkpoint").excludes(&["resume"]),
        /// Where the neighbours of the first layer of sage and gcn are aggregated: in the consumer (off), or in the producer,
        /// on the host or on the GPU. The producer then passes one row per destination instead of one per node
        /// (docs/guide/aggregation.md)
        aggregate: Aggregate = Aggregate::Auto
            => Field::choice::<Aggregate>("WHO").of(MACHINE, &[Speed]),
        /// Threads of the model's arithmetic; losses are bit-identical only for equal numbers of threads
        threads: Option<usize> = None
            => Field::within("T", 1, 1024).of(MACHINE, &[Speed]).named("train_threads")
                .unless_given("half the CPU cores, at least 1; with `resume` the number of the checkpoint"),
        /// Precision of the matrix products of sage and gcn on a CPU. bfloat16 rounds their factors, and is faster on processors that
        /// multiply bfloat16 numbers (AVX512_BF16, AMX)
        matmul_precision: MatmulPrecision = MatmulPrecision::Float32
            => Field::choice::<MatmulPrecision>("PRECISION").of(MACHINE, &[Training]),
        /// CPU cores of the run: all that the process may use, or a list. Three lists, like `0/1/2-7`, are for sampling,
        /// gathering and training, with one thread per core. auto times the stages on a few batches, and chooses `samplers`,
        /// `gather_threads` and `train_threads` unless they are given (docs/internals/architecture.md)
        cores: Option<Cores> = None
            => Field::text::<Cores>("auto|all|LIST", "`auto`, `all`, cores like `0,2,4-7`, or three lists like `0/1/2-7`")
                .of(MACHINE, &[Speed])
                .unless_given("all, with the default numbers of threads"),
        /// Blocks of a batch, and so layers of a model over them.
        blocks: usize = 2 => Field::internal(),
        /// Whether a hop set has the sums of the first layer, which then requires no block.
        first_layer_given: bool = false => Field::internal(),
        /// Hops of each operator of the hop set; 0 for a dataset.
        stored_hops: usize = 0 => Field::internal(),
        /// Operators of the hop set; 0 for a dataset.
        operators: usize = 0 => Field::internal(),
        /// Features of an edge that the model gets; 0 for none.
        edge_dim: usize = 0 => Field::internal(),
        /// The types of the graph, for a model over relations.
        graph: Option<ModelGraph> = None => Field::internal(),
        /// Seeds the parameters and the dropout of every batch.
        seed: u64 = 0 => Field::internal(),
        /// What a checkpoint must match for the run to continue from it: options and dataset, field by field.
        fingerprint: Value = Value::Null => Field::internal(),
    }
}

impl TrainingOptions {
    /// Checks what can be checked without a dataset. `loader` makes the batches.
    ///
    /// # Errors
    /// An option that is out of range, or that contradicts another.
    pub fn check(&self, loader: &LoaderOptions) -> Result<(), OptionError> {
        self.check_ranges()?;
        let model = self.model.row();
        if !trains_on_datasets(model) {
            let reason = format!(
                "requires a hop set, but DATA is a dataset: make a hop set with `uvatrain propagate`, or use `model={}`",
                ModelKind::names_of(trains_on_datasets)
            );
            return Err(OptionError::new("model", model.name, reason));
        }
        self.check_model()?;
        self.check_for_relations(loader)?;
        if let Some(given) = &loader.first_layer {
            self.check_first_layer(given)?;
        }
        let kind = loader.sampler_kind;
        if !model.takes_edge_weights() && kind.weighs_edges() {
            let reason = format!(
                "`model={}` does not support the edge weights of this sampler: use `model={}`, or `sampler_kind={}`",
                model.name,
                ModelKind::names_of(ModelRow::takes_edge_weights),
                SamplerKind::names_of(|kind| !kind.weighs_edges())
            );
            return Err(OptionError::new("sampler_kind", kind, reason));
        }
        if loader.edge_attr && !model.takes_edge_features() {
            let models = ModelKind::names_of(ModelRow::takes_edge_features);
            let reason =
                format!("`model={}` does not support edge features: use `model={models}`", model.name);
            return Err(OptionError::of("edge_attr", reason));
        }
        if loader.edge_type {
            let reason = "not supported by built-in models; `uvatrain run` and Python's Loader support it";
            return Err(OptionError::of("edge_type", reason));
        }
        if model.needs_edge_features() && !kind.picks_in_lists() {
            let reason = format!(
                "`model={}` requires edge features, which the edges of this sampler do not have: use `sampler_kind={}`",
                model.name,
                SamplerKind::names_of(SamplerKind::picks_in_lists)
            );
            return Err(OptionError::new("sampler_kind", kind, reason));
        }
        if self.evaluate_by == EvaluateBy::Full && !kind.picks_in_lists() {
            let reason = format!(
                "not supported with `sampler_kind={kind}`, where a node's neighbours are the nodes found around it: use \
                 `eval=sampled`"
            );
            return Err(OptionError::new("eval", self.evaluate_by, reason));
        }
        Ok(())
    }

    /// Checks that the first layer of the model is one whose sums this hop set has.
    fn check_first_layer(&self, given: &FirstLayer) -> Result<(), OptionError> {
        let refuse = |reason: String| Err(OptionError::of("first_layer", reason));
        if let Some((option, why)) = self.trainer().refuses_given_layer() {
            return refuse(format!("cannot be used with {option}: {why}"));
        }
        let (operator, model) = if given.keeps_own_rows { ("row", "sage") } else { ("sym", "gcn") };
        if self.model.name() != model {
            return refuse(format!(
                "the operator of the hop set is {operator}, which requires `model={model}`, not `model={}`",
                self.model.name()
            ));
        }
        Ok(())
    }

    /// Checks the options of the model with each other.
    pub(super) fn check_model(&self) -> Result<(), OptionError> {
        let model = self.model.row();
        let has = |holds: fn(&ModelRow) -> bool, what: &str| {
            (holds, format!("only valid with `model={}`{what}", ModelKind::names_of(holds)))
        };
        let attends = || has(ModelRow::has_attention, ", which has attention between neighbours");
        for (option, given, (holds, reason)) in [
            ("heads", self.heads.is_some(), has(ModelRow::has_heads, ", which has attention")),
            ("output_heads", self.output_heads.is_some(), attends()),
            ("attention_dropout", self.attention_dropout.is_some(), attends()),
            (
                "layers",
                self.layers.is_some(),
                has(
                    |row| row.hops.is_some_and(|hops| hops.layers.is_some()),
                    "; models over sampled \
                    neighbours have one layer per number of `fanouts`",
                ),
            ),
            ("use_hops", self.use_hops.is_some(), has(ModelRow::reads_hops, ", on a hop set")),
            ("alpha", self.alpha.is_some(), has(|row| row.name == ModelKind::S2gc.name(), "")),
            (
                "root",
                self.root.is_some(),
                has(|row| row.relations.is_some_and(|of| !of.roots.is_empty()), ""),
            ),
            (
                "relation_sum",
                self.relation_sum.is_some(),
                has(|row| row.relations.is_some_and(|of| of.has_relation_sum), ""),
            ),
            ("bases", self.bases.is_some(), has(has_shared_weights, "")),
            ("blocks", self.diagonal_blocks.is_some(), has(has_shared_weights, "")),
            (
                "matmul_precision",
                self.matmul_precision != MatmulPrecision::Float32,
                has(ModelRow::is_convolution, ""),
            ),
            ("embedding_dim", self.embedding_dim.is_some(), has(ModelRow::reads_relations, "")),
            ("embedding_init", self.embedding_init.is_some(), has(ModelRow::reads_relations, "")),
            ("activation", self.activation.is_some(), has(|row| row.name == ModelKind::Sign.name(), "")),
        ] {
            if given && !holds(model) {
                return Err(OptionError::of(option, reason));
            }
        }
        if let (Some(given), Some(layers)) = (self.layers, model.hops.and_then(|hops| hops.layers))
            && given < layers.least
        {
            let reason = format!("`model={}` requires at least {} layers", model.name, layers.least);
            return Err(OptionError::new("layers", given, reason));
        }
        let heads = self.trainer().heads;
        if model.has_heads() && !self.hidden.is_multiple_of(heads) {
            let reason = format!("{heads} heads do not divide `hidden={}`", self.hidden);
            return Err(OptionError::of("heads", reason));
        }
        Ok(())
    }

    /// Checks that the device has matrix products of this precision.
    pub(super) fn check_matmul_precision(&self, backend: &Backend) -> Result<(), OptionError> {
        let reason = match self.matmul_precision {
            MatmulPrecision::Float32 => return Ok(()),
            MatmulPrecision::Bfloat16 if backend.cuda().is_some() => {
                "not supported on a GPU: give `device=cpu`, or omit it"
            }
            MatmulPrecision::Bfloat16 if !uva_ops::multiplies_bfloat16() => {
                "this processor does not multiply bfloat16 numbers, which requires AVX512_BF16: omit it"
            }
            MatmulPrecision::Bfloat16 => return Ok(()),
        };
        Err(OptionError::new("matmul_precision", self.matmul_precision, reason))
    }

    /// Layers of the model.
    fn layers(&self) -> usize {
        let blocks = self.blocks + usize::from(self.first_layer_given);
        self.layers.unwrap_or_else(|| self.model.row().usual_layers(blocks))
    }

    /// Model and optimiser.
    #[must_use]
    pub fn trainer(&self) -> TrainerOptions {
        let usual = TrainerOptions::default();
        TrainerOptions {
            model: self.model,
            hidden: self.hidden,
            heads: self.heads.unwrap_or_else(|| self.model.row().usual_heads()),
            output_heads: self.output_heads,
            attention_dropout: self.attention_dropout.unwrap_or(usual.attention_dropout),
            edge_dim: self.edge_dim,
            residual: self.residual,
            norm: self.norm,
            layers: self.layers(),
            first_layer_given: self.first_layer_given,
            hops: self.use_hops.unwrap_or(self.stored_hops),
            operators: self.operators,
            alpha: self.alpha.unwrap_or(usual.alpha),
            graph: self.graph.clone(),
            root: self.root.unwrap_or(usual.root),
            relation_sum: self.relation_sum.unwrap_or(usual.relation_sum),
            relation_weights: match (self.bases, self.diagonal_blocks) {
                (Some(bases), _) => RelationWeights::Bases(bases),
                (None, Some(blocks)) => RelationWeights::Blocks(blocks),
                (None, None) => RelationWeights::Free,
            },
            embedding_dim: self.embedding_dim.filter(|&columns| columns != self.hidden),
            embedding_init: self.embedding_init.unwrap_or(usual.embedding_init),
            activation: self.activation.unwrap_or(usual.activation),
            dropout: self.dropout,
            input_dropout: self.input_dropout,
            learning_rate: self.learning_rate,
            weight_decay: self.weight_decay,
            class_weights: self.class_weights.clone(),
            feature_norm: self.feature_norm,
            seed: self.seed,
            matmul_precision: self.matmul_precision,
            threads: self.threads,
        }
    }

    /// The part of a checkpoint's fingerprint that these options decide: what a loss or an accuracy depends on, except
    /// for the batches. The number of epochs, and options that only change the speed, may differ.
    pub(super) fn add_to_fingerprint(
        &self,
        fingerprint: &mut Map<String, Value>,
    ) -> Result<(), RuntimeError> {
        let mut trainer = to_value(&self.trainer())?;
        if let Some(trainer) = trainer.as_object_mut() {
            trainer.remove("threads");
            // The dataset's own fingerprint has all names and counts.
            trainer.remove("graph");
        }
        fingerprint.insert("trainer".to_owned(), trainer);
        fingerprint.insert("evaluate_by".to_owned(), to_value(&self.evaluate_by)?);
        if let Some(metric) = self.metric.0.filter(|metric| *metric != Metric::Accuracy) {
            fingerprint.insert("metric".to_owned(), metric.name().into());
        }
        if let Some(loss) = self.loss.0.filter(|loss| *loss != RegressionLoss::Mse) {
            fingerprint.insert("loss".to_owned(), loss.name().into());
        }
        Ok(())
    }
}

/// Whether a model takes bases and blocks of its relations' matrices.
fn has_shared_weights(model: &ModelRow) -> bool {
    model.relations.is_some_and(|relations| relations.has_shared_weights)
}

/// Whether a model trains on neighbours sampled in a dataset.
pub(super) fn trains_on_datasets(model: &ModelRow) -> bool {
    !model.reads_hops()
}

named! {
    /// Where the neighbours of the first layer are aggregated.
    pub enum Aggregate = Auto {
        /// Where it is faster in the run's first batches; in the consumer if that is not measured.
        Auto = "auto",
        /// In the consumer, from the rows of all nodes.
        Off = "off",
        /// In the producer's CPU threads, as they read the table.
        Host = "host",
        /// In a kernel of the producer, on the GPU that has the feature slots.
        Device = "device",
    }
}

named! {
    /// How validation and test nodes are classified.
    pub enum EvaluateBy = Sampled {
        /// On sampled neighbours, through the same pipeline as training.
        Sampled = "sampled",
        /// On all neighbours, layer by layer over the whole graph.
        Full = "full",
    }
}

/// The metric that selects the best model and controls early stopping; `None` for the usual one of the labels
/// ([`super::task()`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricChoice(pub Option<Metric>);

impl Named for MetricChoice {
    fn all() -> Vec<Self> {
        std::iter::once(None).chain(Metric::ALL.map(Some)).map(Self).collect()
    }

    fn name(self) -> &'static str {
        self.0.map_or("auto", Metric::name)
    }

    fn help(self) -> &'static str {
        self.0.map_or("Default for the dataset's labels", Metric::help)
    }
}

/// The loss of regression; `None` for the usual one, and where labels are classes ([`super::task()`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossChoice(pub Option<RegressionLoss>);

impl Named for LossChoice {
    fn all() -> Vec<Self> {
        std::iter::once(None).chain(RegressionLoss::ALL.map(Some)).map(Self).collect()
    }

    fn name(self) -> &'static str {
        self.0.map_or("auto", RegressionLoss::name)
    }

    fn help(self) -> &'static str {
        self.0.map_or("Default for the dataset's labels", RegressionLoss::help)
    }
}

/// The consumer's job.
#[derive(Debug, Serialize, Deserialize)]
pub enum Job {
    /// Train; the result is a [`TrainingOutcome`](super::TrainingOutcome).
    Train(TrainingOptions),
    /// Train one batch and report the memory it leaves; the result is a [`TrialOutcome`].
    Trial(TrainingOptions),
    /// Time the stages of a run; the result is [`TimedThreads`](uva_plan::TimedThreads) of each.
    Times(Box<StagesToTime>),
}

/// What the consumer of a trial times.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StagesToTime {
    /// The training.
    pub training: TrainingOptions,
    /// The loader of the run that follows.
    pub loader: LoaderOptions,
    /// Numbers of threads.
    pub threads: Vec<usize>,
}

/// What a trial found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialOutcome {
    /// Bytes of the GPU's memory still free after the batch.
    pub free: u64,
    /// Bytes of the GPU's memory.
    pub total: u64,
}

/// As JSON, for the channel between launcher and consumer.
///
/// # Errors
/// [`RuntimeError::Failed`] where it cannot be written as JSON.
pub fn to_value(value: &impl Serialize) -> Result<Value, RuntimeError> {
    serde_json::to_value(value).map_err(|error| RuntimeError::failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use uva_options::ValueKind;

    use super::*;

    fn fingerprint(options: &TrainingOptions) -> Map<String, Value> {
        let mut fingerprint = Map::new();
        options.add_to_fingerprint(&mut fingerprint).unwrap();
        fingerprint
    }

    #[test]
    fn a_checkpoint_holds_the_options_that_training_depends_on_and_no_others() {
        let usual = TrainingOptions::default();
        for field in TrainingOptions::declared() {
            let other = match field.kind {
                ValueKind::Switch => "true".to_owned(),
                ValueKind::Whole(_) => "7".to_owned(),
                ValueKind::Real(_) => "0.25".to_owned(),
                ValueKind::Choice(names) => names().last().unwrap().name.to_owned(),
                _ if field.name == "cores" => "all".to_owned(),
                _ if field.name == "class_weights" => "balanced".to_owned(),
                _ => "elsewhere".to_owned(),
            };
            let mut options = usual.clone();
            assert!(options.set(field, &other), "{}", field.name);
            let depends = field.purposes.contains(&Training);
            assert_eq!(fingerprint(&options) != fingerprint(&usual), depends, "{}", field.name);
        }
    }

    #[test]
    fn the_consumer_reads_the_options_unchanged() {
        let options = TrainingOptions {
            attention_dropout: Some(0.1),
            metric: MetricChoice(Some(Metric::RocAuc)),
            checkpoint: Some("kept".into()),
            learning_rate: 1e-30,
            fingerprint: serde_json::json!({ "seed": 5 }),
            ..TrainingOptions::default()
        };
        let read: TrainingOptions = serde_json::from_value(to_value(&options).unwrap()).unwrap();
        assert_eq!(read, options);
    }

    fn of(model: ModelKind) -> TrainingOptions {
        TrainingOptions { model, ..TrainingOptions::default() }
    }

    #[test]
    fn a_hop_set_decides_hops_and_operators_and_options_decide_the_shape() {
        let mut options = of(ModelKind::Sign);
        options.check_for_hops(3, 2).unwrap();
        let trainer = options.trainer();
        assert_eq!((trainer.layers, trainer.hops, trainer.operators), (2, 3, 2));
        let (layers, use_hops, alpha) = (Some(3), Some(2), Some(0.2));
        let mut options = TrainingOptions { layers, use_hops, ..of(ModelKind::Hoga) };
        options.check_for_hops(3, 1).unwrap();
        let trainer = options.trainer();
        assert_eq!((trainer.layers, trainer.hops, trainer.operators), (3, 2, 1));
        let mut options = TrainingOptions { use_hops, alpha, ..of(ModelKind::S2gc) };
        options.check_for_hops(2, 1).unwrap();
        assert_eq!((options.trainer().layers, options.trainer().alpha), (1, 0.2));
        assert_eq!(of(ModelKind::Sage).trainer().layers, 2);
    }

    #[test]
    fn hops_that_are_not_stored_train_as_those_of_a_set_without_them() {
        let fingerprint = |use_hops, stored| {
            let mut options = TrainingOptions { use_hops, ..of(ModelKind::Hoga) };
            options.check_for_hops(stored, 1).unwrap();
            fingerprint(&options)
        };
        assert_eq!(fingerprint(Some(2), 5), fingerprint(None, 2));
        assert_ne!(fingerprint(None, 5), fingerprint(None, 2));
    }

    #[test]
    fn options_of_the_other_sort_of_model_are_refused_with_an_alternative() {
        let usual = TrainingOptions::default;
        let sampled =
            |options: TrainingOptions| options.check(&LoaderOptions::default()).unwrap_err().to_string();
        let hops = |mut options: TrainingOptions| options.check_for_hops(3, 1).unwrap_err().to_string();
        for model in [ModelKind::Sgc, ModelKind::S2gc, ModelKind::Sign, ModelKind::Hoga] {
            let refused = sampled(of(model));
            assert!(refused.contains("model=") && refused.contains("uvatrain propagate"), "{refused}");
            assert!(of(model).check_for_hops(3, 1).is_ok());
        }
        let refused = hops(usual());
        assert!(refused.contains("model=sage") && refused.contains("sgc, s2gc, sign or hoga"), "{refused}");
        for (options, name) in [
            (TrainingOptions { layers: Some(3), ..usual() }, "layers"),
            (TrainingOptions { use_hops: Some(3), ..usual() }, "use_hops"),
            (TrainingOptions { alpha: Some(0.3), ..usual() }, "alpha"),
            (TrainingOptions { activation: Some(ActivationKind::Prelu), ..usual() }, "activation"),
        ] {
            let refused = sampled(options);
            assert!(refused.starts_with(&format!("{name}: only valid with model=")), "{refused}");
        }
        let aggregate = Aggregate::Host;
        for (options, name) in [
            (TrainingOptions { residual: true, ..of(ModelKind::Sign) }, "residual"),
            (TrainingOptions { norm: NormKind::Layer, ..of(ModelKind::Hoga) }, "norm"),
            (TrainingOptions { feature_norm: FeatureNorm::Row, ..of(ModelKind::Sgc) }, "feature_norm"),
            (TrainingOptions { aggregate, ..of(ModelKind::Sign) }, "aggregate"),
            (TrainingOptions { evaluate_by: EvaluateBy::Full, ..of(ModelKind::Sign) }, "eval"),
            (TrainingOptions { heads: Some(2), ..of(ModelKind::Sign) }, "heads"),
            (TrainingOptions { output_heads: Some(2), ..of(ModelKind::Hoga) }, "output_heads"),
            (TrainingOptions { attention_dropout: Some(0.5), ..of(ModelKind::Hoga) }, "attention_dropout"),
            (TrainingOptions { layers: Some(2), ..of(ModelKind::Sgc) }, "layers"),
            (TrainingOptions { alpha: Some(0.5), ..of(ModelKind::Sign) }, "alpha"),
            (TrainingOptions { activation: Some(ActivationKind::Relu), ..of(ModelKind::Hoga) }, "activation"),
        ] {
            let refused = hops(options);
            assert!(refused.starts_with(&format!("{name}: ")), "{name}: {refused}");
        }
        let refused = hops(TrainingOptions { layers: Some(1), ..of(ModelKind::Sign) });
        assert_eq!(refused, "layers=1: model=sign requires at least 2 layers");
        let refused = hops(TrainingOptions { heads: Some(3), ..of(ModelKind::Hoga) });
        assert_eq!(refused, "heads: 3 heads do not divide hidden=128");
        let refused = hops(TrainingOptions { use_hops: Some(4), ..of(ModelKind::Hoga) });
        assert_eq!(refused, "use_hops=4: the hop set has only 3; make more with `uvatrain propagate`");
        let refused = of(ModelKind::S2gc).check_for_hops(3, 2).unwrap_err().to_string();
        assert!(refused.contains("hops of one operator") && refused.contains("model=sign"), "{refused}");
    }
}
