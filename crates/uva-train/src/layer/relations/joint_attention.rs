//! Attention over the entries of several relations together, in host memory: the loops are those of `uva_ops::lists`.

use super::list_attention::filled_by;
use crate::block::aggregate::HostLists;
use crate::block::sums::weighted_sums;
use crate::torch::borrowed::Number;
use crate::{TrainError, torch::host};
use tch::{Device, Kind, Tensor};
use uva_ops::lists::attention::{EdgeScores, attention, back};
use uva_ops::lists::{Lists, SumElement, Weights, dots, transpose};

/// What is attended to in a relation. Rows have a part of equal width for each head, and are contiguous.
pub(crate) struct Entries<'a> {
    pub(crate) lists: HostLists<'a>,
    /// Of the sources, [sources, columns].
    pub(crate) keys: &'a Tensor,
    pub(crate) values: &'a Tensor,
    /// The matrix of each head between queries and keys, [heads, width, width]: the score of an entry is q·(k M).
    pub(crate) of_keys: Tensor,
    /// The matrix of each head that values are multiplied by.
    pub(crate) of_values: Tensor,
}

/// Gradients of what is in [`Entries`].
pub(crate) struct OfEntries {
    pub(crate) keys: Tensor,
    pub(crate) values: Tensor,
    pub(crate) of_keys: Tensor,
    pub(crate) of_values: Tensor,
}

/// The state that the backward pass needs.
pub(crate) struct JointAttention {
    relations: Vec<Attended>,
    /// The entries of each destination, in the order of relations: offsets, and numbers among all entries.
    offsets: Vec<i64>,
    order: Vec<i64>,
    /// The scores of all entries, and their softmax over each destination: [entries, heads], relation by relation.
    scores: Tensor,
    weights: Tensor,
}

/// The destinations that have entries in a relation: the maps of the relation are applied to these, not to its sources.
struct Attended {
    /// Their local ids.
    active: Tensor,
    /// Offsets of their lists.
    offsets: Vec<i32>,
    /// The number of the first entry among those of all relations.
    first: usize,
    /// Queries, multiplied so that their products with the plain keys are the scores.
    queries: Tensor,
    /// The weighted sums of the plain values.
    sums: Tensor,
}

impl Attended {
    fn entries(&self) -> usize {
        self.offsets.last().map_or(0, |&end| end as usize)
    }

    /// The entries' rows of a table of all of them.
    fn part(&self, of_all: &Tensor) -> Result<Tensor, TrainError> {
        Ok(of_all.f_narrow(0, self.first as i64, self.entries() as i64)?)
    }

    fn lists<'l>(&'l self, relation: &'l Entries<'_>) -> Result<Lists<'l, i32>, TrainError> {
        Ok(Lists::new(&self.offsets, relation.lists.indices, relation.lists.sources)?)
    }
}

