//! The options of a trainer.

use serde::{Deserialize, Serialize};
use uva_options::named;

use crate::classes::class_weights::ClassWeights;
use crate::hops::hop_model::ActivationKind;
use crate::model_kind::{HEADS, ModelKind, Weighting};
use crate::options_error::OptionsError;
use crate::relations::embedding::EmbeddingInit;
use crate::relations::model_graph::ModelGraph;
use crate::relations::relation_model::{RelationSum, RelationWeights, RootKind};

named! {
    /// The normalisation of feature rows before the first layer. A row of zeros does not change.
    pub enum FeatureNorm = None {
        /// Unchanged rows.
        None = "none",
        /// Each row divided by the sum of its absolute values; usual for word counts.
        Row = "row",
    }
}

named! {
    /// The normalisation of rows between layers. [`Layer`](Self::Layer) is that of Ba et al. (2016).
    pub enum NormKind = None {
        /// No normalisation.
        None = "none",
        /// Layer normalisation: each row normalised to mean 0 and variance 1, then scaled and shifted.
        Layer = "layer",
    }
}

named! {
    /// The precision of matrix products of float32 numbers on a CPU. Their sums are of float32.
    pub enum MatmulPrecision = Float32 {
        /// All bits of the factors.
        Float32 = "float32",
        /// Factors rounded to bfloat16, for processors that multiply those.
        Bfloat16 = "bfloat16",
    }
}

fn usual_heads() -> usize {
    HEADS
}

fn are_usual_heads(heads: &usize) -> bool {
    *heads == HEADS
}

/// The default share of the features in a mean over hops, as published for S²GC.
const ALPHA: f64 = 0.05;

fn usual_alpha() -> f64 {
    ALPHA
}

fn is_usual_alpha(alpha: &f64) -> bool {
    *alpha == ALPHA
}

fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Everything that a trainer depends on, except for the data. Checkpoints contain it. Options of some models are written only if
/// they differ from the default, so that options may be added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainerOptions {
    /// The kind of network.
    pub model: ModelKind,
    /// Width of every layer but the last, which is as wide as there are classes.
    pub hidden: usize,
    /// GAT, HOGA: heads of a hidden layer. They divide its columns between them.
    #[serde(default = "usual_heads", skip_serializing_if = "are_usual_heads")]
    pub heads: usize,
    /// GAT: heads of the last layer, each as wide as there are classes, which are averaged; `None` for as many as the
    /// others have. With `residual` no layer is the last in this sense.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub output_heads: Option<usize>,
    /// GAT: probability of dropping a neighbour's weight; 0 ≤ p < 1.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub attention_dropout: f64,
    /// Features of an edge; 0 where the model gets none.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub edge_dim: usize,
    /// Whether each layer adds to its rows instead of replacing them, between a linear map to `hidden` columns and one
    /// to the logits (Platonov et al. 2023).
    #[serde(default, skip_serializing_if = "is_usual")]
    pub residual: bool,
    /// The normalisation of rows between layers: after each but the last; with `residual` before each, and at the end.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub norm: NormKind,
    /// Number of layers; of a model over blocks also that of blocks in a batch, but for a first layer that is given.
    pub layers: usize,
    /// Whether rows come with the first layer's sums: it is then a map of each row, and takes no block.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub first_layer_given: bool,
    /// Hops of each operator that a model over a hop set reads in addition to the features; 0 for other models.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub hops: usize,
    /// Operators of that hop set; 0 for other models.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub operators: usize,
    /// S²GC: the share of the features in each hop of the mean, between 0 and 1.
    #[serde(default = "usual_alpha", skip_serializing_if = "is_usual_alpha")]
    pub alpha: f64,
    /// Models over relations: the types of the graph; `None` for other models.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub graph: Option<ModelGraph>,
    /// Models over relations: the map of a node's own row.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub root: RootKind,
    /// Models over relations: how the results of the relations into a type become its rows.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub relation_sum: RelationSum,
    /// R-GCN: what the matrices of the relations are made of.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub relation_weights: RelationWeights,
    /// Models over relations: elements of a trained row of a node without features; `None` for as many as `hidden`.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub embedding_dim: Option<usize>,
    /// Models over relations: how these rows begin.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub embedding_init: EmbeddingInit,
    /// SIGN: the function between layers.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub activation: ActivationKind,
    /// Probability of dropping an element between two layers; 0 ≤ p < 1.
    pub dropout: f64,
    /// Probability of dropping an element of the features; 0 ≤ p < 1.
    pub input_dropout: f64,
    /// Adam's step size.
    pub learning_rate: f64,
    /// L2 penalty added to the gradient, as `torch.optim.Adam` does it.
    pub weight_decay: f64,
    /// Weights of the classes in the loss of training; `None`: every node counts the same.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub class_weights: Option<ClassWeights>,
    /// The normalisation of feature rows.
    pub feature_norm: FeatureNorm,
    /// Seeds the parameters and the dropout of every batch.
    pub seed: u64,
    /// The precision of matrix products in training; a trained model is always used with float32.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub matmul_precision: MatmulPrecision,
    /// Threads of one libtorch operation; `None` leaves libtorch's own choice. Losses are equal bit for bit only
    /// for equal numbers.
    pub threads: Option<usize>,
}

