//! The whole neighbourhoods of a dataset, as a model was trained on samples of them.

use uva_graph::Dataset;
use uva_runtime::{LoaderOptions, RuntimeError};
use uva_train::WholeData;

/// All nodes and edges, except that of a relation with a fanout of 0 in a hop the layer of this hop reads nothing.
///
/// # Errors
/// Fanouts that do not fit the relations of the dataset.
pub(crate) fn whole_rows<'d>(
    dataset: &'d Dataset,
    loader: &LoaderOptions,
) -> Result<WholeData<'d>, RuntimeError> {
    let mut data = WholeData::from(dataset);
    if dataset.is_homogeneous() {
        return Ok(data);
    }
    let metagraph = dataset.metagraph();
    let fanouts = loader.sampling_in(metagraph)?.fanouts;
    for relation in metagraph.relations() {
        let hops = fanouts.of_relation(relation).enumerate().filter(|(_, fanout)| *fanout == 0);
        data.unread.extend(hops.map(|(hop, _)| (hop, relation.index())));
    }
    Ok(data)
}
