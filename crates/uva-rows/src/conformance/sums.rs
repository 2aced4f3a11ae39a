//! Checks for sources that sum: the rows of a plain loop, widened by definition and reduced in list order, bit for bit.

use uva_ops::lists::{Lists, ListsError, Weights};
use uva_ops::rows::NarrowFloat;

use super::check::table_bytes;
use super::widening::widened;
use crate::error::GatherError;
use crate::host::{HostPlace, Reduction, SumPlace, SumSource};
use crate::source::RowSource;
use crate::stack::SummedValues;

/// Creates the source under test over a table, for rows of the given size and values. A cache, if any, has the given
/// rows.
pub type MakeSummed<'f> =
    dyn for<'t> Fn(&'t [u8], usize, SummedValues, &[i64]) -> Box<dyn SumSource + 't> + 'f;

/// All types of summed values.
fn types() -> impl Iterator<Item = Option<NarrowFloat>> {
    std::iter::once(None).chain(NarrowFloat::ALL.map(Some))
}

/// Bytes of a value of this type.
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

/// A table whose values are numbers. The result of a sum of two NaNs is unspecified.
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

/// The reduction of a case's lists.
#[derive(Clone, Copy, Debug)]
enum Folded {
    /// A mean or a weighted sum, with or without own rows.
    Sum { by_mean: bool, own: bool },
    /// Maxima, with or without the places of their rows.
    Max { argmax: bool },
}

impl Folded {
    /// All variants.
    fn all() -> impl Iterator<Item = Self> {
        let sums = [(true, false), (false, true), (true, true), (false, false)];
        sums.map(|(by_mean, own)| Self::Sum { by_mean, own })
            .into_iter()
            .chain([false, true].map(|argmax| Self::Max { argmax }))
    }
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
    /// Creates one list per length, over `sources` ids of a table of `rows` rows. Every fifth edge repeats the previous
    /// one.
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

    /// The row of a list by its definition.
    fn by_definition(&self, v: usize, way: Folded, width: usize, row: &dyn Fn(i64) -> Vec<f32>) -> Vec<f32> {
        let edges = self.offsets[v] as usize..self.offsets[v + 1] as usize;
        let rows = self.indices[edges.clone()].iter().map(|&index| row(self.ids[index as usize]));
        let (by_mean, own) = match way {
            Folded::Max { .. } if edges.is_empty() => return vec![0.0; width],
            Folded::Max { .. } => {
                let larger = |(so_far, value): (&mut f32, f32)| {
                    if value > *so_far || value.is_nan() {
                        *so_far = value;
                    }
                };
                return rows.fold(vec![f32::NEG_INFINITY; width], |mut so_far, row| {
                    so_far.iter_mut().zip(row).for_each(larger);
                    so_far
                });
            }
            Folded::Sum { by_mean, own } => (by_mean, own),
        };
        let mean = (1.0 / edges.len() as f64) as f32;
        let add = |mut sums: Vec<f32>, (row, weight): (Vec<f32>, f32)| {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum = value.mul_add(weight, *sum);
            }
            sums
        };
        let weights = edges.map(|edge| if by_mean { mean } else { self.weights[edge] });
        let last = own.then(|| (row(self.ids[v]), self.own_weights[v]));
        rows.zip(weights).chain(last).fold(vec![0.0; width], add)
    }

    /// The places of the rows with a list's maxima: the first of equal values, or the first NaN.
    fn places_by_definition(&self, v: usize, width: usize, row: &dyn Fn(i64) -> Vec<f32>) -> Vec<i32> {
        let list = &self.indices[self.offsets[v] as usize..self.offsets[v + 1] as usize];
        let rows: Vec<Vec<f32>> = list.iter().map(|&index| row(self.ids[index as usize])).collect();
        let of_column = |column: usize| {
            let values = || rows.iter().map(|row| row[column]);
            let largest = values().fold(f32::NEG_INFINITY, f32::max);
            let first =
                values().position(f32::is_nan).or_else(|| values().position(|value| value == largest));
            first.map_or(-1, |at| list[at])
        };
        (0..width).map(of_column).collect()
    }

    /// Fills, and compares sums and rows with plain loops. Rows of the first ids are included unless they are summed.
    fn check(
        &self,
        source: &mut dyn SumSource,
        (table, row_bytes, values): (&[u8], usize, SummedValues),
        way: Folded,
        what: &dyn Fn() -> String,
    ) {
        let narrow = values.narrow;
        let bytes = value_bytes(narrow);
        let row = |id: i64| &table[id as usize * row_bytes..][..row_bytes];
        let floats =
            |id: i64| row(id).chunks_exact(bytes).map(|bytes| value(narrow, bytes)).collect::<Vec<_>>();
        let lists = self.lists();
        let width = row_bytes / bytes;
        let expected: Vec<f32> =
            (0..lists.len()).flat_map(|v| self.by_definition(v, way, width, &floats)).collect();
        let delivered = |ids: &[i64]| -> Vec<u8> {
            let delivered = |&id: &i64| match values.own() {
                None => row(id).to_vec(),
                Some(_) => floats(id).into_iter().flat_map(f32::to_le_bytes).collect(),
            };
            ids.iter().flat_map(delivered).collect()
        };
        let own_rows = delivered(&self.ids[..lists.len()]);
        let (mut out, mut rows) = (vec![f32::NAN; expected.len() + 1], vec![0xa5; own_rows.len() + 1]);
        let (end, rows_end) = (expected.len(), own_rows.len());
        let places: Vec<i32> = match way {
            Folded::Max { argmax: true } => {
                (0..lists.len()).flat_map(|v| self.places_by_definition(v, width, &floats)).collect()
            }
            _ => Vec::new(),
        };
        let mut argmax = vec![-7; places.len() + 1];
        let (reduction, own) = match way {
            Folded::Max { .. } => (Reduction::Max, false),
            Folded::Sum { by_mean, own } => {
                let weights = if by_mean { Weights::Mean } else { Weights::Each(&self.weights) };
                (Reduction::Sum { weights, own: own.then_some(&self.own_weights) }, own)
            }
        };
        let place = SumPlace {
            out: &mut out[..end],
            own: if own { &mut [] } else { &mut rows[..rows_end] },
            argmax: &mut argmax[..places.len()],
            lists,
            reduction,
            threads: usize::MAX,
        };
        let read = source.fill(&self.ids, place).unwrap_or_else(|error| panic!("{}: {error}", what()));
        // Tables of sums have no NaN. For maxima, any NaN is accepted for a NaN.
        let bit = |value: &f32| if value.is_nan() { f32::NAN } else { *value }.to_bits();
        let bits = |values: &[f32]| values.iter().map(bit).collect::<Vec<_>>();
        assert!(bits(&out[..end]) == bits(&expected), "{}: other sums than a plain loop's", what());
        assert!(own || rows[..rows_end] == own_rows, "{}: other rows than a plain loop's", what());
        assert!(argmax[..places.len()] == places, "{}: other places than a plain loop's", what());
        assert_eq!(argmax[places.len()], -7, "{}: wrote outside its output", what());
        assert!(out[end].is_nan() && rows[rows_end] == 0xa5, "{}: wrote outside its output", what());
        assert_eq!(read.total(), self.ids.len() as u64, "{}: every id has one origin", what());

        // The rows alone, equal to those next to the sums.
        rows.fill(0xa5);
        let listed = &self.ids[..lists.len()];
        let read = source.fill_rows(listed, HostPlace::new(&mut rows[..rows_end]));
        let read = read.unwrap_or_else(|error| panic!("{}: {error}", what()));
        assert!(rows[..rows_end] == own_rows, "{}: other rows alone than a plain loop's", what());
        assert_eq!((rows[rows_end], read.total()), (0xa5, listed.len() as u64), "{}", what());
    }
}

