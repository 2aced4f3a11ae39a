//! One application of an operator's matrix: weighted sums over the lists of the graph.
//!
//! The weight of an entry is computed in float64 and rounded once to float32. Entries are added in the order of their
//! list by fused multiply-add, the node itself last. So a value does not depend on threads or on other columns.

use std::ops::Range;

use rayon::prelude::*;
use uva_graph::Indices;
use uva_ops::Vectors;
use uva_ops::lists::{Id, Lists, ListsError, WeightedSums, Weights};

use crate::operator::Operator;

/// Lists per task of a thread.
const TASK_LISTS: usize = 128;

/// Entries after which a thread sums the collected lists: a bound on its buffers, unless one list is longer.
pub(crate) const TASK_ENTRIES: usize = 1 << 15;

/// The lists of the graph, as input of the operator.
#[derive(Clone, Copy)]
pub(crate) struct OperatorGraph<'a> {
    pub(crate) offsets: &'a [i64],
    pub(crate) indices: Indices<'a>,
    /// The weights of entries; `None` if each is one.
    pub(crate) weights: Option<&'a [f32]>,
}

impl OperatorGraph<'_> {
    pub(crate) fn nodes(&self) -> usize {
        self.offsets.len() - 1
    }

    fn entries(&self, node: usize) -> Range<usize> {
        self.offsets[node] as usize..self.offsets[node + 1] as usize
    }

    /// The sum of the weights of a list.
    fn length(&self, node: usize) -> f64 {
        let entries = self.entries(node);
        match self.weights {
            None => entries.len() as f64,
            Some(weights) => weights[entries].iter().map(|&weight| f64::from(weight)).sum(),
        }
    }

    /// The entries of the longest list.
    pub(crate) fn longest(&self) -> usize {
        self.offsets.par_windows(2).map(|ends| (ends[1] - ends[0]) as usize).max().unwrap_or(0)
    }
}

/// The scale of an entry.
enum Scale {
    /// A number per list times a number per node of the entry.
    Both(Vec<f64>),
    /// The reciprocal of the list's length.
    Mean,
}

/// A sparse matrix with the entries of the lists, and the diagonal if `own`.
pub(crate) struct Matrix<'a> {
    graph: OperatorGraph<'a>,
    scale: Scale,
    /// Whether the node itself is an entry, the last one, of weight 1.
    own: bool,
    /// The factor of all entries.
    factor: f64,
    vectors: Vectors,
}

/// The lists that a thread has collected for its next sum.
struct Collected<I> {
    offsets: Vec<I>,
    indices: Vec<I>,
    weights: Vec<f32>,
}

