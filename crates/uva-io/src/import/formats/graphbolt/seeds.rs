//! The seeds of a set.

use uva_graph::GraphError;

use crate::import::reading::nodes::NodeRange;
use crate::import::reading::stream::ArrayStream;

/// The seeds of a set, checked.
pub(super) fn seed_ids(seeds: &mut ArrayStream, nodes: u64) -> Result<Vec<i64>, GraphError> {
    if seeds.shape().len() != 1 {
        return Err(seeds.wrong_shape("[seeds]: nodes; pairs of nodes are another task than this"));
    }
    let ids = seeds.all_integers()?;
    let known = NodeRange::new(nodes, format!("metadata.yaml has num: {nodes}"));
    seeds.check_ids(&ids, &known, |seed| format!("seed {seed}"))?;
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let last = ids.iter().rposition(|&id| id == twice[0]).unwrap_or(0);
        return Err(seeds.wrong_entry(ids.len() - last, twice[0], "named twice in one set"));
    }
    Ok(ids)
}
