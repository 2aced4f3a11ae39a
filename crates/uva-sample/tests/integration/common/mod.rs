//! Graphs built from lists, and a straightforward sampler without optimisations.
#![allow(dead_code, reason = "each test file uses a part of it")]

mod together;

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use uva_graph::{Csc, Indices, Relation, Split};
use uva_sample::philox::{RandomPurpose, StreamKey};
use uva_sample::{
    BatchBounds, BatchKey, BatchSampler, BlockRef, Expand, Fanouts, GraphView, MiniBatch, NeighborSampler,
    OriginalEdges, SamplerKind, SamplerOptions, batch_of_picks, sampler,
};

/// A graph that owns its arrays.
#[derive(Clone, Debug)]
pub struct Graph {
    pub indptr: Vec<i64>,
    pub indices: Ids,
    pub original_ids: Option<Vec<i64>>,
    /// For a reordered graph: the `indptr` of the original, and the original's id of each node.
    pub home: Option<(Vec<i64>, Vec<i64>)>,
    /// The weight of each edge, in the original's order.
    pub weights: Option<Vec<f32>>,
}

/// Neighbour ids in one of the two widths.
#[derive(Clone, Debug)]
pub enum Ids {
    I32(Vec<i32>),
    I64(Vec<i64>),
}

impl Graph {
    /// With 64-bit ids.
    pub fn from_lists(lists: &[Vec<i64>]) -> Self {
        let ends = lists.iter().scan(0, |end, list| {
            *end += list.len() as i64;
            Some(*end)
        });
        Self {
            indptr: std::iter::once(0).chain(ends).collect(),
            indices: Ids::I64(lists.concat()),
            original_ids: None,
            home: None,
            weights: None,
        }
    }

    /// Adds weights, list by list.
    pub fn weighted(mut self, weights: &[Vec<f32>]) -> Self {
        self.weights = Some(weights.concat());
        self
    }

    /// Converts the ids to 32 bits.
    pub fn narrow(mut self) -> Self {
        if let Ids::I64(wide) = self.indices {
            self.indices = Ids::I32(wide.into_iter().map(|id| i32::try_from(id).unwrap()).collect());
        }
        self
    }

    pub fn csc(&self) -> Csc<'_> {
        let indices = match &self.indices {
            Ids::I32(ids) => Indices::I32(ids),
            Ids::I64(ids) => Indices::I64(ids),
        };
        Csc { indptr: &self.indptr, indices, original_ids: self.original_ids.as_deref(), degrees: None }
    }

    pub fn view(&self) -> GraphView<'_> {
        let home = self.home.as_ref().map(|(indptr, nodes)| OriginalEdges { indptr, nodes });
        GraphView { weights: self.weights.as_deref(), home, ..self.csc().into() }
    }

    /// The sampler for these options, of their kind.
    pub fn sampler_for(&self, options: &SamplerOptions) -> Box<dyn BatchSampler + '_> {
        sampler(self.view(), options).unwrap()
    }

    pub fn list(&self, node: i64) -> Vec<i64> {
        let csc = self.csc();
        let range = csc.indptr[node as usize]..csc.indptr[node as usize + 1];
        range.map(|position| csc.indices.get(position as usize)).collect()
    }

    /// The original id of a node.
    pub fn original(&self, node: i64) -> u64 {
        self.original_ids.as_ref().map_or(node, |ids| ids[node as usize]) as u64
    }

    pub fn sampler(&self, fanouts: &[i32], replace: bool, seed: u64) -> NeighborSampler<'_> {
        NeighborSampler::new(
            self.csc(),
            SamplerOptions { fanouts: fanouts.into(), replace, seed, ..SamplerOptions::default() },
        )
        .unwrap()
    }

    /// A batch with room for all nodes that `seeds` seeds can reach, with or without replacement.
    pub fn room(&self, seeds: usize, fanouts: impl Into<Fanouts>) -> MiniBatch {
        let options = SamplerOptions { fanouts: fanouts.into(), replace: true, ..SamplerOptions::default() };
        self.room_for(seeds, &options)
    }

    /// A batch with room for any batch of these options.
    pub fn room_for(&self, seeds: usize, options: &SamplerOptions) -> MiniBatch {
        let (nodes, edges) = (self.csc().nodes(), self.csc().edges());
        let bounds = BatchBounds::for_options(options, seeds.max(1), nodes, edges, Some(usize::MAX)).unwrap();
        MiniBatch::with_bounds(&bounds)
    }
}

/// These fanouts in the form that a kind accepts: the first for each hop if it makes one subgraph for all, and a number
/// if it has no lists to take whole.
pub fn fanouts_for(kind: SamplerKind, fanouts: &[i32]) -> Vec<i32> {
    let of = |&fanout: &i32| match fanout {
        _ if kind.draws_one_subgraph() => fanouts[0],
        -1 if !kind.picks_in_lists() => 6,
        70_000.. if !kind.picks_in_lists() => 60_000,
        _ => fanout,
    };
    fanouts.iter().map(of).collect()
}

