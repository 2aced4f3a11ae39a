//! Builds `indptr.npy`, `indices.npy` and `weight.npy` from a stream of edges.

use std::path::{Path, PathBuf};

use bytemuck::Pod;
use rayon::prelude::*;

use super::buckets::{Buckets, CHUNK_BYTES};
use super::changes::{Changes, SelfLoops};
use crate::GraphError;
use crate::Progress;
use crate::description::names;
use crate::npy::{NpyType, NpyWriter};

/// Maximum number of buckets. Large enough that a bucket of a large graph is sorted within cache, small enough that
/// each bucket's buffer is worth a write.
const MOST_BUCKETS: u64 = 256;

/// Lists that one task sorts.
const NODES_PER_TASK: usize = 4096;

/// The minimum accepted memory, in bytes: a chunk for every bucket, twice, and as much again for sorting.
pub const LEAST_MEMORY: u64 = 4 * MOST_BUCKETS * CHUNK_BYTES as u64;

/// Builds the lists of all nodes, in two halves: [`push`](CscBuilder::push) every edge, then
/// [`finish`](CscBuilder::finish).
///
/// Half of the memory holds edges before they go to the temporary file. The other half holds the lists being sorted.
#[derive(Debug)]
pub struct CscBuilder {
    directory: PathBuf,
    sources: u64,
    /// The number of lists.
    nodes: u64,
    changes: Changes,
    weighted: bool,
    /// Whether records store the number of their edge.
    numbered: bool,
    /// The number of edges pushed so far.
    pushed: u64,
    memory: u64,
    /// A bucket has `1 << shift` nodes.
    shift: u32,
    /// Whether sources take 32 bits.
    narrow: bool,
    buckets: Buckets,
}

/// Receives the numbers of pushed edges.
pub type Numbers<'n> = &'n mut dyn FnMut(&[u64]) -> Result<(), GraphError>;

/// The value by which the entries of a list are sorted, for the number of a pushed edge.
pub type SortKey<'k> = &'k (dyn Fn(u64) -> i64 + Sync);

/// The numbers of nodes at both ends of a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Nodes that lists may name.
    pub sources: u64,
    /// Nodes that have a list.
    pub destinations: u64,
}

impl Ends {
    /// The ends of a graph whose nodes are of one kind.
    pub fn among(nodes: u64) -> Ends {
        Ends { sources: nodes, destinations: nodes }
    }
}

/// An id as `indices.npy` stores it.
trait NeighbourId: Pod + Ord + Send {
    const KIND: NpyType;
    fn of(id: u64) -> Self;
}

impl NeighbourId for i32 {
    const KIND: NpyType = NpyType::I32;
    fn of(id: u64) -> i32 {
        id as i32
    }
}

impl NeighbourId for i64 {
    const KIND: NpyType = NpyType::I64;
    fn of(id: u64) -> i64 {
        id as i64
    }
}

impl CscBuilder {
    /// Creates a builder for a graph of `nodes` nodes. The lists and the temporary file are written to `directory`.
    /// With `weighted`, each edge has a weight; only unchanged edges can keep it. `memory` bounds the memory of all
    /// work, in bytes.
    ///
    /// # Errors
    /// If `memory` is less than `LEAST_MEMORY`.
    pub fn new(
        directory: &Path,
        nodes: u64,
        changes: Changes,
        weighted: bool,
        memory: u64,
    ) -> Result<CscBuilder, GraphError> {
        CscBuilder::of_records(directory, Ends::among(nodes), changes, (weighted, false), memory)
    }

    /// Creates a builder for a relation between nodes of two types, whose ids are local to their type. With `numbered`,
    /// edges have numbers as in [`numbered`](CscBuilder::numbered); added reverse edges have those of their edges, and
    /// each list keeps the order of arrival. Changes require the same type at both ends; with `numbered`, only reverse
    /// edges can be added.
    ///
    /// # Errors
    /// As [`CscBuilder::new`].
    pub fn between(
        directory: &Path,
        ends: Ends,
        changes: Changes,
        numbered: bool,
        memory: u64,
    ) -> Result<CscBuilder, GraphError> {
        debug_assert!(!numbered || !changes.deduplicate && changes.self_loops == SelfLoops::Keep);
        CscBuilder::of_records(directory, ends, changes, (false, numbered), memory)
    }

    /// Like [`new`](CscBuilder::new), for edges that also have a row in a table of the caller, in the order of
    /// [`push`](CscBuilder::push). [`finish_numbered`](CscBuilder::finish_numbered) then reports where each row
    /// belongs. Changed edges have no row.
    ///
    /// # Errors
    /// As [`CscBuilder::new`].
    pub fn numbered(
        directory: &Path,
        nodes: u64,
        weighted: bool,
        memory: u64,
    ) -> Result<CscBuilder, GraphError> {
        CscBuilder::of_records(directory, Ends::among(nodes), Changes::NONE, (weighted, true), memory)
    }