impl JointAttention {
    /// For each destination the sum over the entries of all `relations` of weight × value, with the softmax of the scores
    /// over all of them as weights: [destinations, columns]. Without entries it is zeros. `queries` are contiguous.
    pub(crate) fn new(
        relations: &[Entries<'_>],
        queries: &Tensor,
        heads: usize,
    ) -> Result<(Tensor, Self), TrainError> {
        match queries.f_kind()? {
            Kind::Double => Self::forward::<f64>(relations, queries, heads),
            _ => Self::forward::<f32>(relations, queries, heads),
        }
    }

    /// The gradients of the queries and of each relation's part from that of the sums.
    pub(crate) fn backward(
        &self,
        relations: &[Entries<'_>],
        queries: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Tensor, Vec<OfEntries>), TrainError> {
        match queries.f_kind()? {
            Kind::Double => self.back::<f64>(relations, queries, gradient),
            _ => self.back::<f32>(relations, queries, gradient),
        }
    }

    fn forward<T: SumElement + Number>(
        relations: &[Entries<'_>],
        queries: &Tensor,
        heads: usize,
    ) -> Result<(Tensor, Self), TrainError> {
        let (pool, columns) = (host::threads(), queries.size2()?.1 as usize);
        let (mut attended, mut destinations, mut first) = (Vec::new(), Vec::new(), 0);
        for relation in relations {
            let (active, offsets) = with_entries(relation.lists.indptr);
            let active_rows = Tensor::f_from_slice(&active)?;
            let queries =
                by_head(&queries.f_index_select(0, &active_rows)?, &transposed(&relation.of_keys)?)?;
            let sums = Tensor::f_zeros([0, columns as i64], (T::KIND, Device::Cpu))?;
            let entries = relation.lists.indices.len();
            attended.push(Attended { active: active_rows, offsets, first, queries, sums });
            destinations.push(active);
            first += entries;
        }
        let (offsets, order) = by_destination(&attended, &destinations, queries.size2()?.0 as usize);
        let table = [first as i64, heads as i64];
        let scores = Tensor::f_zeros(table, (T::KIND, Device::Cpu))?;
        for (of, relation) in attended.iter().zip(relations) {
            let rows = (host::values::<T>(relation.keys)?, host::values::<T>(&of.queries)?);
            let lists = of.lists(relation)?;
            filled_by(&mut of.part(&scores)?, |out| {
                dots(&lists, rows, (columns, heads), out, pool.as_deref())
            })?;
        }
        let weights = scores.f_zeros_like()?;
        let mut made = Self { relations: attended, offsets, order, scores, weights };
        made.weights = made.in_order_of_relations::<T>(|lists, scores, out| {
            attention(lists, scores, out, pool.as_deref())
        })?;
        let sums = queries.f_zeros_like()?;
        for (of, relation) in made.relations.iter_mut().zip(relations) {
            let weights = of.part(&made.weights)?;
            let weights = Weights::Heads(host::values::<T>(&weights)?, heads);
            of.sums = weighted_sums(relation.values, (&of.offsets, relation.lists.indices), weights)?;
            let _ =
                sums.shallow_clone().f_index_add_(0, &of.active, &by_head(&of.sums, &relation.of_values)?)?;
        }
        Ok((sums, made))
    }

    fn back<T: SumElement + Number>(
        &self,
        relations: &[Entries<'_>],
        queries: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Tensor, Vec<OfEntries>), TrainError> {
        let (pool, (_, columns), (_, heads)) = (host::threads(), queries.size2()?, self.scores.size2()?);
        let (columns, heads) = (columns as usize, heads as usize);
        let of_weights = self.weights.f_zeros_like()?;
        let mut of_sums = Vec::with_capacity(relations.len());
        for (of, relation) in self.relations.iter().zip(relations) {
            let of_mapped = gradient.f_index_select(0, &of.active)?;
            let of_plain = by_head(&of_mapped, &transposed(&relation.of_values)?)?;
            let rows = (host::values::<T>(relation.values)?, host::values::<T>(&of_plain)?);
            let lists = of.lists(relation)?;
            filled_by(&mut of.part(&of_weights)?, |out| {
                dots(&lists, rows, (columns, heads), out, pool.as_deref())
            })?;
            of_sums.push((of_mapped, of_plain));
        }
        let (weights, of_weights) =
            (self.in_order_of_destinations::<T>(&self.weights)?, self.in_order_of_destinations(&of_weights)?);
        let of_scores = self.in_order_of_relations::<T>(|lists, scores, out| {
            back(lists, scores, (&weights, &of_weights), out, pool.as_deref())
        })?;
        let of_queries = queries.f_zeros_like()?;
        let mut of_relations = Vec::with_capacity(relations.len());
        for ((of, relation), (of_mapped, of_plain)) in self.relations.iter().zip(relations).zip(of_sums) {
            let (weights, of_scores) = (of.part(&self.weights)?, of.part(&of_scores)?);
            let (weights, of_scores) = (host::values::<T>(&weights)?, host::values::<T>(&of_scores)?);
            let indices = relation.lists.indices;
            let of_turned =
                weighted_sums(relation.keys, (&of.offsets, indices), Weights::Heads(of_scores, heads))?;
            // The entries by source: the places of their destinations, and what belongs to them.
            let mut picked_by = vec![0i32; indices.len()];
            let mut by_source = [(); 2].map(|()| vec![T::from_f64(0.0); indices.len() * heads]);
            let offsets = transpose(&of.lists(relation)?, |place, v, entry| {
                picked_by[place] = v as i32;
                for (by_source, values) in by_source.iter_mut().zip([weights, of_scores]) {
                    by_source[place * heads..][..heads].copy_from_slice(&values[entry * heads..][..heads]);
                }
            });
            let [by_weight, by_score] = &by_source;
            let into = |rows: &Tensor, weights: &[T]| {
                weighted_sums(rows, (&offsets, &picked_by), Weights::Heads(weights, heads))
            };
            let of_active = by_head(&of_turned, &relation.of_keys)?;
            let _ = of_queries.shallow_clone().f_index_add_(0, &of.active, &of_active)?;
            of_relations.push(OfEntries {
                keys: into(&of.queries, by_score)?,
                values: into(&of_plain, by_weight)?,
                of_keys: of_matrices(&of_turned, &queries.f_index_select(0, &of.active)?, heads)?,
                of_values: of_matrices(&of.sums, &of_mapped, heads)?,
            });
        }
        Ok((of_queries, of_relations))
    }

    /// `write` gets the lists of the entries of each destination with their scores, and writes numbers of these entries in
    /// their order. The result has them relation by relation.
    fn in_order_of_relations<T: SumElement + Number>(
        &self,
        write: impl FnOnce(&Lists<'_, i64>, EdgeScores<'_, T>, &mut [T]) -> Result<(), uva_ops::lists::ListsError>,
    ) -> Result<Tensor, TrainError> {
        let (entries, heads) = self.scores.size2()?;
        let (entries, heads) = (entries as usize, heads as usize);
        let lists = Lists::new(&self.offsets, &self.order, entries)?;
        // A score belongs to its entry: there is nothing to add, and no slope.
        let none = vec![T::from_f64(0.0); lists.len() * heads];
        let scores = EdgeScores {
            of_rows: host::values::<T>(&self.scores)?,
            of_lists: &none,
            heads,
            slope: T::from_f64(1.0),
        };
        let mut of_lists = vec![T::from_f64(0.0); entries * heads];
        write(&lists, scores, &mut of_lists)?;
        let mut of_relations = self.scores.f_zeros_like()?;
        host::change::<T>(&mut of_relations, |out| {
            for (&entry, values) in self.order.iter().zip(of_lists.chunks_exact(heads)) {
                out[entry as usize * heads..][..heads].copy_from_slice(values);
            }
        })?;
        Ok(of_relations)
    }

    /// Numbers of the entries, which are ordered by relation, in the order of the destinations.
    fn in_order_of_destinations<T: Number>(&self, of_relations: &Tensor) -> Result<Vec<T>, TrainError> {
        let (heads, values) = (of_relations.size2()?.1 as usize, host::values::<T>(of_relations)?);
        let of_entry = |&entry: &i64| &values[entry as usize * heads..][..heads];
        Ok(self.order.iter().flat_map(of_entry).copied().collect())
    }
}

/// The lists that are not empty: their numbers, and their offsets.
fn with_entries(indptr: &[i32]) -> (Vec<i64>, Vec<i32>) {
    let mut offsets = vec![0];
    let mut active = Vec::new();
    for (v, ends) in indptr.windows(2).enumerate() {
        if ends[1] > ends[0] {
            active.push(v as i64);
            offsets.push(ends[1]);
        }
    }
    (active, offsets)
}

/// The entries of each of `count` destinations: offsets, and numbers among the entries of all relations.
fn by_destination(relations: &[Attended], destinations: &[Vec<i64>], count: usize) -> (Vec<i64>, Vec<i64>) {
    let mut offsets = vec![0i64; count + 1];
    for (of, active) in relations.iter().zip(destinations) {
        for (&v, ends) in active.iter().zip(of.offsets.windows(2)) {
            offsets[v as usize + 1] += i64::from(ends[1] - ends[0]);
        }
    }
    for v in 0..count {
        offsets[v + 1] += offsets[v];
    }
    let mut next = offsets.clone();
    let mut order = vec![0i64; offsets[count] as usize];
    for (of, active) in relations.iter().zip(destinations) {
        for (&v, ends) in active.iter().zip(of.offsets.windows(2)) {
            for entry in ends[0]..ends[1] {
                order[next[v as usize] as usize] = of.first as i64 + i64::from(entry);
                next[v as usize] += 1;
            }
        }
    }
    (offsets, order)
}

/// Each head's part of a row times the matrix of the head.
fn by_head(rows: &Tensor, matrices: &Tensor) -> Result<Tensor, TrainError> {
    let (count, columns) = rows.size2()?;
    let heads = matrices.size3()?.0;
    let parts = rows.f_view([count, heads, columns / heads])?.f_transpose(0, 1)?;
    let mapped = parts.f_bmm(matrices)?.f_transpose(0, 1)?.f_reshape([count, columns])?;
    // Of a single head or row it is a view with the strides of the product.
    Ok(mapped.f_contiguous()?)
}

/// The gradient of the matrices of [`by_head`].
fn of_matrices(rows: &Tensor, gradient: &Tensor, heads: usize) -> Result<Tensor, TrainError> {
    let (count, columns) = rows.size2()?;
    let shape = [count, heads as i64, columns / heads as i64];
    let (rows, gradient) = (rows.f_view(shape)?, gradient.f_view(shape)?);
    Ok(rows.f_permute([1i64, 2, 0])?.f_bmm(&gradient.f_transpose(0, 1)?)?)
}

fn transposed(matrices: &Tensor) -> Result<Tensor, TrainError> {
    Ok(matrices.f_transpose(1, 2)?)
}