pub fn key(batch: u32) -> BatchKey {
    BatchKey { split: Split::Train, epoch: 0, batch }
}

/// A batch by the plain method: nodes, and (indptr, indices) for each hop.
pub type Plain = (Vec<i64>, Vec<(Vec<i32>, Vec<i32>)>);

/// The bits of the weights of each block's edges; none where the kind weighs none.
pub type WeightBits = Vec<Vec<u32>>;

/// The expected result of a sampler, computed only with maps and sorting.
pub fn plainly(graph: &Graph, options: &SamplerOptions, key: BatchKey, seeds: &[i64]) -> Plain {
    plainly_weighed(graph, options, key, seeds).0
}

/// The expected result with weights.
pub fn plainly_weighed(
    graph: &Graph,
    options: &SamplerOptions,
    key: BatchKey,
    seeds: &[i64],
) -> (Plain, WeightBits) {
    let mut nodes = seeds.to_vec();
    let mut locals: HashMap<i64, i32> = nodes.iter().copied().zip(0..).collect();
    let mut local_of = |node: i64, nodes: &mut Vec<i64>| {
        *locals.entry(node).or_insert_with(|| {
            nodes.push(node);
            nodes.len() as i32 - 1
        })
    };
    let mut blocks: Vec<(Vec<i32>, Vec<i32>)> = Vec::new();
    let mut weights: WeightBits = Vec::new();
    for (layer, fanout) in options.fanouts.of_relation(Relation::ONLY).enumerate() {
        let fanout = usize::try_from(fanout).unwrap_or(usize::MAX);
        let stream_named = |name: u64, purpose| StreamKey {
            seed: options.seed,
            node: name,
            purpose,
            layer: layer as u32,
            batch: batch_of_picks(key.batch, name, options.batch_dependency),
            epoch: key.epoch,
            split: key.split,
        };
        let stream_of = |node: i64, purpose| stream_named(graph.original(node), purpose);
        let mut of_layer = Vec::new().into_iter();
        if options.kind.draws_together() {
            let lists: Vec<Vec<i64>> = nodes.iter().map(|&node| graph.list(node)).collect();
            let of_hop = (seeds, &lists[..]);
            of_layer = together::picks(graph, options.kind, of_hop, fanout, stream_named).into_iter();
        }
        let ((mut indptr, mut indices), mut block_weights) = match (options.expand, blocks.last()) {
            (Expand::New, Some(before)) => (before.clone(), weights[layer - 1].clone()),
            _ => ((vec![0], Vec::new()), Vec::new()),
        };
        for destination in nodes.clone().into_iter().skip(indptr.len() - 1) {
            let list = graph.list(destination);
            if !options.kind.picks_in_lists() {
                let found = match options.kind.name() {
                    "walk" => walk(
                        graph,
                        stream_of(destination, RandomPurpose::Walks),
                        options,
                        destination,
                        fanout,
                    ),
                    _ => ppr(graph, destination, fanout),
                };
                for (visited, weight) in found {
                    indices.push(local_of(visited, &mut nodes));
                    block_weights.push(weight.to_bits());
                }
                indptr.push(indices.len() as i32);
                continue;
            }
            let picks = match options.kind.name() {
                "neighbor" => pick_uniformly(
                    stream_of(destination, RandomPurpose::Neighbors),
                    &list,
                    fanout,
                    options.replace,
                ),
                "labor" => {
                    let variate = |&node: &i64| {
                        let mut stream = stream_of(node, RandomPurpose::Neighbors).stream();
                        (u64::from(stream.next_u32()), stream.next_u32())
                    };
                    let variates = list.iter().map(variate).map(|(low, high)| low | u64::from(high) << 32);
                    smallest(variates.zip(0..).collect(), fanout.min(list.len()))
                }
                "weighted" => {
                    let begin = graph.indptr[destination as usize] as usize;
                    let weights = &graph.weights.as_ref().unwrap()[begin..begin + list.len()];
                    pick_by_weight(
                        stream_of(destination, RandomPurpose::Weights),
                        weights,
                        fanout,
                        options.replace,
                    )
                }
                _ => {
                    let picked: Vec<(u32, f32)> = of_layer.next().unwrap();
                    block_weights.extend(picked.iter().map(|(_, weight)| weight.to_bits()));
                    picked.into_iter().map(|(place, _)| place).collect()
                }
            };
            for position in picks {
                indices.push(local_of(list[position as usize], &mut nodes));
            }
            indptr.push(indices.len() as i32);
        }
        blocks.push((indptr, indices));
        weights.push(block_weights);
    }
    ((nodes, blocks), weights)
}