    fn of_records(
        directory: &Path,
        Ends { sources, destinations: nodes }: Ends,
        changes: Changes,
        (weighted, numbered): (bool, bool),
        memory: u64,
    ) -> Result<CscBuilder, GraphError> {
        if memory < LEAST_MEMORY {
            let message = format!("{memory} bytes is too little: at least {} MiB", LEAST_MEMORY >> 20);
            return Err(GraphError::usage("memory", message));
        }
        debug_assert!(!weighted || changes.is_none());
        let last = nodes.saturating_sub(1);
        let shift = (0..64).find(|&shift| last >> shift < MOST_BUCKETS).unwrap_or(0);
        let narrow = u32::try_from(sources.saturating_sub(1)).is_ok();
        let of_values = if weighted { 4 } else { 0 } + if numbered { 8 } else { 0 };
        let record_bytes = 4 + if narrow { 4 } else { 8 } + of_values;
        let buckets = Buckets::new(directory, (last >> shift) as usize + 1, record_bytes, memory / 2);
        let directory = directory.to_owned();
        let pushed = 0;
        Ok(CscBuilder {
            directory,
            sources,
            nodes,
            changes,
            weighted,
            numbered,
            pushed,
            memory,
            shift,
            narrow,
            buckets,
        })
    }

    /// Adds an edge, after the requested changes. Both ends are below the number of nodes. The weight of an unweighted
    /// edge is ignored.
    #[inline]
    pub fn push(&mut self, source: u64, destination: u64, weight: f32) -> Result<(), GraphError> {
        let number = self.pushed;
        self.pushed += 1;
        if source == destination {
            // Added self-loops come with the lists. A self-loop is its own reverse edge.
            return match self.changes.self_loops {
                SelfLoops::Keep => self.put(source, destination, weight, number),
                SelfLoops::Add | SelfLoops::Remove => Ok(()),
            };
        }
        self.put(source, destination, weight, number)?;
        if self.changes.symmetrise { self.put(destination, source, weight, number) } else { Ok(()) }
    }

    #[inline]
    fn put(&mut self, source: u64, destination: u64, weight: f32, number: u64) -> Result<(), GraphError> {
        let bucket = (destination >> self.shift) as usize;
        let local = (destination - ((bucket as u64) << self.shift)) as u32;
        let mut record = [0; 24];
        record[..4].copy_from_slice(&local.to_le_bytes());
        let mut length = if self.narrow {
            record[4..8].copy_from_slice(&(source as u32).to_le_bytes());
            8
        } else {
            record[4..12].copy_from_slice(&source.to_le_bytes());
            12
        };
        if self.weighted {
            record[length..length + 4].copy_from_slice(&weight.to_le_bytes());
            length += 4;
        }
        if self.numbered {
            record[length..length + 8].copy_from_slice(&number.to_le_bytes());
            length += 8;
        }
        self.buckets.push(bucket, &record[..length])
    }

    /// The number of edges pushed so far, without added reverse edges.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Writes the lists, with 32-bit ids if they fit, and returns the number of edges.
    ///
    /// # Errors
    /// If a write or read fails, or one node has more in-neighbours than the memory holds.
    pub fn finish(self, progress: &dyn Fn(Progress)) -> Result<u64, GraphError> {
        self.finish_numbered(progress, &mut |_| Ok(()))
    }

    /// Like [`finish`](CscBuilder::finish), and passes the numbers of the pushed edges, from 0, to `numbers` in list
    /// order.
    ///
    /// # Errors
    /// As [`finish`](CscBuilder::finish), and errors of `numbers`.
    pub fn finish_numbered(
        self,
        progress: &dyn Fn(Progress),
        numbers: Numbers<'_>,
    ) -> Result<u64, GraphError> {
        self.finish_in_order(progress, None, numbers)
    }

    /// Like [`finish_numbered`](CscBuilder::finish_numbered); with `key`, each list ascends by it, and entries of equal
    /// keys keep their order. Edges have numbers and are unweighted then.
    ///
    /// # Errors
    /// As [`finish_numbered`](CscBuilder::finish_numbered).
    pub fn finish_in_order(
        self,
        progress: &dyn Fn(Progress),
        key: Option<SortKey<'_>>,
        numbers: Numbers<'_>,
    ) -> Result<u64, GraphError> {
        debug_assert!(key.is_none() || self.numbered && !self.weighted);
        if self.sources > i32::MAX as u64 {
            self.write::<i64>(progress, key, numbers)
        } else {
            self.write::<i32>(progress, key, numbers)
        }
    }

