//! Lists that are divided among ranks. Each rank draws from its own lists, for itself and for the others.
//!
//! All ranks sample hop by hop together. In a hop each rank requests the picks of its destinations from their owners,
//! by four calls of the exchange: the number of nodes, the nodes, the number of words of picks, and the picks. An owner
//! draws with the random numbers of the requesting batch, so a pick does not depend on the rank that draws it.
//!
//! | message | int64 words |
//! |---|---|
//! | request | a word of the hop and the options, split, epoch and batch, then the nodes; empty without nodes |
//! | response | the picked nodes, list after list; likewise edge ids, if requested; the number of picks of each list |

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uva_exchange::{Book, Exchange, Splits};
use uva_graph::{Relation, Split, mix};

use super::draws::{Drawing, reads_of};
use super::list::{Hop, List, NodeId};
use super::picks::{PickResult, Picks};
use super::sink::{BlockTarget, PickTarget};
use crate::options::GROUP_PICKS;
use crate::{BatchKey, GraphView, InvalidOption, ListReads, SampleError, SamplerKind, SamplerOptions};

/// Words before the nodes in a request.
const KEY_WORDS: usize = 4;
/// Bytes of a word.
const WORD: usize = size_of::<i64>();

/// One rank's access to the lists of a graph whose nodes a [`Book`] divides among ranks.
///
/// The rank has the bounds of all lists (`indptr`), and reads the entries only of its own nodes. All ranks have the
/// same options, and [sample](crate::BatchSampler::sample) or [serve](crate::BatchSampler::serve) equally often. Any
/// error is final, on this rank and all others. The memory of messages grows to the size of the largest hop.
pub struct Divided<'e> {
    book: Book,
    exchange: Box<dyn Exchange + 'e>,
    counts: ListCounts,
    /// A copy of the counts, written after each hop for another thread.
    told: Option<Arc<Mutex<ListCounts>>>,
    hop: HopMessages,
}

/// The work of a rank for batches over divided lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListCounts {
    /// Own lists that it drew from for itself.
    pub own_lists: u64,
    /// Lists that other ranks drew from for it.
    pub remote_lists: u64,
    /// Lists that it drew from for others.
    pub given_lists: u64,
    /// Bytes to other ranks.
    pub sent_bytes: u64,
    /// Bytes from other ranks.
    pub received_bytes: u64,
    /// Time in calls of the exchange: waits for other ranks, and transfers.
    pub waited: Duration,
}

/// Memory of a hop, reused in the next hop.
#[derive(Default)]
struct HopMessages {
    /// The requested nodes for each rank, including this one.
    nodes: Vec<Vec<i64>>,
    /// The requests to other ranks, in the form of the message.
    questions: Vec<i64>,
    /// The requests of other ranks.
    received: Vec<i64>,
    /// The picks for other ranks, in the form of the message.
    given: Vec<i64>,
    edge_ids: Vec<i64>,
    picks: Vec<i64>,
    /// The responses to this rank, rank after rank, with the range of each.
    answers: Vec<i64>,
    bounds: Vec<Range<usize>>,
    /// Its picks in the order of its destinations.
    ids: Vec<i64>,
    ordered_edge_ids: Vec<i64>,
}

/// The unread rest of a rank's response.
struct Answer<'a> {
    ids: &'a [i64],
    edge_ids: &'a [i64],
    picks: std::slice::Iter<'a, i64>,
}

impl<'e> Divided<'e> {
    /// The lists of the nodes that `book` divides among the ranks of `exchange`.
    ///
    /// # Errors
    /// [`InvalidOption::Parts`] unless there is one part per rank.
    pub fn new(book: Book, exchange: Box<dyn Exchange + 'e>) -> Result<Self, SampleError> {
        let (parts, ranks) = (book.parts(), exchange.ranks());
        if parts != ranks {
            return Err(InvalidOption::Parts { parts, ranks }.into());
        }
        let hop = HopMessages { nodes: vec![Vec::new(); ranks], ..HopMessages::default() };
        Ok(Self { book, exchange, counts: ListCounts::default(), told: None, hop })
    }

    /// Copies its counts to `counts` after each hop.
    #[must_use]
    pub fn telling(mut self, counts: Arc<Mutex<ListCounts>>) -> Self {
        self.told = Some(counts);
        self
    }

