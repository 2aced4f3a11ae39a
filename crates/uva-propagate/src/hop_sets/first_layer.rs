//! A hop set that replaces the aggregation of a model's first layer (PaGraph): the layer's sums are precomputed.

use std::path::Path;

use uva_graph::npy::NpyArray;
use uva_graph::{Dataset, GraphError, NodeRows};
use uva_model::FeatureNorm;

use crate::hop_sets::description::{FILE_NAME, HopSet};
use crate::operator::Operator;
use crate::options::{Layout, RowOrder};

/// The option that names such a hop set.
const OPTION: &str = "first_layer";

#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error(
        "its rows are in the order \"{0}\", but a batch finds rows by node: make it with `uvatrain propagate --nodes all \
         --row-order nodes`"
    )]
    Order(RowOrder),
    #[error(
        "it was made from a dataset with the fingerprint {found} ({name}), but this one has {wanted}: make it from this \
         dataset"
    )]
    OtherDataset { found: String, name: String, wanted: String },
    #[error("it has {0} hops in all, but a first layer uses one hop of one operator: make it with `hops=1`")]
    Hops(usize),
    #[error("its operator is {0}, but a first layer requires row (sage) or sym (gcn)")]
    OtherOperator(String),
    #[error(
        "its operator is row, so a first layer needs a node's own row next to its mean: make it with `layout=rows`"
    )]
    RowsApart,
    #[error(
        "its operator is sym, whose sum is all that a first layer needs: make it with `layout=hops`, so that a row is the \
         sum alone"
    )]
    RowsTogether,
    #[error(
        "this dataset is a part of another, where lists at the border are missing: use the whole dataset"
    )]
    OfPart,
    #[error(
        "its sums are weighted by weight.npy, but a layer over sampled neighbours is not: make it without `weighted`"
    )]
    Weighted,
    #[error("its features were normalised, but those of the dataset are not: make it without `feature_norm`")]
    Normalised,
}

impl HopSet {
    /// The dataset with the rows of the hop set at `path` instead of its feature table: \[x, mean of the neighbours'
    /// x\] for the operator `row`, the sum alone for `sym`. `checked` means that another process has compared both.
    ///
    /// # Errors
    /// [`GraphError::Invalid`] for a hop set that does not fit a first layer or belongs to another dataset;
    /// [`GraphError::Usage`] for a dataset without a table of all rows.
    pub fn first_layer_of(
        &self,
        path: &Path,
        dataset: Dataset,
        checked: bool,
    ) -> Result<Dataset, GraphError> {
        let unfit = |problem| GraphError::invalid(&path.join(FILE_NAME), problem);
        if !checked {
            self.check_first_layer(&dataset).map_err(unfit)?;
        }
        let name = self.hop_files().pop().ok_or_else(|| unfit(Unfit::Hops(0)))?;
        let dim = if self.keeps_own_rows() { self.dim * self.hops() } else { self.dim };
        let rows = NodeRows { array: NpyArray::open(&path.join(name))?, dim, element: self.dtype.element() };
        dataset.with_rows(rows, OPTION)
    }

    fn check_first_layer(&self, dataset: &Dataset) -> Result<(), Unfit> {
        if self.dataset.fingerprint != dataset.fingerprint() {
            let (found, name) = (self.dataset.fingerprint.clone(), self.dataset.name.clone());
            return Err(Unfit::OtherDataset { found, name, wanted: dataset.fingerprint() });
        }
        if dataset.part().is_some() {
            return Err(Unfit::OfPart);
        }
        if self.order.kind != RowOrder::Nodes {
            return Err(Unfit::Order(self.order.kind));
        }
        let ([operator], 2) = (&self.operators[..], self.hops()) else {
            return Err(Unfit::Hops(self.hops() - 1));
        };
        if operator.weighted {
            return Err(Unfit::Weighted);
        }
        if self.feature_norm != FeatureNorm::None {
            return Err(Unfit::Normalised);
        }
        match (operator.name.parse(), self.layout) {
            (Ok(Operator::Row), Layout::Rows) | (Ok(Operator::Sym), Layout::Hops) => Ok(()),
            (Ok(Operator::Row), Layout::Hops) => Err(Unfit::RowsApart),
            (Ok(Operator::Sym), Layout::Rows) => Err(Unfit::RowsTogether),
            _ => Err(Unfit::OtherOperator(operator.name.clone())),
        }
    }

    /// Whether a row has the node's own features in addition to the sum over its neighbours.
    pub fn keeps_own_rows(&self) -> bool {
        self.layout == Layout::Rows
    }
}
