//! Checks for sources that sum: the rows of a plain loop, widened by their definition and added in the lists' order, bit
//! for bit.

use uva_ops::lists::{Lists, ListsError, Weights};
use uva_ops::rows::NarrowFloat;

use super::check::table_bytes;
use super::widened::widened;
use crate::error::GatherError;
use crate::host::{SumPlace, SumSource};
use crate::source::RowSource;
use crate::stack::SummedValues;

/// Makes the source under test over a table, for rows of the given bytes and values. If it has a cache, it holds the
/// given rows.
pub type MakeSummed<'f> =
    dyn for<'t> Fn(&'t [u8], usize, SummedValues, &[i64]) -> Box<dyn SumSource + 't> + 'f;

/// Every type of values that is summed.
fn types() -> impl Iterator<Item = Option<NarrowFloat>> {
    std::iter::once(None).chain(NarrowFloat::ALL.map(Some))
}

/// Bytes of such a value.
fn value_bytes(narrow: Option<NarrowFloat>) -> usize {
    SummedValues { narrow, widened_own: false }.bytes()
}

/// The value as float32, from the definition.
fn value(narrow: Option<NarrowFloat>, bytes: &[u8]) -> f32 {
    let mut all = [0; 4];
    all[..bytes.len()].copy_from_slice(bytes);
    let bits = u32::from_le_bytes(all);
    f32::from_bits(narrow.map_or(bits, |narrow| widened(narrow, bits as u16)))
}

/// A table whose values are numbers. Which of two NaNs a sum keeps is not said.
fn finite_table(values: usize, narrow: Option<NarrowFloat>) -> Vec<u8> {
    let mut table = table_bytes(values * value_bytes(narrow));
    for bytes in table.chunks_exact_mut(value_bytes(narrow)) {
        let size = value(narrow, bytes).abs();
        if size.is_nan() || size >= 1e15 {
            bytes.fill(0);
        }
    }
    table
}

/// Lists over ids, and the weights of their edges.
struct Case {
    ids: Vec<i64>,
    offsets: Vec<i32>,
    indices: Vec<i32>,
    weights: Vec<f32>,
    own_weights: Vec<f32>,
}

impl Case {
    /// As many lists as there are lengths, over `sources` ids of a table of `rows` rows. Every fifth edge repeats the
    /// one before it.
    fn new(rows: usize, sources: usize, lengths: &[usize]) -> Self {
        let ids = (0..sources).map(|i| (i * 7919 % rows) as i64).collect();
        let (mut offsets, mut indices) = (vec![0], Vec::new());
        for &length in lengths {
            for edge in 0..length {
                let at = indices.len();
                let again = edge > 0 && at.is_multiple_of(5);
                let index = if again { indices[at - 1] } else { (at * 31 % sources) as i32 };
                indices.push(index);
            }
            offsets.push(indices.len() as i32);
        }
        let weight = |at: usize| (at * 37 % 101) as f32 / 50.0 - 1.0;
        let weights = (0..indices.len()).map(weight).collect();
        let own_weights = (0..lengths.len()).map(|at| weight(at + 3)).collect();
        Self { ids, offsets, indices, weights, own_weights }
    }

    fn lists(&self) -> Lists<'_, i32> {
        Lists::new(&self.offsets, &self.indices, self.ids.len()).expect("lists")
    }

    /// Fills, and compares sums and rows with plain loops. `by_mean` chooses the weights, `own` adds the rows of the
    /// first ids.
    fn check(
        &self,
        source: &mut dyn SumSource,
        (table, row_bytes, values): (&[u8], usize, SummedValues),
        (by_mean, own): (bool, bool),
        what: &dyn Fn() -> String,
    ) {
        let narrow = values.narrow;
        let bytes = value_bytes(narrow);
        let row = |id: i64| &table[id as usize * row_bytes..][..row_bytes];
        let floats =
            |id: i64| row(id).chunks_exact(bytes).map(|bytes| value(narrow, bytes)).collect::<Vec<_>>();
        let lists = self.lists();
        let mut expected = Vec::new();
        for v in 0..lists.len() {
            let mut sums = vec![0.0_f32; row_bytes / bytes];
            let edges = lists.edges(v);
            let mean = (1.0 / edges.len() as f64) as f32;
            for edge in edges {
                let weight = if by_mean { mean } else { self.weights[edge] };
                for (sum, value) in sums.iter_mut().zip(floats(self.ids[self.indices[edge] as usize])) {
                    *sum = value.mul_add(weight, *sum);
                }
            }
            if own {
                for (sum, value) in sums.iter_mut().zip(floats(self.ids[v])) {
                    *sum = value.mul_add(self.own_weights[v], *sum);
                }
            }
            expected.extend(sums);
        }
        let own_rows: Vec<u8> = self.ids[..lists.len()]
            .iter()
            .flat_map(|&id| match values.own() {
                None => row(id).to_vec(),
                Some(_) => floats(id).into_iter().flat_map(f32::to_le_bytes).collect(),
            })
            .collect();
        let (mut out, mut rows) = (vec![f32::NAN; expected.len() + 1], vec![0xa5; own_rows.len() + 1]);
        let (end, rows_end) = (expected.len(), own_rows.len());
        let place = SumPlace {
            out: &mut out[..end],
            own: if own { &mut [] } else { &mut rows[..rows_end] },
            lists,
            weights: if by_mean { Weights::Mean } else { Weights::Each(&self.weights) },
            own_weights: own.then_some(&self.own_weights),
            threads: usize::MAX,
        };
        let read = source.fill(&self.ids, place).unwrap_or_else(|error| panic!("{}: {error}", what()));
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert!(bits(&out[..end]) == bits(&expected), "{}: other sums than a plain loop's", what());
        assert!(own || rows[..rows_end] == own_rows, "{}: other rows than a plain loop's", what());
        assert!(out[end].is_nan() && rows[rows_end] == 0xa5, "{}: wrote outside its output", what());
        assert_eq!(read.total(), self.ids.len() as u64, "{}: every id has one origin", what());
    }
}

