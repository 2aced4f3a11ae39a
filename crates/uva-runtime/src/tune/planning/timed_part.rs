//! A part of a graph on which the CPU's sampler is timed.
//!
//! A run with cached lists samples a copy of the graph in the order of the cache. A plan times that copy, but a copy of
//! all lists would be the most of its memory. Of a large graph it therefore has only the nodes of a few batches and the
//! lists that these read, in the same order, and these batches are timed. Their picks and hits are those of the whole
//! copy.

use uva_graph::reorder::ReorderedLayout;
use uva_graph::{Csc, Dataset, Indices};
use uva_sample::{GraphView, MiniBatch, OriginalEdges, SamplerKind};

/// Bytes of neighbours up to which all lists are copied.
const ALL_BYTES: usize = 16 << 20;

/// The part of more neighbours that is copied, but not less than [`ALL_BYTES`].
const PART: usize = 16;

/// The place of a node that is not in the part.
const NOWHERE: u32 = u32::MAX;

/// The nodes of some batches, and the lists that the batches read.
pub(super) struct TimedPart<'d> {
    dataset: &'d Dataset,
    /// Whether the entries of a list are read that are not picked.
    with_entries: bool,
    /// Whether each node is in the part, by the dataset's ids.
    has_node: Vec<bool>,
    /// Whether the list of each node was read.
    has_list: Vec<bool>,
    /// Entries of these lists, and the most to be copied.
    entries: usize,
    most_entries: usize,
    /// Seeds of each batch.
    seeds: Vec<Vec<i64>>,
}

impl<'d> TimedPart<'d> {
    /// A part without batches; `None` for a graph that is copied whole. Kinds of sampler that may read other lists than
    /// those of a batch's destinations need the whole graph.
    pub fn of(dataset: &'d Dataset, kind: SamplerKind) -> Option<Self> {
        let id_bytes = ReorderedLayout::new(dataset).id_bytes();
        let most_bytes = limit(dataset.edges() * id_bytes, kind)?;
        Some(Self::with_limit(dataset, kind, most_bytes / id_bytes))
    }

    fn with_limit(dataset: &'d Dataset, kind: SamplerKind, most_entries: usize) -> Self {
        let none = || vec![false; dataset.nodes()];
        let with_entries = kind.reads_whole_lists();
        let (has_node, has_list) = (none(), none());
        Self { dataset, with_entries, has_node, has_list, entries: 0, most_entries, seeds: Vec::new() }
    }

    /// Adds this batch of the dataset, unless its lists would be too many. The first batch is always added. Returns
    /// whether it was.
    pub fn add(&mut self, batch: &MiniBatch) -> bool {
        let csc = self.dataset.csc();
        let destinations = batch.blocks().last().map_or(0, |block| block.destinations);
        let readers = &batch.nodes()[..destinations];
        // A repeated seed counts twice, which only makes the limit stricter.
        let new = readers.iter().map(|&node| node as usize).filter(|&node| !self.has_list[node]);
        let entries = self.entries + new.map(|node| csc.degree(node)).sum::<usize>();
        if !self.seeds.is_empty() && entries > self.most_entries {
            return false;
        }
        for &node in batch.nodes() {
            self.has_node[node as usize] = true;
        }
        for &node in readers {
            let is_new = !std::mem::replace(&mut self.has_list[node as usize], true);
            if is_new && self.with_entries {
                for position in list_of(&csc, node as usize) {
                    // Ids of an opened dataset are in range; the sampler reports those that are not.
                    if let Some(has) = self.has_node.get_mut(csc.indices.get(position) as usize) {
                        *has = true;
                    }
                }
            }
        }
        self.entries = entries;
        self.seeds.push(batch.seeds().to_vec());
        true
    }

    /// The number of batches.
    pub fn batches(&self) -> usize {
        self.seeds.len()
    }