    /// Rejects options whose picks are not made list by list, and a graph with another number of nodes.
    pub(crate) fn check(&self, options: &SamplerOptions, nodes: usize) -> Result<(), InvalidOption> {
        if !options.kind.picks_list_by_list() {
            let instead = SamplerKind::names_of(SamplerKind::picks_list_by_list);
            return Err(InvalidOption::DividedLists { kind: options.kind, instead });
        }
        let lists = self.book.rows();
        if lists != nodes as u64 {
            return Err(InvalidOption::DividedNodes { lists, nodes });
        }
        Ok(())
    }

    /// Obtains the picks for `nodes`, which are in range, and draws the picks that other ranks request in this hop.
    pub(super) fn bring<'g, I: NodeId, P: Picks<'g>>(
        &mut self,
        drawing: &mut Drawing<'g, P>,
        hop: &Hop<'_, I>,
        nodes: &[i64],
    ) -> PickResult {
        self.hop.nodes.iter_mut().for_each(Vec::clear);
        for &node in nodes {
            self.hop.nodes[owner(&self.book, node)].push(node);
        }
        self.meet(drawing, Some(hop.batch), hop.layer, hop.indices)
    }

    /// Draws the picks that other ranks request in a hop, without requests of its own.
    pub(super) fn serve<'g, I: NodeId, P: Picks<'g>>(
        &mut self,
        drawing: &mut Drawing<'g, P>,
        layer: usize,
        indices: &[I],
    ) -> PickResult {
        self.hop.nodes.iter_mut().for_each(Vec::clear);
        self.meet(drawing, None, layer, indices)
    }

    /// Makes the four calls of a hop for the recorded nodes; without a key there are none.
    fn meet<'g, I: NodeId, P: Picks<'g>>(
        &mut self,
        drawing: &mut Drawing<'g, P>,
        key: Option<BatchKey>,
        layer: usize,
        indices: &[I],
    ) -> PickResult {
        let began = Instant::now();
        let Self { book, exchange, counts, told, hop } = self;
        let HopMessages { nodes, questions, received, given, edge_ids, picks, answers, bounds, .. } = hop;
        let (own, ranks) = (exchange.rank(), book.parts());
        let word = hop_word(&drawing.options, &drawing.relations[0].view.lists, layer);

        questions.clear();
        let mut question_bytes = vec![0; ranks];
        for (rank, nodes) in nodes.iter().enumerate() {
            if rank != own && !nodes.is_empty() {
                questions.extend(key.iter().flat_map(|key| key_words(word, *key)));
                questions.extend_from_slice(nodes);
                question_bytes[rank] = (KEY_WORDS + nodes.len()) * WORD;
                counts.remote_lists += nodes.len() as u64;
            }
        }
        counts.own_lists += nodes[own].len() as u64;
        let asked_bytes = passed(&mut **exchange, questions, &question_bytes, received)?;

        let mut drawn_for = Vec::with_capacity(ranks);
        let mut rest = &received[..];
        for (rank, &bytes) in asked_bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            let question;
            (question, rest) = rest.split_at(bytes / WORD);
            let (key, nodes) = question_of(question, word, book.range(own))
                .map_err(|reason| disagreed(own, rank, reason))?;
            counts.given_lists += nodes.len() as u64;
            drawn_for.push((rank, key, nodes));
        }
        // The own picks come last, and stay on this rank.
        drawn_for.extend(key.map(|key| (own, key, &nodes[own][..])));
        let since = Instant::now();
        given.clear();
        let mut answer_bytes = vec![0; ranks];
        for (rank, key, nodes) in drawn_for {
            let begin = given.len();
            let (hop, group) = drawing.hop(Relation::ONLY, key, layer, indices);
            let with_edge_ids = drawing.options.edge_ids.then_some(&mut *edge_ids);
            let to = PickTarget::Ids { ids: given, edge_ids: with_edge_ids };
            let note = |count: usize| {
                picks.push(count as i64);
                Ok(())
            };
            let find = |nodes: &[i64], lists: &mut [List]| hop.find_lists(nodes, lists);
            drawing.draw((Relation::ONLY, &hop, group), nodes, to, (&mut [], 0), find, note)?;
            given.append(edge_ids);
            given.append(picks);
            answer_bytes[rank] = (given.len() - begin) * WORD;
        }
        let drawing_took = since.elapsed();
        let own_words = std::mem::take(&mut answer_bytes[own]) / WORD;
        let (for_others, for_itself) = given.split_at(given.len() - own_words);
        let got_bytes = passed(&mut **exchange, for_others, &answer_bytes, answers)?;
        let mut end = 0;
        bounds.clear();
        bounds.extend(got_bytes.iter().map(|bytes| {
            let begin = end;
            end += bytes / WORD;
            begin..end
        }));
        bounds[own] = end..end + own_words;
        answers.extend_from_slice(for_itself);

