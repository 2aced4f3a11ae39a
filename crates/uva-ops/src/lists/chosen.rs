//! Lists of which one sums some, and another the rest: what each needs of them.

use super::checked::{Id, Lists};
use super::sums::Weights;

/// The rows that the sums of these lists take, and the first `always` rows besides: ascending, each once.
///
/// With `own`, row `v` is one of list `v`. `is_chosen` says of each list whether it is one of these.
pub fn rows_of_chosen<I: Id>(
    lists: &Lists<'_, I>,
    is_chosen: impl Fn(usize) -> bool,
    always: usize,
    own: bool,
) -> Vec<I> {
    let mut taken = vec![false; lists.rows()];
    let first = always.min(taken.len());
    taken[..first].fill(true);
    for v in (0..lists.len()).filter(|&v| is_chosen(v)) {
        lists.edges(v).for_each(|edge| taken[lists.row(edge)] = true);
        if own && let Some(taken) = taken.get_mut(v) {
            *taken = true;
        }
    }
    taken.iter().enumerate().filter(|(_, taken)| **taken).map(|(row, _)| I::of(row)).collect()
}

/// What becomes of the lists that are not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// They are empty.
    Empty,
    /// They are left out, and those behind them move up.
    LeftOut,
}

/// Some of a few lists, with their edges and weights one behind the other.
#[derive(Debug)]
pub struct ChosenLists<I> {
    /// Where each list begins, and where the last ends.
    pub offsets: Vec<I>,
    /// The rows of the chosen lists.
    pub indices: Vec<I>,
    /// Their weights; `None` where one over a list's length is its weight.
    weights: Option<Vec<f32>>,
}

impl<I: Id> ChosenLists<I> {
    /// The lists for which `is_chosen` holds, with rows renamed by `renamed`. Weights are by mean, or a number an edge. With
    /// weights of own rows, row `v` comes last in list `v`, with its weight there: sums are then those that add own rows
    /// themselves.
    ///
    /// # Panics
    /// Where there are fewer weights than edges, or fewer weights of own rows than lists.
    pub fn new(
        lists: &Lists<'_, I>,
        (weights, own): (Weights<'_, f32>, Option<&[f32]>),
        is_chosen: impl Fn(usize) -> bool,
        others: Others,
        renamed: impl Fn(usize) -> usize,
    ) -> Self {
        let each = match weights {
            Weights::Each(weights) => Some(weights),
            _ => None,
        };
        debug_assert!(own.is_none() || each.is_some(), "own rows have weights beside those of edges");
        let mut offsets = Vec::with_capacity(lists.len() + 1);
        let (mut indices, mut kept) = (Vec::new(), Vec::new());
        offsets.push(I::of(0));
        for v in 0..lists.len() {
            if is_chosen(v) {
                let edges = lists.edges(v);
                indices.extend(edges.clone().map(|edge| I::of(renamed(lists.row(edge)))));
                if let Some(weights) = each {
                    kept.extend_from_slice(&weights[edges]);
                }
                if let Some(own) = own {
                    indices.push(I::of(renamed(v)));
                    kept.push(own[v]);
                }
            } else if others == Others::LeftOut {
                continue;
            }
            offsets.push(I::of(indices.len()));
        }
        Self { offsets, indices, weights: each.map(|_| kept) }
    }

    /// What their rows are multiplied by.
    pub fn weights(&self) -> Weights<'_, f32> {
        self.weights.as_deref().map_or(Weights::Mean, Weights::Each)
    }
}

#[cfg(test)]
mod tests {
    use super::super::WeightedSums;
    use super::*;
    use crate::Vectors;

    const WIDTH: usize = 19;

    fn sums(
        rows: &[f32],
        lists: (&[i32], &[i32]),
        weights: Weights<'_, f32>,
        own: Option<&[f32]>,
    ) -> Vec<u32> {
        let count = lists.0.len() - 1;
        let lists = Lists::new(lists.0, lists.1, rows.len() / WIDTH).expect("lists");
        let mut sums = WeightedSums::new(rows, WIDTH, lists, weights).expect("sums");
        if let Some(own) = own {
            sums = sums.with_own(own).expect("own weights");
        }
        let mut out = vec![f32::NAN; count * WIDTH];
        sums.write_some(0, &mut out, Vectors::widest());
        out.into_iter().map(f32::to_bits).collect()
    }

    /// Both parts' sums, put together, are those of all lists, bit for bit: each from the rows that it needs alone.
    #[test]
    fn the_sums_of_two_parts_of_some_lists_are_those_of_all() {
        let rows: Vec<f32> = (0..9 * WIDTH).map(|at| ((at * 7919) % 1013) as f32 / 97.0 - 5.0).collect();
        let (offsets, indices) = ([0, 3, 3, 5, 6], [4, 8, 4, 1, 7, 0]);
        let lists = Lists::new(&offsets, &indices, 9).expect("lists");
        let (each, own_weights) = ([0.3, 0.7, 1.1, 0.2, 0.9, 0.5], [0.1_f32, 0.2, 0.3, 0.4]);
        for (weights, own) in [
            (Weights::Mean, None),
            (Weights::Each(&each[..]), None),
            (Weights::Each(&each[..]), Some(&own_weights[..])),
        ] {
            let expected = sums(&rows, (&offsets, &indices), weights, own);
            for chosen in 0..16_usize {
                let is_chosen = |v: usize| chosen >> v & 1 == 1;
                let of_chosen =
                    ChosenLists::new(&lists, (weights, own), is_chosen, Others::LeftOut, |row| row);
                let one = (&of_chosen.offsets[..], &of_chosen.indices[..]);
                let mut one = sums(&rows, one, of_chosen.weights(), None);
                // The others are made of the rows that they need, which lie one behind the other.
                let left = |v: usize| !is_chosen(v);
                let always = if own.is_some() { 0 } else { 4 };
                let taken = rows_of_chosen(&lists, left, always, own.is_some());
                assert!(taken.windows(2).all(|pair| pair[0] < pair[1]), "{taken:?}");
                let place = |row: usize| {
                    taken.iter().position(|&of| of as usize == row).expect("a row that it needs")
                };
                let of_others = ChosenLists::new(&lists, (weights, own), left, Others::Empty, place);
                let some: Vec<f32> =
                    taken.iter().flat_map(|&row| rows[row as usize * WIDTH..][..WIDTH].to_vec()).collect();
                let mut found =
                    sums(&some, (&of_others.offsets, &of_others.indices), of_others.weights(), None);
                for v in (0..4).filter(|&v| is_chosen(v)) {
                    found[v * WIDTH..][..WIDTH].copy_from_slice(&one[..WIDTH]);
                    one.drain(..WIDTH);
                }
                assert_eq!((found, one.len()), (expected.clone(), 0), "{chosen:04b}");
                // No row more than that, but for those that come always.
                let needed = |row: usize| {
                    row < always
                        || (0..4).any(|v| {
                            left(v)
                                && (indices[lists.edges(v)].contains(&(row as i32))
                                    || own.is_some() && row == v)
                        })
                };
                assert!(
                    (0..9).all(|row| needed(row) == taken.contains(&(row as i32))),
                    "{chosen:04b}: {taken:?}"
                );
            }
        }
    }
}
