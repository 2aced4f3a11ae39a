//! The choice of the kind of data.

use uva_graph::Dataset;

use super::hop_data::HopData;
use super::model_data::ModelData;
use super::sampled_data::SampledData;
use super::typed_data::TypedData;

/// The kind of this dataset's data.
pub(crate) fn model_data(dataset: &Dataset) -> Box<dyn ModelData + '_> {
    match dataset.hops() {
        Some(hops) => Box::new(HopData::new(dataset, hops)),
        None if dataset.is_homogeneous() => Box::new(SampledData { dataset }),
        None => Box::new(TypedData { dataset }),
    }
}