    fn write<I: NeighbourId>(
        mut self,
        progress: &dyn Fn(Progress),
        key: Option<SortKey<'_>>,
        numbers: Numbers<'_>,
    ) -> Result<u64, GraphError> {
        self.buckets.seal()?;
        let mut lists = Lists::<I> {
            ends: NpyWriter::create(&self.directory.join(names::INDPTR), NpyType::I64, &[])?,
            ids: NpyWriter::create(&self.directory.join(names::INDICES), I::KIND, &[])?,
            weights: match self.weighted {
                true => Some(NpyWriter::create(&self.directory.join(names::WEIGHTS), NpyType::F32, &[])?),
                false => None,
            },
            key,
            numbers,
            edges: 0,
            id: std::marker::PhantomData,
        };
        lists.ends.write(&[0_i64])?;
        let count = self.nodes.div_ceil(1 << self.shift);
        for bucket in 0..count {
            progress(Progress { stage: "lists", done: bucket, total: count });
            self.write_bucket(bucket, &mut lists)?;
            self.buckets.forget(bucket as usize);
        }
        progress(Progress { stage: "lists", done: count, total: count });
        lists.ends.finish()?;
        lists.ids.finish()?;
        lists.weights.map(NpyWriter::finish).transpose()?;
        Ok(lists.edges)
    }

    /// Sorts a bucket and appends its lists. A bucket too large for memory is split into several runs of nodes, with
    /// one pass for each.
    fn write_bucket<I: NeighbourId>(&self, bucket: u64, lists: &mut Lists<'_, I>) -> Result<(), GraphError> {
        let first = bucket << self.shift;
        let nodes = (self.nodes - first).min(1 << self.shift) as usize;
        let loops = u64::from(self.changes.self_loops == SelfLoops::Add);
        let mut degrees = vec![loops; nodes];
        self.each(bucket, |local, _, _, _| degrees[local] += 1)?;

        let of_values = if self.weighted { 4 } else { 0 } + if self.numbered { 8 } else { 0 };
        let bytes = (size_of::<I>() + of_values) as u64;
        let most = self.memory / 2 / bytes;
        let mut start = 0;
        while start < nodes {
            let mut end = start;
            let mut edges = 0;
            while end < nodes && (edges + degrees[end] <= most) {
                edges += degrees[end];
                end += 1;
            }
            if end == start {
                let message = format!(
                    "node {} has {} in-neighbours, which need {} bytes while they are sorted: give at least twice that",
                    first + start as u64,
                    degrees[start],
                    degrees[start] * bytes,
                );
                return Err(GraphError::usage("memory", message));
            }
            self.write_run(bucket, start..end, &degrees[start..end], lists)?;
            start = end;
        }
        Ok(())
    }

    fn write_run<I: NeighbourId>(
        &self,
        bucket: u64,
        run: std::ops::Range<usize>,
        degrees: &[u64],
        lists: &mut Lists<'_, I>,
    ) -> Result<(), GraphError> {
        // The start of each list; while the lists are filled, the position of the next entry.
        let mut next = Vec::with_capacity(degrees.len() + 1);
        let mut edges = 0;
        next.push(0);
        for &degree in degrees {
            edges += degree as usize;
            next.push(edges);
        }
        let mut starts = next.clone();
        let mut ids = vec![I::zeroed(); edges];
        let mut weights = vec![0_f32; if self.weighted { edges } else { 0 }];
        let mut numbers = vec![0_u64; if self.numbered { edges } else { 0 }];
        self.each(bucket, |local, source, weight, number| {
            if run.contains(&local) {
                let place = &mut next[local - run.start];
                ids[*place] = I::of(source);
                if let Some(kept) = weights.get_mut(*place) {
                    *kept = weight;
                }
                if let Some(kept) = numbers.get_mut(*place) {
                    *kept = number;
                }
                *place += 1;
            }
        })?;
        if self.changes.self_loops == SelfLoops::Add {
            let first = (bucket << self.shift) + run.start as u64;
            for (node, place) in next[..degrees.len()].iter().enumerate() {
                ids[*place] = I::of(first + node as u64);
            }
        }
        drop(next);
        if let Some(key) = lists.key {
            sort_by_key(&starts, &mut ids, &mut numbers, key);
        } else if self.changes.sorts() && !self.numbered {
            for_each_list(&starts, &mut ids, <[I]>::sort_unstable);
        }
        if self.changes.deduplicate {
            deduplicate(&mut starts, &mut ids);
        }
        lists.append(&starts, &ids, &weights, &numbers)
    }