/// The nodes of highest personalised PageRank from one, and their shares of the picks' total.
fn ppr(graph: &Graph, start: i64, fanout: usize) -> Vec<(i64, f32)> {
    const ALL: u64 = 1 << 40;
    let (mut waits, mut stays) = (HashMap::from([(start, ALL)]), HashMap::<i64, u64>::new());
    let (mut reached, mut queue) = (vec![start], VecDeque::from([start]));
    while let Some(node) = queue.pop_front() {
        let (mass, list) = (waits.insert(node, 0).unwrap(), graph.list(node));
        let share = (mass - mass / 4) / list.len().max(1) as u64;
        *stays.entry(node).or_default() += mass - share * list.len() as u64;
        for neighbor in list {
            if !waits.contains_key(&neighbor) {
                reached.push(neighbor);
            }
            let there = waits.entry(neighbor).or_default();
            *there += share;
            let least = (ALL >> 10) * graph.list(neighbor).len().max(1) as u64;
            if *there >= least && !queue.contains(&neighbor) {
                queue.push_back(neighbor);
            }
        }
    }
    let score = |node: &i64| 4 * stays.get(node).unwrap_or(&0) + waits[node];
    let mut taken: Vec<(i64, u64)> = reached[1..].iter().map(|node| (*node, score(node))).collect();
    // A stable sort: among equals, those reached first.
    taken.sort_by_key(|&(_, score)| Reverse(score));
    taken.truncate(fanout);
    let total: u64 = taken.iter().map(|(_, score)| score).sum();
    taken.into_iter().map(|(node, score)| (node, (score as f64 / total as f64) as f32)).collect()
}

/// The weights of a batch as bits.
pub fn weight_bits(batch: &MiniBatch) -> WeightBits {
    batch.blocks().map(|block| block.weights.iter().map(|weight| weight.to_bits()).collect()).collect()
}

fn pick_uniformly(key: StreamKey, list: &[i64], fanout: usize, replace: bool) -> Vec<u32> {
    let (mut stream, degree) = (key.stream(), list.len() as u32);
    if degree == 0 || fanout == usize::MAX || (!replace && list.len() <= fanout) {
        (0..degree).collect()
    } else if replace {
        (0..fanout).map(|_| stream.bounded(degree)).collect()
    } else {
        let mut picks = Vec::new();
        for j in degree - fanout as u32..degree {
            let drawn = stream.bounded(j + 1);
            picks.push(if picks.contains(&drawn) { j } else { drawn });
        }
        picks
    }
}

/// The nodes that walks from `node` visit most, and their shares of the visits.
fn walk(
    graph: &Graph,
    key: StreamKey,
    options: &SamplerOptions,
    node: i64,
    fanout: usize,
) -> Vec<(i64, f32)> {
    let (mut stream, walks) = (key.stream(), options.walks);
    let mut counts: Vec<(i64, u32)> = Vec::new();
    for _ in 0..walks.count {
        let mut at = node;
        for step in 0..walks.length {
            if step > 0 && walks.stop > 0 && stream.bounded(100) < walks.stop {
                break;
            }
            let list = graph.list(at);
            if list.is_empty() {
                break;
            }
            at = list[stream.bounded(list.len() as u32) as usize];
            match counts.iter_mut().find(|(visited, _)| *visited == at) {
                Some((_, count)) => *count += 1,
                None => counts.push((at, 1)),
            }
        }
    }
    counts.retain(|&(visited, _)| visited != node);
    // A stable sort: among equals, those visited first.
    counts.sort_by_key(|&(_, count)| Reverse(count));
    counts.truncate(fanout);
    let all: u32 = counts.iter().map(|&(_, count)| count).sum();
    counts.iter().map(|&(visited, count)| (visited, (f64::from(count) / f64::from(all)) as f32)).collect()
}

fn pick_by_weight(key: StreamKey, weights: &[f32], fanout: usize, replace: bool) -> Vec<u32> {
    let there: Vec<u32> = (0..).zip(weights).filter(|(_, w)| **w > 0.0).map(|(place, _)| place).collect();
    if there.is_empty() || fanout == usize::MAX || (!replace && there.len() <= fanout) {
        return there;
    }
    if replace {
        let largest = weights.iter().fold(0.0_f32, |a, &b| a.max(b));
        let e = f64::from(largest).log2().floor() as i32;
        let integers: Vec<u64> =
            weights.iter().map(|&weight| (f64::from(weight.max(0.0)) * 2_f64.powi(31 - e)) as u64).collect();
        let mut stream = key.stream();
        let draw = |_| {
            let (mut left, mut place) = (stream.bounded_u64(integers.iter().sum()), 0);
            while left >= integers[place] {
                left -= integers[place];
                place += 1;
            }
            place as u32
        };
        return (0..fanout).map(draw).collect();
    }
    let mut stream = key.stream();
    let exponentials: Vec<u64> = weights.iter().map(|_| exponential(stream.next_u32().into())).collect();
    let quotient = |place: u32| exponentials[place as usize] as f64 / f64::from(weights[place as usize]);
    smallest(there.into_iter().map(|place| (quotient(place).to_bits(), place)).collect(), fanout)
}

