//! The kinds that draw the nodes of a layer together, as one would write them without caring for speed.

use std::collections::{HashMap, HashSet};

use uva_sample::SamplerKind;
use uva_sample::philox::StreamKey;

use super::{Graph, exponential};

/// Which entries of each list are picked, and what they weigh. `stream_named` is the stream of an original id, or of a
/// draw.
pub fn picks(
    graph: &Graph,
    kind: SamplerKind,
    lists: &[Vec<i64>],
    fanout: usize,
    stream_named: impl Fn(u64) -> StreamKey,
) -> Vec<Vec<(u32, f32)>> {
    if kind == SamplerKind::Ladies {
        ladies(graph, lists, fanout, stream_named)
    } else if fanout == usize::MAX {
        all(lists)
    } else {
        fastgcn(graph, lists, fanout, stream_named)
    }
}

fn importance(list: &[i64]) -> u64 {
    ((1 << 32) / (list.len() as u64).pow(2)).max(1)
}

fn all(lists: &[Vec<i64>]) -> Vec<Vec<(u32, f32)>> {
    chosen(lists, |_, list| Some(1.0 / list.len() as f64))
}

/// The entries whose node has a weight in its list.
fn chosen(lists: &[Vec<i64>], weight: impl Fn(i64, &[i64]) -> Option<f64>) -> Vec<Vec<(u32, f32)>> {
    let of_list = |list: &Vec<i64>| {
        let entries = (0..).zip(list);
        entries.filter_map(|(place, &node)| Some((place, weight(node, list)? as f32))).collect()
    };
    lists.iter().map(of_list).collect()
}

fn ladies(
    graph: &Graph,
    lists: &[Vec<i64>],
    fanout: usize,
    stream_named: impl Fn(u64) -> StreamKey,
) -> Vec<Vec<(u32, f32)>> {
    let (mut sums, mut order) = (HashMap::new(), Vec::new());
    for list in lists {
        for &node in list {
            *sums.entry(node).or_insert_with(|| {
                order.push(node);
                0
            }) += importance(list);
        }
    }
    if order.len() <= fanout {
        return all(lists);
    }
    let key = |&node: &i64| {
        let word = stream_named(graph.original(node)).stream().next_u32();
        exponential(word.into()) as f64 / sums[&node] as f64
    };
    let mut keyed: Vec<(f64, i64)> = order.iter().map(|node| (key(node), *node)).collect();
    // A stable sort: of equal keys those that appeared first.
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let drawn: HashSet<i64> = keyed[..fanout].iter().map(|&(_, node)| node).collect();
    let share = |node: i64| if drawn.contains(&node) { 1.0 / sums[&node] as f64 } else { 0.0 };
    chosen(lists, |node, list| {
        let total = list.iter().fold(0.0, |total, &node| total + share(node));
        drawn.contains(&node).then(|| share(node) / total)
    })
}

fn fastgcn(
    graph: &Graph,
    lists: &[Vec<i64>],
    fanout: usize,
    stream_named: impl Fn(u64) -> StreamKey,
) -> Vec<Vec<(u32, f32)>> {
    let nodes = graph.indptr.len() as i64 - 1;
    let mut sums = vec![0_u64; nodes as usize];
    for list in (0..nodes).map(|node| graph.list(node)) {
        list.iter().for_each(|&node| sums[node as usize] += importance(&list));
    }
    let total: u64 = sums.iter().sum();
    let mut order: Vec<i64> = (0..nodes).collect();
    order.sort_by_key(|&node| graph.original(node));
    let mut drawn = Vec::new();
    if total > 0 {
        drawn.extend((0..fanout as u64).map(|draw| stream_named(draw).stream().bounded_u64(total)));
        drawn.sort_unstable();
    }
    let (mut counts, mut end) = (HashMap::new(), 0);
    let mut drawn = drawn.into_iter().peekable();
    for &node in &order {
        end += sums[node as usize];
        while drawn.next_if(|&draw| draw < end).is_some() {
            *counts.entry(node).or_insert(0_u32) += 1;
        }
    }
    chosen(lists, |node, list| {
        let numerator = f64::from(*counts.get(&node)?) * total as f64;
        Some(numerator / (fanout as f64 * sums[node as usize] as f64 * list.len() as f64))
    })
}
