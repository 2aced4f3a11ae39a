//! Nodes of disjoint trees, each around a seed, which see the graph at the time of their seed.

use uva_graph::{EntryTimes, NodeType, Relation};
use uva_ops::prefetch;

use super::draws::Drawing;
use super::identity::{Destinations, Identity};
use super::list::{Hop, List, NodeId};
use super::picks::{PickResult, Picks};
use super::sink::{BlockRoom, PickTarget};
use crate::batches::hash;
use crate::batches::tree_ids::{MOST_TREES, TreeIds, key_of};
use crate::{
    BatchMut, GraphView, InvalidOption, ListReads, SampleError, SamplerOptions, Seeds, SortedTimes,
    TimeLimit, TimePick, TypedView,
};

/// A node is its id, the tree that it is found in, and, if trees decrease in time, the time of the entry that led to it.
pub struct InTrees {
    time: Option<TimeLimit>,
    with_edge_ids: bool,
    /// The nodes of each type.
    types: Vec<TreeIds>,
    /// The time of each tree's seed; empty without times.
    seed_times: Vec<i64>,
    /// The tree of the first seed of each type.
    first_trees: Vec<usize>,
    picks: GroupPicks,
}

/// The picks of a group of destinations.
#[derive(Default)]
struct GroupPicks {
    /// The picked nodes, and their positions in the graph's `indices` if these are needed.
    ids: Vec<i64>,
    positions: Vec<i64>,
    /// The number of picks of each destination.
    counts: Vec<usize>,
    keys: Vec<u64>,
    /// The limit of each picked node; empty if nodes have none.
    limits: Vec<i64>,
    /// The local ids of seeds.
    locals: Vec<i32>,
}

/// What a group of destinations sees: their trees, and their limits, which are empty if nodes have none.
struct Group<'a> {
    nodes: &'a [i64],
    trees: &'a [i32],
    limits: &'a [i64],
}

impl<'g> Identity<'g> for InTrees {
    fn new(graph: &TypedView<'g>, options: &SamplerOptions) -> Result<Self, SampleError> {
        Ok(Self {
            time: options.trees.unwrap_or_default().time,
            with_edge_ids: options.edge_ids,
            types: graph.types.iter().map(|_| TreeIds::new()).collect(),
            seed_times: Vec::new(),
            first_trees: Vec::with_capacity(graph.types.len()),
            picks: GroupPicks::default(),
        })
    }

    fn begin(&mut self, seeds: Seeds<'_>) -> PickResult {
        self.types.iter_mut().for_each(TreeIds::begin_batch);
        self.seed_times.clear();
        self.first_trees.clear();
        let mut trees = 0;
        for (of, ids) in seeds.ids.iter().enumerate() {
            self.first_trees.push(trees);
            trees += ids.len();
            if self.time.is_some() {
                let times = seeds.times.get(of).copied().unwrap_or_default();
                if times.len() != ids.len() {
                    return Err(SampleError::SeedTimes { seeds: ids.len(), times: times.len() });
                }
                self.seed_times.extend_from_slice(times);
            }
        }
        if trees > MOST_TREES {
            return Err(InvalidOption::TooManyTrees { seeds: trees }.into());
        }
        Ok(())
    }

    fn take_seeds(&mut self, of: usize, seeds: &[i64], nodes: &mut [i64]) -> PickResult {
        let Self {
            time, types, seed_times, first_trees, picks: GroupPicks { keys, limits, locals, .. }, ..
        } = self;
        let first = first_trees[of];
        keys.clear();
        keys.extend((first as i32..).zip(seeds).map(|(tree, &seed)| key_of(tree, seed)));
        limits.clear();
        if time.is_some_and(|time| time.splits_nodes()) {
            limits.extend_from_slice(&seed_times[first..first + seeds.len()]);
        }
        // Each seed is in its own tree, so each is new, and its local id is its position.
        locals.resize(seeds.len(), 0);
        let relabelled = types[of].relabel(keys, limits, nodes, &mut 0, locals);
        relabelled.map_err(|_| unreachable!("the seeds are the first of `nodes`"))
    }