impl<'a> Matrix<'a> {
    /// The matrix of an operator; for `ppr` and `heat`, the matrix of their sums. `graph` is the transposed graph for
    /// `col`. Uses the current rayon pool.
    pub(crate) fn of(operator: Operator, graph: OperatorGraph<'a>) -> Matrix<'a> {
        let own = operator.has_self_loops();
        let scale = match operator {
            Operator::Row | Operator::RowLoop | Operator::Col => Scale::Mean,
            Operator::Sym | Operator::SymNoLoop | Operator::Ppr { .. } | Operator::Heat { .. } => {
                let roots = (0..graph.nodes()).into_par_iter().map(|node| {
                    let length = graph.length(node) + if own { 1.0 } else { 0.0 };
                    if length > 0.0 { 1.0 / length.sqrt() } else { 0.0 }
                });
                Scale::Both(roots.collect())
            }
        };
        let factor = if let Operator::Ppr { alpha, .. } = operator { 1.0 - alpha } else { 1.0 };
        Matrix { graph, scale, own, factor, vectors: Vectors::widest() }
    }

    /// The sums of these nodes from the table `from`, whose rows have `width` columns, with a row per node in order.
    /// Uses the current rayon pool.
    ///
    /// # Errors
    /// If an entry is not a row of the table.
    pub(crate) fn rows(
        &self,
        nodes: &(impl NodeSequence + Sync + ?Sized),
        (from, width): (&[f32], usize),
        out: &mut [f32],
    ) -> Result<(), ListsError> {
        match self.graph.indices {
            Indices::I32(ids) => self.tasks(ids, nodes, (from, width), out),
            Indices::I64(ids) => self.tasks(ids, nodes, (from, width), out),
        }
    }

    fn tasks<I: Id>(
        &self,
        ids: &[I],
        nodes: &(impl NodeSequence + Sync + ?Sized),
        from: (&[f32], usize),
        out: &mut [f32],
    ) -> Result<(), ListsError> {
        let width = from.1;
        let empty = || Collected::<I> { offsets: vec![I::of(0)], indices: Vec::new(), weights: Vec::new() };
        out.par_chunks_mut(TASK_LISTS * width).enumerate().try_for_each_init(
            empty,
            |collected, (task, out)| {
                let first = task * TASK_LISTS;
                let count = out.len() / width;
                let mut done = 0;
                for at in 0..count {
                    self.collect(ids, nodes.node(first + at), collected)?;
                    if at + 1 == count || collected.indices.len() >= TASK_ENTRIES {
                        self.sum(collected, from, &mut out[done * width..(at + 1) * width])?;
                        done = at + 1;
                    }
                }
                Ok(())
            },
        )
    }

    /// Appends the list of a node.
    fn collect<I: Id>(&self, ids: &[I], node: usize, to: &mut Collected<I>) -> Result<(), ListsError> {
        let entries = self.graph.entries(node);
        let weights = self.graph.weights.map(|weights| &weights[entries.clone()]);
        let ids = ids[entries].iter().enumerate();
        let counts = |at: usize| weights.map_or(1.0, |weights| f64::from(weights[at]));
        let own = match &self.scale {
            Scale::Both(roots) => {
                let root = self.factor * roots[node];
                for (at, &id) in ids {
                    let other = *roots.get(id.place()).ok_or(ListsError::Index(roots.len()))?;
                    // Only without self-loops a node can have a divisor of zero: its entries are omitted.
                    if other > 0.0 {
                        to.indices.push(id);
                        to.weights.push((root * counts(at) * other) as f32);
                    }
                }
                root * roots[node]
            }
            Scale::Mean => {
                let length = self.graph.length(node) + if self.own { 1.0 } else { 0.0 };
                let share = if length > 0.0 { self.factor / length } else { 0.0 };
                for (at, &id) in ids {
                    to.indices.push(id);
                    to.weights.push((share * counts(at)) as f32);
                }
                share
            }
        };
        if self.own {
            to.indices.push(I::of(node));
            to.weights.push(own as f32);
        }
        to.offsets.push(I::of(to.indices.len()));
        Ok(())
    }

    /// Writes the sums of the collected lists, and clears them.
    fn sum<I: Id>(
        &self,
        lists: &mut Collected<I>,
        (from, width): (&[f32], usize),
        out: &mut [f32],
    ) -> Result<(), ListsError> {
        let checked = Lists::new(&lists.offsets, &lists.indices, self.graph.nodes())?;
        WeightedSums::new(from, width, checked, Weights::Each(&lists.weights))?.write_some(
            0,
            out,
            self.vectors,
        );
        lists.offsets.truncate(1);
        lists.indices.clear();
        lists.weights.clear();
        Ok(())
    }

    /// The maximum number of bytes that a thread collects.
    pub(crate) fn bytes_a_thread(graph: &OperatorGraph<'_>) -> u64 {
        // A vector may have twice the capacity that it needs.
        let entries = 2 * (TASK_ENTRIES + graph.longest()) as u64;
        entries * (graph.indices.id_bytes() as u64 + 4) + 2 * (TASK_LISTS * 8) as u64
    }
}

/// A sequence of nodes.
pub(crate) trait NodeSequence {
    /// The node at this position.
    fn node(&self, place: usize) -> usize;
}

impl NodeSequence for [i64] {
    fn node(&self, place: usize) -> usize {
        self[place] as usize
    }
}

impl NodeSequence for Range<usize> {
    fn node(&self, place: usize) -> usize {
        self.start + place
    }
}