/// Checks a source that sums rows of a table, of every type and width.
///
/// # Panics
/// If it breaks the contract of [`SumPlace`].
pub fn summed(make: &MakeSummed<'_>) {
    for narrow in types() {
        every_width(make, narrow);
        lists_of_every_length(make, narrow);
        refusals(make, narrow);
    }
    maxima_of_no_numbers(make);
}

/// Checks rows of 1 to 513 values that begin at any address.
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
            for way in Folded::all() {
                case.check(&mut *source, (table, row_bytes, values), way, &|| {
                    format!("{narrow:?}, {width} in a row, {skip} bytes off, {way:?}")
                });
            }
            // Any bits: NaN is the largest.
            let memory = table_bytes(skip + ROWS * row_bytes);
            let table = &memory[skip..];
            let mut source = make(table, row_bytes, values, &[3, 0, 22]);
            for argmax in [false, true] {
                case.check(&mut *source, (table, row_bytes, values), Folded::Max { argmax }, &|| {
                    format!(
                        "{narrow:?}, {width} in a row, {skip} bytes off, maxima of any bits, places: {argmax}"
                    )
                });
            }
        }
    }
}

/// Checks no list, a single list, thousands of lists, and one of a hundred thousand edges, with the same source.
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
        for way in Folded::all() {
            case.check(&mut *source, (&table, row_bytes, values), way, &|| {
                format!("{narrow:?}, {} lists, {way:?}", lengths.len())
            });
        }
    }
    let none = Case { ids: Vec::new(), ..Case::new(ROWS, 1, &[]) };
    for way in [Folded::Sum { by_mean: true, own: false }, Folded::Max { argmax: true }] {
        none.check(&mut *source, (&table, row_bytes, values), way, &|| "no ids".to_owned());
    }
}