    /// Copies the part in the order that begins with the nodes of `first` that it has. The others follow in ascending
    /// order. While this runs, it takes 4 bytes per node of the dataset in addition to the copy.
    pub fn copy(&self, first: &[i64]) -> PartCopy<'d> {
        let csc = self.dataset.csc();
        let mut places = vec![NOWHERE; csc.nodes()];
        let mut nodes = Vec::with_capacity(self.has_node.iter().filter(|has| **has).count());
        let mut cached = 0;
        let others = 0..csc.nodes() as i64;
        for (rank, node) in first.iter().copied().chain(others).enumerate() {
            let place = &mut places[node as usize];
            if self.has_node[node as usize] && *place == NOWHERE {
                *place = nodes.len() as u32;
                nodes.push(node);
                cached += usize::from(rank < first.len());
            }
        }
        // A copy of the whole graph has ids of this width too.
        let lists = if ReorderedLayout::new(self.dataset).id_bytes() == 4 {
            Neighbours::I32(self.neighbours(&nodes, &places, |place| place.map_or(-1, |place| place as i32)))
        } else {
            Neighbours::I64(self.neighbours(&nodes, &places, |place| place.map_or(-1, i64::from)))
        };
        let mut indptr = Vec::with_capacity(nodes.len() + 1);
        let mut end = 0;
        indptr.push(end);
        for &node in &nodes {
            end += self.list(node).len() as i64;
            indptr.push(end);
        }
        let places_of =
            |seeds: &Vec<i64>| seeds.iter().map(|&seed| i64::from(places[seed as usize])).collect();
        let seeds = self.seeds.iter().map(places_of).collect();
        let original_ids =
            self.dataset.original_ids().map(|ids| nodes.iter().map(|&node| ids[node as usize]).collect());
        PartCopy { dataset: self.dataset, indptr, lists, nodes, original_ids, cached, seeds }
    }

    /// The places of the entries of all lists. An entry that is not in the part has none: no batch picks it.
    fn neighbours<T>(&self, nodes: &[i64], places: &[u32], id: impl Fn(Option<u32>) -> T) -> Vec<T> {
        let csc = self.dataset.csc();
        let mut ids = Vec::with_capacity(self.entries);
        for &node in nodes {
            ids.extend(self.list(node).map(|position| {
                let place = places.get(csc.indices.get(position) as usize).copied();
                id(place.filter(|&place| place != NOWHERE))
            }));
        }
        ids
    }

    /// The positions of a node's list; none if it was not read.
    fn list(&self, node: i64) -> std::ops::Range<usize> {
        if self.has_list[node as usize] { list_of(&self.dataset.csc(), node as usize) } else { 0..0 }
    }
}

fn list_of(csc: &Csc<'_>, node: usize) -> std::ops::Range<usize> {
    csc.indptr[node] as usize..csc.indptr[node + 1] as usize
}

/// The most bytes of neighbours to copy of `all_bytes`; `None` if all are copied.
fn limit(all_bytes: usize, kind: SamplerKind) -> Option<usize> {
    (kind.picks_list_by_list() && all_bytes > ALL_BYTES).then(|| (all_bytes / PART).max(ALL_BYTES))
}

/// A copy of a part in another order. Its ids are places in that order.
pub(super) struct PartCopy<'d> {
    dataset: &'d Dataset,
    indptr: Vec<i64>,
    lists: Neighbours,
    /// The dataset's id of each node.
    nodes: Vec<i64>,
    /// Present only if the dataset has original ids of its own.
    original_ids: Option<Vec<i64>>,
    /// How many nodes of the part are cached.
    cached: usize,
    /// The seeds of each batch.
    seeds: Vec<Vec<i64>>,
}

/// Neighbours, in the width of a copy of the whole graph.
enum Neighbours {
    I32(Vec<i32>),
    I64(Vec<i64>),
}

impl PartCopy<'_> {
    /// The graph, with the lists of the nodes that are first counted as cached.
    pub fn view(&self) -> GraphView<'_> {
        let indices = match &self.lists {
            Neighbours::I32(ids) => Indices::I32(ids),
            Neighbours::I64(ids) => Indices::I64(ids),
        };
        let original_ids = Some(self.original_ids.as_ref().unwrap_or(&self.nodes).as_slice());
        GraphView {
            csc: Csc { indptr: &self.indptr, indices, original_ids, degrees: None },
            weights: self.dataset.weights(),
            home: Some(OriginalEdges { indptr: self.dataset.csc().indptr, nodes: &self.nodes }),
            cached_lists: self.cached,
            cached_weights: true,
        }
    }

    /// The seeds of a batch of the part.
    pub fn seeds(&self, batch: usize) -> &[i64] {
        &self.seeds[batch]
    }
}

#[cfg(test)]
mod tests {
    use uva_graph::Split;
    use uva_graph::npy::{NpyType, write_array};
    use uva_graph::reorder::NodeOrder;
    use uva_io::generate::{self, Common, PowerLaw};
    use uva_sample::{BatchBounds, BatchKey, SamplerOptions, sampler};

    use super::*;
    use crate::sampler::cache::SampledGraph;

    const BATCH_SIZE: usize = 20;

    /// 3000 nodes with weighted lists.
    fn dataset(directory: &std::path::Path) -> Dataset {
        let path = directory.join("graph");
        let common = Common { nodes: 3000, average_degree: 8.0, ..Common::default() };
        generate::write(&path, &PowerLaw::of(common), &|_| {}).unwrap();
        let edges = Dataset::open(&path).unwrap().edges();
        let weights: Vec<f32> = (0..edges).map(|edge| (edge % 5) as f32).collect();
        write_array(&path.join("weight.npy"), NpyType::F32, &[], &weights).unwrap();
        Dataset::open(&path).unwrap()
    }

    /// The nodes in an order that scatters them.
    fn scattered(nodes: usize) -> Vec<i64> {
        (0..nodes as i64).map(|place| place * 1009 % nodes as i64).collect()
    }