    fn draw<I: NodeId, P: Picks<'g>>(
        &mut self,
        drawing: &mut Drawing<'g, P>,
        (relation, hop, group): (Relation, &Hop<'_, I>, usize),
        Destinations { nodes, first, destination, source }: Destinations<'_>,
        mut room: BlockRoom<'_>,
        _weights: (&mut [f32], usize),
        mut count: impl FnMut(usize) -> PickResult,
    ) -> Result<ListReads, SampleError> {
        let Self { time, with_edge_ids, types, seed_times, picks, .. } = self;
        let GroupPicks { ids, positions, counts, keys, limits, .. } = picks;
        let view = drawing.relations[relation.index()].view;
        let times = view.times.map(|sorted: SortedTimes<'_>| sorted.times);
        let splits_nodes = time.is_some_and(|time| time.splits_nodes());
        let mut reads = ListReads::default();
        for (number, nodes) in nodes.chunks(group).enumerate() {
            let begin = first + number * group;
            let of_group = begin..begin + nodes.len();
            let of_destinations = &types[destination];
            let group_of = Group {
                nodes,
                trees: &of_destinations.trees()[of_group.clone()],
                limits: of_destinations.limits().get(of_group).unwrap_or_default(),
            };
            ids.clear();
            positions.clear();
            counts.clear();
            let wanted = *with_edge_ids || splits_nodes;
            let to = PickTarget::Ids { ids, edge_ids: wanted.then_some(&mut *positions) };
            let note = |picks: usize| {
                counts.push(picks);
                count(picks)
            };
            let find = |nodes: &[i64], lists: &mut [List]| {
                hop.find_lists(nodes, lists)?;
                if let (Some(time), Some(times)) = (&*time, &times) {
                    narrow(time, times, &view.lists, hop, &group_of, seed_times, lists);
                }
                Ok(())
            };
            reads += drawing.draw((relation, hop, group), nodes, to, (&mut [], 0), find, note)?;
            keys.clear();
            let mut rest = &ids[..];
            for (&picks, &tree) in counts.iter().zip(group_of.trees) {
                let (of_list, after) = rest.split_at(picks);
                keys.extend(of_list.iter().map(|&id| key_of(tree, id)));
                rest = after;
            }
            limits.clear();
            if splits_nodes {
                let mut picked = ids.iter().zip(positions.iter().map(|&position| position as usize));
                for ((&picks, &limit), &node) in counts.iter().zip(group_of.limits).zip(nodes) {
                    let home = home_of(&view.lists, node as usize);
                    limits.extend(picked.by_ref().take(picks).map(|(&id, position)| match times {
                        Some(EntryTimes::Edges(times)) => times[home(position)],
                        Some(EntryTimes::Sources(times)) => times[id as usize],
                        None => limit,
                    }));
                }
            }
            let edge_ids = positions.iter().copied();
            let nodes_room = room.nodes_room;
            let taken = room.take(keys.len(), edge_ids, |_, fresh, found, locals| {
                types[source].relabel(keys, limits, fresh, found, locals)
            });
            taken.map_err(|error| {
                error
                    .of_batch(hop.batch, nodes_room, |_| unreachable!("ids are checked when they are picked"))
            })?;
        }
        Ok(reads)
    }

    fn finish(&self, seeds: Seeds<'_>, out: &mut BatchMut<'_, '_>) -> Result<u64, SampleError> {
        let mut sum = 0_u64;
        for (of, ids) in (0..).map(NodeType).zip(&self.types) {
            let trees = ids.trees();
            sum = sum.wrapping_add(hash::trees(of, trees));
            if self.time.is_some() {
                sum = sum.wrapping_add(hash::seed_times(of, seeds.times[of.index()]));
            }
            if let Some(to) = out.trees.get_mut(of.index()) {
                // As long as the room for nodes, which all of these have.
                to[..trees.len()].copy_from_slice(trees);
            }
        }
        Ok(sum)
    }
}

/// The position in the dataset's `indices.npy` of a position in the list of a node.
fn home_of<'a>(lists: &'a GraphView<'_>, node: usize) -> impl Fn(usize) -> usize + 'a {
    let (here, home) = (lists.csc.indptr[node] as usize, lists.begin_at_home(node));
    move |position| position - here + home
}

/// Narrows the lists of a group to their visible entries, of which it leaves the latest if only these are picked.
fn narrow<I: NodeId>(
    time: &TimeLimit,
    times: &EntryTimes<'_>,
    graph: &GraphView<'_>,
    hop: &Hop<'_, I>,
    group: &Group<'_>,
    seed_times: &[i64],
    lists: &mut [List],
) {
    if let EntryTimes::Edges(times) = times {
        // The last entry is read first: these reads overlap.
        for list in lists.iter() {
            prefetch(times.as_ptr().wrapping_add(list.begin + list.degree.saturating_sub(1)).cast::<u8>());
        }
    }
    for ((list, &node), (at, &tree)) in lists.iter_mut().zip(group.nodes).zip(group.trees.iter().enumerate())
    {
        let seed = seed_times[tree as usize];
        let at_times = (seed, group.limits.get(at).copied().unwrap_or(seed));
        let visible = match times {
            EntryTimes::Edges(times) => {
                let begin =
                    if graph.home.is_some() { graph.begin_at_home(node as usize) } else { list.begin };
                let of_list = times.get(begin..begin.saturating_add(list.degree)).unwrap_or_default();
                time.visible(of_list.len(), |entry| of_list[entry], at_times)
            }
            EntryTimes::Sources(times) => {
                let of_list = &hop.indices[list.begin..list.begin + list.degree];
                // An entry that is not a node has no time. It is an error if it is picked.
                let time_of = |entry: usize| times.get(of_list[entry].widen() as usize).copied();
                time.visible(of_list.len(), |entry| time_of(entry).unwrap_or(i64::MAX), at_times)
            }
        };
        list.begin += visible.start;
        list.degree = visible.len();
        if time.pick == TimePick::Last && list.degree > hop.fanout {
            list.begin += list.degree - hop.fanout;
            list.degree = hop.fanout;
        }
    }
}