impl Default for TrainerOptions {
    fn default() -> Self {
        Self {
            model: ModelKind::Sage,
            hidden: 128,
            heads: HEADS,
            output_heads: None,
            attention_dropout: 0.0,
            edge_dim: 0,
            residual: false,
            norm: NormKind::None,
            layers: 2,
            first_layer_given: false,
            hops: 0,
            operators: 0,
            alpha: ALPHA,
            graph: None,
            root: RootKind::Relation,
            relation_sum: RelationSum::Sum,
            relation_weights: RelationWeights::Free,
            embedding_dim: None,
            embedding_init: EmbeddingInit::Xavier,
            activation: ActivationKind::Relu,
            dropout: 0.5,
            input_dropout: 0.0,
            learning_rate: 0.01,
            weight_decay: 5e-4,
            class_weights: None,
            feature_norm: FeatureNorm::None,
            seed: 0,
            matmul_precision: MatmulPrecision::Float32,
            threads: None,
        }
    }
}

impl TrainerOptions {
    /// Widest layer that is accepted: far above any use, and small enough that no size computed from it overflows.
    pub const MAX_WIDTH: usize = 1 << 24;

    /// Most heads of a last layer, likewise.
    const MAX_HEADS: usize = 1 << 10;

    /// The option, with its value, for which the first layer in training cannot begin with sums made elsewhere, and why
    /// not; `None` where it can. Such sums have no part for a trained parameter, and take the rows as they lie in the table.
    #[must_use]
    pub fn refuses_sums(&self) -> Option<(String, &'static str)> {
        let model = self.model.row();
        if model.reads_relations() {
            return Some((format!("`model={}`", model.name), "each relation has its own sums"));
        }
        match model.weighting {
            Weighting::Mean | Weighting::Degrees => {}
            Weighting::Attention => {
                let option = format!("`model={}`", model.name);
                return Some((
                    option,
                    "the weights of its sums depend on the trained parameters of the step",
                ));
            }
            Weighting::Sum => {
                return Some((
                    format!("`model={}`", model.name),
                    "sums for this model are not supported yet",
                ));
            }
            Weighting::Beforehand => {
                return Some((
                    format!("`model={}`", model.name),
                    "the model has no layer over neighbours: its sums are in the hop set",
                ));
            }
        }
        let refused = |option: &str, why| Some((option.to_owned(), why));
        if self.first_layer_given {
            return refused("`first_layer`", "the hop set already contains the sums of the first layer");
        }
        if self.residual {
            return refused("`residual`", "a trained linear map of each row comes before the first sum");
        }
        if self.input_dropout > 0.0 {
            return refused("`input_dropout`", "each batch drops different elements of each row");
        }
        if self.feature_norm == FeatureNorm::Row {
            return refused(
                "`feature_norm=row`",
                "each row is divided before the sum; normalise the rows of the table once instead",
            );
        }
        None
    }

    /// As [`refuses_sums`](Self::refuses_sums) for a trained model in use, which drops nothing.
    #[must_use]
    pub fn refuses_sums_in_use(&self) -> Option<(String, &'static str)> {
        Self { input_dropout: 0.0, ..self.clone() }.refuses_sums()
    }