        counts.sent_bytes += message_bytes([&question_bytes, &answer_bytes]);
        counts.received_bytes += message_bytes([&asked_bytes, &got_bytes]);
        counts.waited += began.elapsed().saturating_sub(drawing_took);
        if let Some(told) = told {
            // The counts are plain numbers, so a thread that panicked left no partial state.
            *told.lock().unwrap_or_else(PoisonError::into_inner) = *counts;
        }
        Ok(())
    }

    /// Writes the obtained picks for `nodes` into the block, in the order of the nodes. `count` receives the number of
    /// picks of each node.
    pub(super) fn hand_over<'g, I: NodeId, P: Picks<'g>>(
        &mut self,
        drawing: &Drawing<'g, P>,
        hop: &Hop<'_, I>,
        nodes: &[i64],
        mut block: BlockTarget<'_>,
        mut count: impl FnMut(usize) -> PickResult,
    ) -> Result<ListReads, SampleError> {
        let Self {
            book,
            exchange,
            hop: HopMessages { nodes: asked, answers, bounds, ids, ordered_edge_ids, .. },
            ..
        } = self;
        let (own, with_edge_ids) = (exchange.rank(), drawing.options.edge_ids);
        let graph = &drawing.relations[0].view.lists;
        let mut from = Vec::with_capacity(bounds.len());
        for (rank, (range, nodes)) in bounds.iter().zip(asked).enumerate() {
            let answer = Answer::new(&answers[range.clone()], nodes.len(), with_edge_ids);
            from.push(answer.ok_or_else(|| disagreed(own, rank, NO_ANSWER))?);
        }
        ids.clear();
        ordered_edge_ids.clear();
        let mut reads = ListReads::default();
        for &node in nodes {
            let rank = owner(book, node);
            let (picked, edge_ids) = from[rank].next().ok_or_else(|| disagreed(own, rank, NO_ANSWER))?;
            let (_, degree) = hop.place_of_list(node as usize)?;
            reads +=
                reads_of(P::KIND, graph, (hop.fanout, drawing.options.replace), node, (degree, picked.len()));
            count(picked.len())?;
            ids.extend_from_slice(picked);
            ordered_edge_ids.extend_from_slice(edge_ids);
        }
        if let Some(rank) = from.iter().position(|answer| !answer.is_used_up()) {
            return Err(disagreed(own, rank, NO_ANSWER));
        }
        for (number, ids) in ids.chunks(GROUP_PICKS).enumerate() {
            let edge_ids = ordered_edge_ids.iter().skip(number * GROUP_PICKS).copied();
            let nodes_room = block.room.nodes_room;
            block.take(ids, edge_ids).map_err(|error| {
                let no_node = |_| disagreed(own, own, "a pick is not a node of the graph");
                error.of_batch(hop.batch, nodes_room, no_node)
            })?;
        }
        Ok(reads)
    }

    /// Ends the exchange for the other ranks, unless it has ended. Calls before the failed one may then still complete.
    pub(super) fn give_up(&self, error: &SampleError) {
        if !matches!(error, SampleError::Exchange(error) if error.culprit().is_some()) {
            self.exchange.cancel();
        }
    }
}

impl<'a> Answer<'a> {
    /// Parses the response for `lists` lists. `None` if its length is invalid.
    fn new(words: &'a [i64], lists: usize, with_edge_ids: bool) -> Option<Self> {
        let (picked, picks) = words.split_at_checked(words.len().checked_sub(lists)?)?;
        let (ids, edge_ids) = match with_edge_ids {
            true => picked.split_at(picked.len() / 2),
            false => (picked, &[][..]),
        };
        (!with_edge_ids || ids.len() == edge_ids.len()).then_some(Self { ids, edge_ids, picks: picks.iter() })
    }

    /// The picks from the next list, and their edge ids. `None` if there are not as many.
    fn next(&mut self) -> Option<(&'a [i64], &'a [i64])> {
        let picks = usize::try_from(*self.picks.next()?).ok()?;
        let (ids, edge_ids);
        (ids, self.ids) = self.ids.split_at_checked(picks)?;
        (edge_ids, self.edge_ids) = self.edge_ids.split_at(picks.min(self.edge_ids.len()));
        Some((ids, edge_ids))
    }

