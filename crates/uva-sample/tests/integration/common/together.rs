//! The kinds that draw nodes for all destinations of a hop together, implemented straightforwardly.

use std::collections::{HashMap, HashSet};

use uva_sample::SamplerKind;
use uva_sample::philox::{RandomPurpose, StreamKey};

use super::{Graph, exponential};

/// The picked entries of each list, and their weights. `stream_named` is the stream of an original id, or of a draw,
/// for a purpose.
pub fn picks(
    graph: &Graph,
    kind: SamplerKind,
    (seeds, lists): (&[i64], &[Vec<i64>]),
    fanout: usize,
    stream_named: impl Fn(u64, RandomPurpose) -> StreamKey,
) -> Vec<Vec<(u32, f32)>> {
    let weights = |name| stream_named(name, RandomPurpose::Weights);
    let subgraph = |name| StreamKey { layer: 0, ..stream_named(name, RandomPurpose::Subgraphs) };
    match kind.name() {
        "ladies" => ladies(graph, lists, fanout, weights),
        _ if fanout == usize::MAX => all(lists),
        "fastgcn" => fastgcn(graph, lists, fanout, weights),
        "saint-node" => {
            let sums = importance_of_nodes(graph);
            let drawn = drawn(graph, &sums, fanout, subgraph);
            let members = drawn.into_iter().map(|(node, _)| (node, sums[node as usize])).collect();
            saint(seeds, lists, members, (sums.iter().sum(), fanout))
        }
        "saint-edge" => saint_edge(graph, seeds, lists, fanout, subgraph),
        other => panic!("{other} draws list by list"),
    }
}

fn importance(list: &[i64]) -> u64 {
    ((1 << 32) / (list.len() as u64).pow(2)).max(1)
}

fn all(lists: &[Vec<i64>]) -> Vec<Vec<(u32, f32)>> {
    chosen(lists, |list| 1.0 / list.len() as f64, |_, mean| Some(mean))
}

/// The entries whose node has a weight in its list, given a value computed from the list.
fn chosen(
    lists: &[Vec<i64>],
    of_list: impl Fn(&[i64]) -> f64,
    weight: impl Fn(i64, f64) -> Option<f64>,
) -> Vec<Vec<(u32, f32)>> {
    let of_list = |list: &Vec<i64>| {
        let (entries, of_list) = ((0..).zip(list), of_list(list));
        entries.filter_map(|(place, &node)| Some((place, weight(node, of_list)? as f32))).collect()
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
    // A stable sort: among equal keys, those that appeared first.
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let drawn: HashSet<i64> = keyed[..fanout].iter().map(|&(_, node)| node).collect();
    let share = |node: i64| if drawn.contains(&node) { 1.0 / sums[&node] as f64 } else { 0.0 };
    let total = |list: &[i64]| list.iter().fold(0.0, |total, &node| total + share(node));
    chosen(lists, total, |node, total| drawn.contains(&node).then(|| share(node) / total))
}

/// The contribution of the lists of the whole graph to the importance of each node.
fn importance_of_nodes(graph: &Graph) -> Vec<u64> {
    let nodes = graph.indptr.len() as i64 - 1;
    let mut sums = vec![0_u64; nodes as usize];
    for list in (0..nodes).map(|node| graph.list(node)) {
        list.iter().for_each(|&node| sums[node as usize] += importance(&list));
    }
    sums
}

/// The node selected by each draw, by sums in the order of original ids, and the distance from the sum of those before.
fn drawn(
    graph: &Graph,
    importance: &[u64],
    draws: usize,
    stream_named: impl Fn(u64) -> StreamKey,
) -> Vec<(i64, u64)> {
    let total: u64 = importance.iter().sum();
    if total == 0 {
        return Vec::new();
    }
    let mut order: Vec<i64> = (0..importance.len() as i64).collect();
    order.sort_by_key(|&node| graph.original(node));
    let mut before = vec![0];
    for &node in &order {
        before.push(before[before.len() - 1] + importance[node as usize]);
    }
    let place = |draw| {
        let drawn = stream_named(draw).stream().bounded_u64(total);
        let place = before.partition_point(|&sum| sum <= drawn) - 1;
        (order[place], drawn - before[place])
    };
    (0..draws as u64).map(place).collect()
}

fn fastgcn(
    graph: &Graph,
    lists: &[Vec<i64>],
    fanout: usize,
    stream_named: impl Fn(u64) -> StreamKey,
) -> Vec<Vec<(u32, f32)>> {
    let sums = importance_of_nodes(graph);
    let total: u64 = sums.iter().sum();
    let mut counts = HashMap::new();
    for (node, _) in drawn(graph, &sums, fanout, stream_named) {
        *counts.entry(node).or_insert(0_u32) += 1;
    }
    let degree = |list: &[i64]| list.len() as f64;
    chosen(lists, degree, |node, degree| {
        let numerator = f64::from(*counts.get(&node)?) * total as f64;
        Some(numerator / (fanout as f64 * sums[node as usize] as f64 * degree))
    })
}

fn saint_edge(
    graph: &Graph,
    seeds: &[i64],
    lists: &[Vec<i64>],
    fanout: usize,
    stream_named: impl Fn(u64) -> StreamKey,
) -> Vec<Vec<(u32, f32)>> {
    let nodes = graph.indptr.len() as i64 - 1;
    let length = |node: i64| (graph.indptr[node as usize + 1] - graph.indptr[node as usize]) as u64;
    let of_end = |node: i64| ((1 << 32) / length(node).max(1)).max(1);
    let edges = |node: i64| -> Vec<(i64, u64)> {
        graph.list(node).into_iter().map(|other| (other, of_end(node) + of_end(other))).collect()
    };
    let (mut of_lists, mut parts) = (vec![0; nodes as usize], vec![0; nodes as usize]);
    for node in 0..nodes {
        for (other, importance) in edges(node) {
            of_lists[node as usize] += importance;
            parts[node as usize] += importance;
            if other != node {
                parts[other as usize] += importance;
            }
        }
    }
    let mut members = Vec::new();
    for (node, mut left) in drawn(graph, &of_lists, fanout, stream_named) {
        members.push((node, parts[node as usize]));
        for (other, importance) in edges(node) {
            if left < importance {
                members.push((other, parts[other as usize]));
                break;
            }
            left -= importance;
        }
    }
    saint(seeds, lists, members, (of_lists.iter().sum(), fanout))
}

/// The entries that name a seed or a drawn member, with the share of the whole sum that draws each.
fn saint(
    seeds: &[i64],
    lists: &[Vec<i64>],
    drawn: Vec<(i64, u64)>,
    (total, draws): (u64, usize),
) -> Vec<Vec<(u32, f32)>> {
    let chance = |part: u64| {
        let (mut chance, mut power, mut left) = (0.0, part as f64 / total as f64, draws);
        while left > 0 {
            if left % 2 == 1 {
                chance = (chance + power) - chance * power;
            }
            power = (power + power) - power * power;
            left /= 2;
        }
        chance
    };
    let mut shares: HashMap<i64, f64> =
        drawn.into_iter().map(|(node, part)| (node, 1.0 / chance(part))).collect();
    shares.extend(seeds.iter().map(|&seed| (seed, 1.0)));
    let total = |list: &[i64]| list.iter().fold(0.0, |total, node| total + shares.get(node).unwrap_or(&0.0));
    chosen(lists, total, |node, total| Some(*shares.get(&node)? / total))
}