/// A source that sums rows of a table, of every type and width.
///
/// # Panics
/// When it breaks the contract of [`SumPlace`].
pub fn summed(make: &MakeSummed<'_>) {
    for narrow in types() {
        every_width(make, narrow);
        lists_of_every_length(make, narrow);
        refusals(make, narrow);
    }
}

/// Rows of 1 to 513 values, that begin at any address.
fn every_width(make: &MakeSummed<'_>, narrow: Option<NarrowFloat>) {
    const ROWS: usize = 23;
    let lengths = [0, 1, 2, 3, 5, 0, 11, 0];
    for width in (1..=70).chain([100, 127, 128, 129, 191, 192, 193, 256, 300, 513]) {
        let row_bytes = width * value_bytes(narrow);
        let table = finite_table(ROWS * width, narrow);
        // One byte off: a table's rows may begin at odd addresses.
        for skip in [0, 1] {
            let memory = [vec![0; skip], table.clone()].concat();
            let table = &memory[skip..];
            let values = SummedValues { narrow, widened_own: width.is_multiple_of(2) };
            let mut source = make(table, row_bytes, values, &[3, 0, 22]);
            assert_eq!((source.rows(), source.row_bytes()), (ROWS, 4 * width));
            let case = Case::new(ROWS, 19, &lengths);
            for way in [(true, false), (false, true), (true, true), (false, false)] {
                case.check(&mut *source, (table, row_bytes, values), way, &|| {
                    format!("{narrow:?}, {width} in a row, {skip} bytes off, mean and own rows {way:?}")
                });
            }
        }
    }
}

/// No list, an only list, thousands, one of a hundred thousand edges; the same source more than once.
fn lists_of_every_length(make: &MakeSummed<'_>, narrow: Option<NarrowFloat>) {
    const ROWS: usize = 3001;
    let width = 20;
    let table = finite_table(ROWS * width, narrow);
    let row_bytes = width * value_bytes(narrow);
    let values = SummedValues { narrow, widened_own: true };
    let cached: Vec<i64> = (0..ROWS as i64).step_by(3).collect();
    let mut source = make(&table, row_bytes, values, &cached);
    let thousands: Vec<usize> = (0..2500).map(|v| v % 17).collect();
    for lengths in [&[][..], &[0], &[1], &[100_000], &[2; 129], &thousands] {
        let case = Case::new(ROWS, 2600, lengths);
        for way in [(true, false), (false, true)] {
            case.check(&mut *source, (&table, row_bytes, values), way, &|| {
                format!("{narrow:?}, {} lists, mean and own rows {way:?}", lengths.len())
            });
        }
    }
    let none = Case { ids: Vec::new(), ..Case::new(ROWS, 1, &[]) };
    none.check(&mut *source, (&table, row_bytes, values), (true, false), &|| "no ids".to_owned());
}

fn refusals(make: &MakeSummed<'_>, narrow: Option<NarrowFloat>) {
    const ROWS: usize = 10;
    let width = 3;
    let table = finite_table(ROWS * width, narrow);
    let values = SummedValues { narrow, widened_own: false };
    let mut source = make(&table, width * value_bytes(narrow), values, &[1]);
    let mut refusal = |ids: &[i64], lists: usize, room: usize, own: usize, weights: &[f32]| {
        let offsets: Vec<i32> = (0..=lists as i32).collect();
        let indices = vec![0; lists];
        let (mut out, mut rows) = (vec![0.5_f32; room], vec![0x5a; own]);
        let place = SumPlace {
            out: &mut out,
            own: &mut rows,
            lists: Lists::new(&offsets, &indices, 2).expect("lists"),
            weights: Weights::Mean,
            own_weights: (!weights.is_empty()).then_some(weights),
            threads: 1,
        };
        let error = source.fill(ids, place).expect_err("it was not refused");
        assert!(out.iter().all(|&sum| sum == 0.5), "sums were written although they were refused: {error}");
        error
    };
    for id in [-1, ROWS as i64, i64::MAX] {
        let expected = GatherError::IdOutOfRange { position: 1, id, rows: ROWS };
        assert_eq!(refusal(&[5, id], 2, 6, 0, &[]), expected);
    }
    assert_eq!(
        refusal(&[5, 4], 2, 5, 0, &[]),
        GatherError::OutputLength { ids: 2, row_bytes: 12, length: 20 }
    );
    let lists = GatherError::Lists;
    assert_eq!(refusal(&[5, 4, 3], 2, 6, 0, &[]), lists(ListsError::Rows { given: 3, wanted: 2 }));
    assert_eq!(refusal(&[5, 4], 2, 6, 0, &[1.0]), lists(ListsError::OwnWeights { given: 1, lists: 2 }));
    assert_eq!(refusal(&[5, 4], 3, 9, 1, &[]), lists(ListsError::Index(2)));
    assert_eq!(refusal(&[5, 4], 3, 9, 0, &[1.0; 3]), lists(ListsError::Index(2)));
    let row_bytes = width * value_bytes(narrow);
    assert_eq!(refusal(&[5, 4], 2, 6, 1, &[]), GatherError::OutputLength { ids: 2, row_bytes, length: 1 });
}