    /// Calls `work` with the place in the bucket, source, weight and number of every record.
    fn each(&self, bucket: u64, mut work: impl FnMut(usize, u64, f32, u64)) -> Result<(), GraphError> {
        let u32_at = |record: &[u8], at: usize| {
            u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
        };
        if self.numbered {
            let source_bytes = if self.narrow { 4 } else { 8 };
            let record_bytes = 12 + source_bytes + if self.weighted { 4 } else { 0 };
            return self.buckets.read(bucket as usize, |run| {
                for record in run.chunks_exact(record_bytes) {
                    let u64_at = |at| u64::from(u32_at(record, at)) | u64::from(u32_at(record, at + 4)) << 32;
                    let source = if self.narrow { u32_at(record, 4).into() } else { u64_at(4) };
                    let weight =
                        if self.weighted { f32::from_bits(u32_at(record, 4 + source_bytes)) } else { 0.0 };
                    work(u32_at(record, 0) as usize, source, weight, u64_at(record_bytes - 8));
                }
            });
        }
        match (self.narrow, self.weighted) {
            (true, false) => self.buckets.read(bucket as usize, |run| {
                for record in run.as_chunks::<8>().0 {
                    work(u32_at(record, 0) as usize, u32_at(record, 4).into(), 0.0, 0);
                }
            }),
            (true, true) => self.buckets.read(bucket as usize, |run| {
                for record in run.as_chunks::<12>().0 {
                    let weight = f32::from_bits(u32_at(record, 8));
                    work(u32_at(record, 0) as usize, u32_at(record, 4).into(), weight, 0);
                }
            }),
            (false, weighted) => self.buckets.read(bucket as usize, |run| {
                for record in run.chunks_exact(if weighted { 16 } else { 12 }) {
                    let source = u64::from(u32_at(record, 4)) | u64::from(u32_at(record, 8)) << 32;
                    let weight = if weighted { f32::from_bits(u32_at(record, 12)) } else { 0.0 };
                    work(u32_at(record, 0) as usize, source, weight, 0);
                }
            }),
        }
    }
}

/// The files that lists are appended to.
struct Lists<'n, I> {
    ends: NpyWriter,
    ids: NpyWriter,
    weights: Option<NpyWriter>,
    key: Option<SortKey<'n>>,
    numbers: Numbers<'n>,
    edges: u64,
    id: std::marker::PhantomData<I>,
}

impl<I: NeighbourId> Lists<'_, I> {
    fn append(
        &mut self,
        starts: &[usize],
        ids: &[I],
        weights: &[f32],
        numbers: &[u64],
    ) -> Result<(), GraphError> {
        let ends: Vec<i64> = starts[1..].iter().map(|&end| (self.edges + end as u64) as i64).collect();
        self.ends.write(&ends)?;
        self.ids.write(ids)?;
        if let Some(writer) = &mut self.weights {
            writer.write(weights)?;
        }
        if !numbers.is_empty() {
            (self.numbers)(numbers)?;
        }
        self.edges += ids.len() as u64;
        Ok(())
    }
}

/// Calls `work` on every list, in parallel.
fn for_each_list<I: Send>(starts: &[usize], ids: &mut [I], work: impl Fn(&mut [I]) + Sync) {
    let mut tasks = Vec::new();
    let mut rest = ids;
    let mut first = 0;
    while first + 1 < starts.len() {
        let last = (first + NODES_PER_TASK).min(starts.len() - 1);
        let (lists, after) = rest.split_at_mut(starts[last] - starts[first]);
        rest = after;
        tasks.push((&starts[first..=last], lists));
        first = last;
    }
    tasks.into_par_iter().for_each(|(starts, mut lists)| {
        for pair in starts.windows(2) {
            let (list, after) = lists.split_at_mut(pair[1] - pair[0]);
            lists = after;
            work(list);
        }
    });
}

/// Sorts every list by the key of its entries' numbers, stably.
fn sort_by_key<I: Copy>(starts: &[usize], ids: &mut [I], numbers: &mut [u64], key: SortKey<'_>) {
    let mut entries: Vec<(i64, u64, I)> = Vec::new();
    for pair in starts.windows(2) {
        let list = pair[0]..pair[1];
        entries.clear();
        let listed = numbers[list.clone()].iter().zip(&ids[list.clone()]);
        entries.extend(listed.map(|(&number, &id)| (key(number), number, id)));
        entries.sort_by_key(|entry| entry.0);
        for (place, &(_, number, id)) in list.zip(&entries) {
            (ids[place], numbers[place]) = (id, number);
        }
    }
}

/// Keeps the first of equal neighbours in each list, which is sorted.
fn deduplicate<I: Copy + PartialEq>(starts: &mut [usize], ids: &mut Vec<I>) {
    let mut kept = 0;
    let mut start = 0;
    for end in starts.iter_mut().skip(1) {
        let list_start = kept;
        for position in start..*end {
            if kept == list_start || ids[kept - 1] != ids[position] {
                ids[kept] = ids[position];
                kept += 1;
            }
        }
        start = *end;
        *end = kept;
    }
    ids.truncate(kept);
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