fn refusals(make: &MakeSummed<'_>, narrow: Option<NarrowFloat>) {
    const ROWS: usize = 10;
    let width = 3;
    let table = finite_table(ROWS * width, narrow);
    let values = SummedValues { narrow, widened_own: false };
    let mut source = make(&table, width * value_bytes(narrow), values, &[1]);
    let mut refusal_of = |max: bool, ids: &[i64], lists: usize, room: usize, own: usize, weights: &[f32]| {
        let offsets: Vec<i32> = (0..=lists as i32).collect();
        let indices = vec![0; lists];
        let (mut out, mut rows) = (vec![0.5_f32; room], vec![0x5a; own]);
        let place = SumPlace {
            out: &mut out,
            own: &mut rows,
            argmax: &mut [],
            lists: Lists::new(&offsets, &indices, 2).expect("lists"),
            reduction: match max {
                true => Reduction::Max,
                false => {
                    let own = (!weights.is_empty()).then_some(weights);
                    Reduction::Sum { weights: Weights::Mean, own }
                }
            },
            threads: 1,
        };
        let error = source.fill(ids, place).expect_err("it was not refused");
        assert!(out.iter().all(|&sum| sum == 0.5), "sums were written although they were refused: {error}");
        error
    };
    let lists = GatherError::Lists;
    let row_bytes = width * value_bytes(narrow);
    for max in [false, true] {
        let mut refusal = |ids: &[i64], lists, room, own| refusal_of(max, ids, lists, room, own, &[]);
        for id in [-1, ROWS as i64, i64::MAX] {
            let expected = GatherError::IdOutOfRange { position: 1, id, rows: ROWS };
            assert_eq!(refusal(&[5, id], 2, 6, 0), expected);
        }
        let short = GatherError::OutputLength { ids: 2, row_bytes: 12, length: 20 };
        assert_eq!(refusal(&[5, 4], 2, 5, 0), short);
        assert_eq!(refusal(&[5, 4, 3], 2, 6, 0), lists(ListsError::Rows { given: 3, wanted: 2 }));
        assert_eq!(refusal(&[5, 4], 3, 9, 1), lists(ListsError::Index(2)));
        let short = GatherError::OutputLength { ids: 2, row_bytes, length: 1 };
        assert_eq!(refusal(&[5, 4], 2, 6, 1), short);
    }
    let mut refusal =
        |ids: &[i64], lists, room, weights: &[f32]| refusal_of(false, ids, lists, room, 0, weights);
    assert_eq!(refusal(&[5, 4], 2, 6, &[1.0]), lists(ListsError::OwnWeights { given: 1, lists: 2 }));
    assert_eq!(refusal(&[5, 4], 3, 9, &[1.0; 3]), lists(ListsError::Index(2)));
    let places = |source: &mut dyn SumSource, reduction: Reduction<'_>, room: usize| {
        let (mut out, mut argmax) = ([0.5_f32; 6], vec![-7; room]);
        let place = SumPlace {
            out: &mut out,
            own: &mut [],
            argmax: &mut argmax,
            lists: Lists::new(&[0, 1, 2], &[0, 1], 2).expect("lists"),
            reduction,
            threads: 1,
        };
        source.fill(&[5, 4], place).expect_err("it was not refused")
    };
    let short = GatherError::OutputLength { ids: 2, row_bytes: 12, length: 20 };
    assert_eq!(places(&mut *source, Reduction::Max, 5), short);
    let sums = Reduction::Sum { weights: Weights::Mean, own: None };
    let none = GatherError::OutputLength { ids: 0, row_bytes: 12, length: 24 };
    assert_eq!(places(&mut *source, sums, 6), none);
}

/// Checks that NaN in any place of a list is the maximum of its column.
fn maxima_of_no_numbers(make: &MakeSummed<'_>) {
    const WIDTH: usize = 21;
    let rows = 4;
    for place in 0..rows {
        for column in 0..WIDTH {
            let mut values: Vec<f32> = (0..rows * WIDTH).map(|at| at as f32 - 30.0).collect();
            values[place * WIDTH + column] = f32::NAN;
            let table: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let form = SummedValues { narrow: None, widened_own: false };
            let mut source = make(&table, WIDTH * 4, form, &[1]);
            let (offsets, indices) = ([0, rows as i32, rows as i32], [0, 1, 2, 3]);
            let mut out = [0.5_f32; 2 * WIDTH];
            let place = SumPlace {
                out: &mut out,
                own: &mut [],
                argmax: &mut [],
                lists: Lists::new(&offsets, &indices, rows).expect("lists"),
                reduction: Reduction::Max,
                threads: 1,
            };
            source.fill(&[0, 1, 2, 3], place).expect("a fill");
            for (at, &value) in out[..WIDTH].iter().enumerate() {
                assert_eq!(value.is_nan(), at == column, "column {at} of {column}: {value}");
                assert!(at == column || value == values[3 * WIDTH + at], "column {at}: {value}");
            }
            assert!(out[WIDTH..].iter().all(|&value| value == 0.0), "an empty list gives zeros");
        }
    }
}