    /// Blocks of a batch.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.layers.saturating_sub(usize::from(self.first_layer_given))
    }

    /// Columns of the input of the first layer's maps, for rows of this many columns.
    #[must_use]
    pub fn first_inputs(&self, row: usize) -> usize {
        // The node's own row and its mean lie side by side.
        if self.first_layer_given && self.model.row().weighting == Weighting::Mean { row / 2 } else { row }
    }

    /// The same network where rows come alone: its first layer sums, as the others do.
    #[must_use]
    pub fn over_neighbours(self) -> Self {
        Self { first_layer_given: false, ..self }
    }

    /// The option for which a first layer cannot be given in training, and why not; `None` where it can.
    #[must_use]
    pub fn refuses_given_layer(&self) -> Option<(String, &'static str)> {
        self.clone().over_neighbours().refuses_sums()
    }

    /// Refuses options and widths that no network can be made of. Comparisons are written so that NaN is refused too.
    ///
    /// # Errors
    /// [`OptionsError`] with the option or the width, and its range.
    pub fn check(&self, input_dim: usize, classes: usize) -> Result<(), OptionsError> {
        let refuse = |option, problem: String| Err(OptionsError::Option { option, problem });
        if self.hidden == 0 || self.hidden > Self::MAX_WIDTH {
            return refuse("hidden", format!("{} is not between 1 and {}", self.hidden, Self::MAX_WIDTH));
        }
        if self.layers == 0 || self.layers > 32 {
            let option = self.model.row().form.layers_option;
            return refuse(option, format!("{} layers: expected 1 to 32", self.layers));
        }
        self.check_hops()?;
        self.check_relations(classes)?;
        if self.first_layer_given {
            self.check_given_layer(input_dim)?;
        }
        if self.heads == 0 || self.heads > Self::MAX_WIDTH {
            return refuse("heads", format!("{} is not between 1 and {}", self.heads, Self::MAX_WIDTH));
        }
        if self.model.row().has_heads() && !self.hidden.is_multiple_of(self.heads) {
            let problem = format!("{} heads do not divide a `hidden` of {}", self.heads, self.hidden);
            return refuse("heads", problem);
        }
        if self.output_heads.is_some_and(|heads| heads == 0 || heads > Self::MAX_HEADS) {
            return refuse("output_heads", format!("not between 1 and {}", Self::MAX_HEADS));
        }
        for (option, value) in [
            ("dropout", self.dropout),
            ("input_dropout", self.input_dropout),
            ("attention_dropout", self.attention_dropout),
        ] {
            if !(0.0..1.0).contains(&value) {
                return refuse(option, format!("{value} is not at least 0 and below 1"));
            }
        }
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return refuse("lr", format!("{} is not a positive number", self.learning_rate));
        }
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            return refuse("weight_decay", format!("{} is not zero or a positive number", self.weight_decay));
        }
        if let Some(ClassWeights::Given(weights)) = &self.class_weights
            && weights.len() != classes
        {
            let problem = format!("{} weights for {classes} classes: give one for each class", weights.len());
            return refuse("class_weights", problem);
        }
        if self.threads.is_some_and(|threads| threads == 0 || threads > 4096) {
            return refuse("train_threads", "not between 1 and 4096".to_owned());
        }
        if self.model.row().needs_edge_features() && self.edge_dim == 0 {
            return Err(OptionsError::Unsupported(format!(
                "it has no edge features, and `model={}` requires them",
                self.model.name()
            )));
        }
        if self.edge_dim > Self::MAX_WIDTH || (self.edge_dim > 0 && !self.model.row().takes_edge_features()) {
            return Err(OptionsError::Unsupported(format!(
                "it has {} features per edge, which `model={}` does not support",
                self.edge_dim,
                self.model.name()
            )));
        }
        // The seeds of a model over relations may have no features.
        let least_columns = usize::from(!self.model.row().reads_relations());
        for (what, value, least) in [("feature columns", input_dim, least_columns), ("classes", classes, 1)] {
            if value < least || value > Self::MAX_WIDTH {
                return Err(OptionsError::Unsupported(format!(
                    "it has {value} {what}: expected {least} to {}",
                    Self::MAX_WIDTH
                )));
            }
        }
        Ok(())
    }

    /// Refuses a first layer that is given to a network that has none such, or in rows of another shape.
    fn check_given_layer(&self, input_dim: usize) -> Result<(), OptionsError> {
        let refuse = |problem: String| Err(OptionsError::Option { option: "first_layer", problem });
        if let Some((option, why)) = self.refuses_given_layer() {
            return refuse(format!("cannot be used with {option}: {why}"));
        }
        if self.layers < 2 {
            return refuse(format!(
                "{} layers: requires at least one more layer, over neighbours",
                self.layers
            ));
        }
        if self.model.row().weighting == Weighting::Mean && !input_dim.is_multiple_of(2) {
            return refuse(format!(
                "rows of {input_dim} columns: expected an even number, for two rows side by side"
            ));
        }
        Ok(())
    }
}