/// Section 3 of docs/spec/reproducible-batches.md, with enough bits for every product.
fn exponential(word: u128) -> u64 {
    let coefficients: [u128; 11] = [
        1901360720, 1196802686, 868614893, 680046808, 555475204, 456913028, 355293914, 236551560, 118923742,
        38334212, 5783109,
    ];
    let (unit, x) = (1 << 32, 2 * word + 1);
    let e = x.ilog2();
    let t = (x << (32 - e)) - unit;
    let q = coefficients.iter().rev().fold(0, |q, coefficient| coefficient - q * t / unit);
    let bow = t * (unit - 1 - t) / (1 << 30);
    (u128::from(33 - e) * unit - t - bow * q / (1 << 34)) as u64
}

/// The positions of the smallest keys, ascending.
fn smallest(mut keys: Vec<(u64, u32)>, count: usize) -> Vec<u32> {
    keys.sort_unstable();
    let mut places: Vec<u32> = keys.into_iter().take(count).map(|(_, place)| place).collect();
    places.sort_unstable();
    places
}

/// The chance of each set of `count` entries, as a bit mask. Entries are drawn one after the other in proportion to the
/// weights of those left; a set's chance is the sum over all orders of its entries.
pub fn chances_of_sets(weights: &[f64], count: usize) -> Vec<f64> {
    fn go_on(weights: &[f64], set: usize, left: usize, chance: f64, chances: &mut [f64]) {
        if left == 0 {
            chances[set] += chance;
            return;
        }
        let there = |place: &usize| set >> place & 1 == 0;
        let total: f64 = (0..weights.len()).filter(there).map(|place| weights[place]).sum();
        for place in (0..weights.len()).filter(there) {
            let next = chance * weights[place] / total;
            go_on(weights, set | 1 << place, left - 1, next, chances);
        }
    }
    let mut chances = vec![0.0; 1 << weights.len()];
    go_on(weights, 0, count, 1.0, &mut chances);
    chances
}

/// The content of a batch in the form of [`plainly`], its counts checked against each other.
pub fn content(batch: &MiniBatch) -> Plain {
    let blocks: Vec<BlockRef<'_>> = batch.blocks().collect();
    assert_eq!(blocks.len(), batch.counts().layers());
    let mut destinations = batch.seeds().len();
    for block in &blocks {
        assert_eq!(block.destinations, destinations, "destinations are the sources of the hop before");
        assert_eq!(block.indptr.len(), block.destinations + 1);
        assert_eq!(block.indptr[0], 0);
        assert_eq!(*block.indptr.last().unwrap() as usize, block.indices.len());
        assert!(block.indptr.is_sorted());
        assert!(block.indices.iter().all(|&local| (local as usize) < block.sources));
        destinations = block.sources;
    }
    assert_eq!(batch.nodes().len(), destinations, "the last sources are all nodes");
    (
        batch.nodes().to_vec(),
        blocks.iter().map(|block| (block.indptr.to_vec(), block.indices.to_vec())).collect(),
    )
}

/// Asserts that `counts` are draws from a uniform distribution over as many cells. `shrink` is the factor by which
/// drawing several at once without replacement lowers the variance of a cell.
pub fn assert_uniform(counts: &[u64], shrink: f64, what: &str) {
    assert_distributed(counts, &vec![1.0; counts.len()], shrink, what);
}

/// Asserts that `counts` are draws from a distribution in which cells have chances in these proportions.
///
/// The bound on χ² is its mean plus or minus five standard deviations: a fair sampler exceeds it once in some hundred
/// thousand choices of the seed.
pub fn assert_distributed(counts: &[u64], chances: &[f64], shrink: f64, what: &str) {
    assert_eq!(counts.len(), chances.len(), "{what}");
    let (total, all) = (counts.iter().sum::<u64>() as f64, chances.iter().sum::<f64>());
    let mut squares = 0.0;
    for (&count, chance) in counts.iter().zip(chances) {
        let expected = total * chance / all;
        assert!(expected >= 20.0, "{what}: {expected} expected per cell are too few for the test");
        squares += (count as f64 - expected).powi(2) / expected;
    }
    let freedom = (counts.len() - 1) as f64;
    let chi_squared = squares / shrink;
    let distance = (chi_squared - freedom) / (2.0 * freedom).sqrt();
    assert!(distance.abs() < 5.0, "{what}: χ² {chi_squared:.1} with {freedom} degrees of freedom");
}