    /// Whether all of it has been consumed.
    fn is_used_up(&self) -> bool {
        self.ids.is_empty() && self.edge_ids.is_empty() && self.picks.len() == 0
    }
}

/// Sends each rank its bytes of `send`, of any length, and receives theirs. Returns the number of bytes from each rank.
fn passed(
    exchange: &mut dyn Exchange,
    send: &[i64],
    splits: &[usize],
    received: &mut Vec<i64>,
) -> Result<Vec<usize>, SampleError> {
    let lengths: Vec<u64> = splits.iter().map(|bytes| *bytes as u64).collect();
    let gets: Vec<usize> = exchange.counts(&lengths)?.into_iter().map(|bytes| bytes as usize).collect();
    if let Some(rank) = gets.iter().position(|bytes| !bytes.is_multiple_of(WORD)) {
        return Err(disagreed(exchange.rank(), rank, NO_ANSWER));
    }
    received.clear();
    received.resize(gets.iter().sum::<usize>() / WORD, 0);
    let (from, to) = (bytemuck::cast_slice(send), bytemuck::cast_slice_mut(received));
    exchange.all_to_all(from, to, Splits { send: splits, recv: &gets })?;
    Ok(gets)
}

/// The rank that has the list of a node of the graph.
fn owner(book: &Book, node: i64) -> usize {
    let owner = book.owner(node.cast_unsigned());
    owner.unwrap_or_else(|| unreachable!("node {node} is one of the graph's"))
}

/// The bytes of two messages to or from each other rank, and of their lengths.
fn message_bytes(splits: [&[usize]; 2]) -> u64 {
    let lengths = splits[0].len().saturating_sub(1) * WORD;
    splits.iter().map(|splits| (splits.iter().sum::<usize>() + lengths) as u64).sum()
}

/// A word that is equal on ranks with the same options, graph and hop.
fn hop_word(options: &SamplerOptions, graph: &GraphView<'_>, layer: usize) -> i64 {
    let SamplerOptions { kind, fanouts, replace, seed, batch_dependency, edge_ids, .. } = options;
    let name = kind.name().bytes().map(u64::from);
    let fanouts = fanouts.of_relation(Relation::ONLY).map(|fanout| i64::from(fanout).cast_unsigned());
    let sizes = [graph.csc.nodes() as u64, graph.csc.edges() as u64, layer as u64];
    let flags = [u64::from(*replace), u64::from(*edge_ids), u64::from(*batch_dependency), *seed];
    let all = name.chain(fanouts).chain(flags).chain(sizes);
    all.fold(0_u64, |word, value| mix(word.wrapping_add(value).wrapping_add(1))).cast_signed()
}

fn key_words(word: i64, key: BatchKey) -> [i64; KEY_WORDS] {
    [word, key.split as i64, i64::from(key.epoch), i64::from(key.batch)]
}

/// The batch and the nodes of a rank's question to the owner of the nodes `own`, in the hop of `word`.
///
/// # Errors
/// The reason why the request is invalid.
fn question_of(words: &[i64], word: i64, own: Range<u64>) -> Result<(BatchKey, &[i64]), &'static str> {
    let Some((&[given, split, epoch, batch], nodes)) = words.split_first_chunk::<KEY_WORDS>() else {
        return Err(NO_QUESTION);
    };
    if given != word {
        return Err(
            "it samples another graph, with other options, or is at another hop: fanouts, seed, sampler_kind, replace, \
             batch_dependency and edge_ids must be the same on all ranks",
        );
    }
    let split = Split::ALL.into_iter().find(|known| *known as i64 == split).ok_or(NO_QUESTION)?;
    let number = |word: i64| u32::try_from(word).map_err(|_| NO_QUESTION);
    let key = BatchKey { split, epoch: number(epoch)?, batch: number(batch)? };
    let is_own = |node: &i64| u64::try_from(*node).is_ok_and(|node| own.contains(&node));
    if nodes.iter().all(is_own) { Ok((key, nodes)) } else { Err(NO_QUESTION) }
}

const NO_QUESTION: &str = "it requests picks of nodes that do not belong to this rank";
const NO_ANSWER: &str = "its answer has another number of picks than it specifies";

fn disagreed(rank: usize, peer: usize, reason: &'static str) -> SampleError {
    SampleError::Disagreement { rank, peer, reason }
}
