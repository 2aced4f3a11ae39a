//! Partitions that ignore the edges.

/// Consecutive ids: node `v` of `N` is in part `⌊v · k / N⌋`. Sizes differ by at most one.
pub(crate) fn range(nodes: usize, parts: u32) -> Vec<u16> {
    (0..nodes).map(|place| part_of_place(place, nodes, parts)).collect()
}

/// Consecutive positions in a random order.
pub(crate) fn random(order: &[u32], parts: u32) -> Vec<u16> {
    let mut of = vec![0; order.len()];
    for (place, &node) in order.iter().enumerate() {
        of[node as usize] = part_of_place(place, order.len(), parts);
    }
    of
}

fn part_of_place(place: usize, places: usize, parts: u32) -> u16 {
    // Below `parts`, since the position is below the number of positions.
    (place as u64 * u64::from(parts) / places as u64) as u16
}