    /// Samples batches around seeds with `view` until `seen` returns false.
    fn batches<'s>(
        dataset: &Dataset,
        options: &SamplerOptions,
        view: GraphView<'_>,
        seeds: impl Iterator<Item = &'s [i64]>,
        mut seen: impl FnMut(&MiniBatch) -> bool,
    ) {
        let mut sampler = sampler(view, options).unwrap();
        let (nodes, edges) = (dataset.nodes(), dataset.edges());
        let bounds = BatchBounds::for_options(options, BATCH_SIZE, nodes, edges, None).unwrap();
        let mut batch = MiniBatch::with_bounds(&bounds);
        for (number, seeds) in (0..).zip(seeds) {
            let key = BatchKey { split: Split::Train, epoch: 0, batch: number };
            sampler.sample_into(key, seeds, &mut batch).unwrap();
            if !seen(&batch) {
                break;
            }
        }
    }

    #[test]
    fn batches_of_a_part_pick_and_hit_as_those_of_a_copy_of_the_graph() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = dataset(temp.path());
        let first = &scattered(dataset.nodes())[..1100];
        let order = NodeOrder::from_first(dataset.nodes(), first).unwrap();
        let layout = ReorderedLayout::new(&dataset);
        let mut words = vec![0_u64; layout.bytes() / 8];
        let region = bytemuck::cast_slice_mut(&mut words);
        layout.fill(&dataset, &order, region).unwrap();
        let whole = SampledGraph::new(&dataset, Some(region)).unwrap();
        let own = SampledGraph::new(&dataset, None).unwrap();
        for kind in [SamplerKind::NEIGHBOR, SamplerKind::LABOR, SamplerKind::WEIGHTED] {
            let options = SamplerOptions { kind, fanouts: [4, 3].into(), ..SamplerOptions::default() };
            // Room for some of the batches.
            let mut part = TimedPart::with_limit(&dataset, kind, dataset.edges() / 3);
            let seeds = own.split(Split::Train).chunks(BATCH_SIZE);
            batches(&dataset, &options, own.view(), seeds, |batch| part.add(batch));
            let count = part.batches();
            assert!(count > 1 && count < dataset.split(Split::Train).len() / BATCH_SIZE, "{kind}: {count}");
            assert!(part.entries <= part.most_entries, "{kind}");

            let mut of_whole = Vec::new();
            let view = GraphView { cached_lists: first.len(), cached_weights: true, ..whole.view() };
            let seeds = whole.split(Split::Train).chunks(BATCH_SIZE).take(count);
            batches(&dataset, &options, view, seeds, |batch| {
                of_whole.push((batch.hash(), batch.counts().list_reads));
                true
            });
            let copy = part.copy(first);
            let mut of_part = Vec::new();
            batches(&dataset, &options, copy.view(), (0..count).map(|batch| copy.seeds(batch)), |batch| {
                of_part.push((batch.hash(), batch.counts().list_reads));
                true
            });
            assert_eq!(of_part, of_whole, "{kind}");
            assert!(of_part.iter().all(|(_, reads)| (1..reads.all).contains(&reads.cached)), "{kind}");
            assert_eq!(copy.view().csc.edges(), part.entries);
            assert!(copy.nodes.len() < dataset.nodes(), "{kind}");
        }
    }

    #[test]
    fn the_first_batch_is_added_whatever_it_reads() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = dataset(temp.path());
        let own = SampledGraph::new(&dataset, None).unwrap();
        let options = SamplerOptions { fanouts: [4, 3].into(), ..SamplerOptions::default() };
        let (mut part, mut added) = (TimedPart::with_limit(&dataset, options.kind, 0), Vec::new());
        let seeds = own.split(Split::Train).chunks(BATCH_SIZE).take(3);
        batches(&dataset, &options, own.view(), seeds, |batch| {
            added.push(part.add(batch));
            true
        });
        assert_eq!((added, part.batches()), (vec![true, false, false], 1));
    }

    #[test]
    fn small_graphs_and_kinds_that_read_other_lists_are_copied_whole() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = dataset(temp.path());
        assert!(SamplerKind::ALL.into_iter().all(|kind| TimedPart::of(&dataset, kind).is_none()));
        let has_part = |kind| limit(ALL_BYTES + 1, kind).is_some();
        let of_part: Vec<_> = SamplerKind::ALL.into_iter().filter(|&kind| has_part(kind)).collect();
        assert_eq!(of_part, [SamplerKind::NEIGHBOR, SamplerKind::LABOR, SamplerKind::WEIGHTED]);
        assert_eq!(limit(ALL_BYTES, SamplerKind::NEIGHBOR), None);
        assert_eq!(limit(ALL_BYTES * 2 * PART, SamplerKind::NEIGHBOR), Some(2 * ALL_BYTES));
    }
}
