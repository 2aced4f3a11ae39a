//! An estimate of the memory that partitioning a graph requires.

use uva_files::disk_space::BytesOnDisk;
use uva_graph::{Dataset, GraphError, Split};

use crate::auto;
use crate::methods::closures;
use crate::methods::levels::multilevel;
use crate::options::{Method, PartitionOptions};

/// Bytes of an edge between two blocks: the other block, and how many edges there are.
const BLOCK_EDGE: u64 = 4 + 8;

/// Approximate bytes that partitioning `dataset` uses, without its mapped files. The estimate assumes twice as many
/// blocks of bgl as there would be if all were full.
#[must_use]
pub fn bytes(dataset: &Dataset, options: &PartitionOptions) -> u64 {
    let (nodes, edges) = (dataset.nodes() as u64, dataset.edges() as u64);
    let train = dataset.split(Split::Train).len() as u64;
    let is_reordered = dataset.original_ids().is_some();
    // Random keys with their nodes, sorted before the lists are made.
    let order = 16 * nodes + 4 * nodes;
    // Out-lists and their ends, the set of training nodes, the position of each original id; the random order.
    let places = if is_reordered { 4 * nodes } else { 0 };
    let lists = (8 + 1 + 4) * nodes + 4 * edges + 4 * train + places;
    let blocks = || {
        let most = 2 * nodes.div_ceil(options.nodes_a_block(dataset.nodes()).max(1));
        let pairs = (2 * edges).min(most.saturating_mul(most));
        (4 + 4) * nodes + pairs.saturating_mul(BLOCK_EDGE)
    };
    let results = |count: u64| 2 * count * nodes;
    let method = match options.method {
        Method::Pagraph => closures::bytes(dataset.nodes(), options.parts),
        Method::Bgl => results(1) + blocks(),
        Method::Multilevel => results(2).saturating_add(multilevel::bytes(nodes, edges)),
        Method::Ldg | Method::Range | Method::Random => results(1),
        // The best result so far is kept while the next is made. A sampler has a place for each node.
        Method::Auto => {
            let samplers = 4 * nodes * rayon::current_num_threads() as u64 + 16 * train;
            let levels = match auto::tried(edges).contains(&Method::Multilevel) {
                true => multilevel::bytes(nodes, edges),
                false => 0,
            };
            results(3).saturating_add(blocks().max(samplers).max(levels))
        }
    };
    order.max(lists.saturating_add(method))
}

/// Refuses a method that would use more memory than the options allow.
pub(crate) fn check(dataset: &Dataset, options: &PartitionOptions) -> Result<(), GraphError> {
    let needed = bytes(dataset, options);
    if needed <= options.memory {
        return Ok(());
    }
    let (needed, allowed) = (BytesOnDisk(needed), BytesOnDisk(options.memory));
    let fewer = match options.method {
        Method::Pagraph => "take fewer `parts`, or bgl",
        Method::Auto | Method::Bgl | Method::Multilevel => "take ldg or range",
        Method::Ldg | Method::Range | Method::Random => "the lists of edges in both directions do not fit",
    };
    let message = format!(
        "dividing by {} takes about {needed} of memory, and {allowed} are allowed: {fewer}, or allow more on a machine that has it",
        options.method
    );
    Err(GraphError::usage("memory", message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition;
    use crate::testing::{Lists, on_threads, unwatched};

    #[test]
    fn what_takes_more_memory_than_is_allowed_is_refused_with_both_numbers() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = Lists::planted(1, 4000, 4, 6, 80, 4).dataset(temp.path());
        // The samplers of auto are counted by the threads.
        on_threads(2, || {
            for method in Method::ALL {
                let allowed = |memory| PartitionOptions { method, memory, ..PartitionOptions::of_parts(4) };
                let needed = bytes(&dataset, &allowed(0));
                // At least the lists in both directions; no more than a generous bound for each node and edge.
                assert!((24_000 * 4..4000 * 200 + 24_000 * 200).contains(&needed), "{method}: {needed}");
                partition(&dataset, &allowed(needed), &unwatched).unwrap();
                let refused = partition(&dataset, &allowed(needed - 1), &unwatched).unwrap_err().to_string();
                let number = BytesOnDisk(needed).to_string();
                assert!(
                    refused.starts_with("`memory`: ") && refused.contains(&number),
                    "{method}: {refused}"
                );
            }
        });
        // Sets of closures are a bit for each node and part.
        let of_parts = |parts| {
            bytes(
                &dataset,
                &PartitionOptions { method: Method::Pagraph, ..PartitionOptions::of_parts(parts) },
            )
        };
        assert!(of_parts(900) > of_parts(4) + 800 * 4000 / 8);
    }
}
