//! The loops of `uva_ops::lists` over arrays that Python lends: what the layers of `uvatrain.nn` compute on the CPU.
//!
//! `indptr` and `indices` are both int32 or both int64: list `v` is `indices[indptr[v]:indptr[v + 1]]`. Rows are
//! float32 or float64, and `out`, which the caller has allocated, is of their type. Every size and index is checked,
//! and the exception names the argument. The interpreter's lock is released while a loop runs.

use std::mem::MaybeUninit;

use bytemuck::Pod;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use uva_ops::Vectors;
use uva_ops::lists::attention::EdgeScores;
use uva_ops::lists::{self, Id, Lists, ListsError, WeightedSums, Weights};

use crate::arrays::array::Array;
use crate::arrays::dlpack::DlpackType;
use crate::arrays::input::{ElementKind, Input};
use crate::arrays::values::exported;
use crate::lists::given::{check, pool, read, table, write};

/// An element of rows that loops compute with.
trait Float: lists::SumElement + Pod {
    const KIND: ElementKind;
}

impl Float for f32 {
    const KIND: ElementKind = ElementKind::F32;
}

impl Float for f64 {
    const KIND: ElementKind = ElementKind::F64;
}

/// A number of a list.
trait Number: Id + Pod {
    const KIND: ElementKind;
    const ELEMENT: DlpackType;
}

impl Number for i32 {
    const KIND: ElementKind = ElementKind::I32;
    const ELEMENT: DlpackType = DlpackType::I32;
}

impl Number for i64 {
    const KIND: ElementKind = ElementKind::I64;
    const ELEMENT: DlpackType = DlpackType::I64;
}

/// The loops' refusals, with the argument's name.
fn refused(error: ListsError) -> PyErr {
    let argument = match error {
        ListsError::NoOffsets | ListsError::Offsets(_) => "indptr",
        ListsError::Index(_) => "indices",
        ListsError::Rows { .. } => "rows",
        ListsError::Weights { .. } | ListsError::OwnWeights { .. } => "weights",
        ListsError::Heads { .. } => "heads",
    };
    PyValueError::new_err(format!("{argument}: {error}"))
}

fn checked<'i, I: Number>((indptr, indices): (&'i Input, &'i Input), rows: usize) -> PyResult<Lists<'i, I>> {
    Lists::new(read(indptr, I::KIND)?, read(indices, I::KIND)?, rows).map_err(refused)
}

/// Calls a generic function with the types of the lists' numbers and of the rows' elements.
macro_rules! by_types {
    ($indptr:expr, $rows:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match ($indptr.kind, $rows.kind) {
            (ElementKind::I32, ElementKind::F32) => $function::<i32, f32>($($argument),*),
            (ElementKind::I32, ElementKind::F64) => $function::<i32, f64>($($argument),*),
            (ElementKind::I64, ElementKind::F32) => $function::<i64, f32>($($argument),*),
            (ElementKind::I64, ElementKind::F64) => $function::<i64, f64>($($argument),*),
            (ElementKind::I32 | ElementKind::I64, _) => Err(PyValueError::new_err(format!(
                "{} is {}, but float32 or float64 is required", $rows.name, $rows.describe()
            ))),
            _ => Err(PyValueError::new_err(format!(
                "indptr is {}, but int32 or int64 is required", $indptr.describe()
            ))),
        }
    };
}

/// The weights of a sum, as Python gives them: an array [edges] or [edges, heads], "mean", or None for ones.
#[derive(FromPyObject)]
pub enum SumWeights<'py> {
    Named(String),
    Array(Bound<'py, PyAny>),
}

/// Weighted sums of rows: `out[v]` is the sum of the rows in list v, each multiplied by its edge's weight.
///
/// rows: [n, width]; out: [lists, width]. weights: [edges], or [edges, heads] with separate weights for each of `heads`
/// equal parts of a row; "mean"; None for ones.
#[pyfunction]
#[pyo3(signature = (indptr, indices, rows, weights, out, threads=1))]
pub fn list_sums(
    py: Python<'_>,
    indptr: &Bound<'_, PyAny>,
    indices: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    weights: Option<SumWeights<'_>>,
    out: &Bound<'_, PyAny>,
    threads: usize,
) -> PyResult<()> {
    fn run<I: Number, T: Float>(
        lists: (&Input, &Input),
        rows: &Input,
        weights: Option<&Input>,
        mean: bool,
        out: &mut Input,
        threads: usize,
    ) -> PyResult<()> {
        let (count, width) = table(rows)?;
        let read_too = [lists.0, lists.1, rows].into_iter().chain(weights);
        let read_too: Vec<&Input> = read_too.collect();
        let lists = checked::<I>(lists, count)?;
        let weights = match weights {
            None if mean => Weights::Mean,
            None => Weights::One,
            Some(weights) => {
                let heads = table(weights)?.1;
                Weights::Heads(read(weights, T::KIND)?, heads)
            }
        };
        let sums = WeightedSums::new(read::<T>(rows, T::KIND)?, width, lists, weights).map_err(refused)?;
        check(out, lists.len(), width)?;
        let out = write::<T>(out, T::KIND, &read_too)?;
        // SAFETY: `MaybeUninit<T>` has the layout of T, and `write` stores only values of T in it.
        let out = unsafe { &mut *(std::ptr::from_mut(out) as *mut [MaybeUninit<T>]) };
        sums.write(out, Vectors::widest(), pool(threads).as_deref());
        Ok(())
    }
    let (indptr, indices) = (Input::new("indptr", indptr)?, Input::new("indices", indices)?);
    let (rows, mut out) = (Input::new("rows", rows)?, Input::new("out", out)?);
    let (weights, mean) = match weights {
        None => (None, false),
        Some(SumWeights::Named(name)) if name == "mean" => (None, true),
        Some(SumWeights::Named(name)) => {
            return Err(PyValueError::new_err(format!(
                "weights={name:?}: expected \"mean\", an array or None"
            )));
        }
        Some(SumWeights::Array(array)) => (Some(Input::new("weights", &array)?), false),
    };
    py.detach(|| {
        by_types!(indptr, rows, run((&indptr, &indices), &rows, weights.as_ref(), mean, &mut out, threads))
    })
}

/// Scalar products of rows along edges: `out[e]` is the product of the row of edge e with row v of `others`, for an
/// edge of list v. The gradient of the weights of `list_sums`.
///
/// rows: [n, width]; others: [lists, width]; out: [edges, heads].
#[pyfunction]
#[pyo3(signature = (indptr, indices, rows, others, out, threads=1))]
pub fn list_dots(
    py: Python<'_>,
    indptr: &Bound<'_, PyAny>,
    indices: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    others: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    threads: usize,
) -> PyResult<()> {
    fn run<I: Number, T: Float>(
        lists: (&Input, &Input),
        rows: &Input,
        others: &Input,
        out: &mut Input,
        threads: usize,
    ) -> PyResult<()> {
        let ((count, width), heads) = (table(rows)?, table(out)?.1);
        let read_too = [lists.0, lists.1, rows, others];
        let lists = checked::<I>(lists, count)?;
        check(others, lists.len(), width)?;
        check(out, lists.indices().len(), heads)?;
        let tables = (read::<T>(rows, T::KIND)?, read::<T>(others, T::KIND)?);
        let out = write::<T>(out, T::KIND, &read_too)?;
        lists::dots(&lists, tables, (width, heads), out, pool(threads).as_deref()).map_err(refused)
    }
    let (indptr, indices) = (Input::new("indptr", indptr)?, Input::new("indices", indices)?);
    let (rows, others) = (Input::new("rows", rows)?, Input::new("others", others)?);
    let mut out = Input::new("out", out)?;
    py.detach(|| by_types!(indptr, rows, run((&indptr, &indices), &rows, &others, &mut out, threads)))
}

/// The maximum of each column over the rows of a list; zeros for an empty list.
///
/// rows: [n, width]; out: [lists, width].
#[pyfunction]
#[pyo3(signature = (indptr, indices, rows, out, threads=1))]
pub fn list_maxima(
    py: Python<'_>,
    indptr: &Bound<'_, PyAny>,
    indices: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    threads: usize,
) -> PyResult<()> {
    fn run<I: Number, T: Float>(
        lists: (&Input, &Input),
        rows: &Input,
        out: &mut Input,
        threads: usize,
    ) -> PyResult<()> {
        let (count, width) = table(rows)?;
        let read_too = [lists.0, lists.1, rows];
        let lists = checked::<I>(lists, count)?;
        check(out, lists.len(), width)?;
        let out = write::<T>(out, T::KIND, &read_too)?;
        let rows = read::<T>(rows, T::KIND)?;
        lists::maxima::maxima(&lists, rows, width, out, pool(threads).as_deref()).map_err(refused)
    }
    let (indptr, indices) = (Input::new("indptr", indptr)?, Input::new("indices", indices)?);
    let (rows, mut out) = (Input::new("rows", rows)?, Input::new("out", out)?);
    py.detach(|| by_types!(indptr, rows, run((&indptr, &indices), &rows, &mut out, threads)))
}

/// The gradient of `rows` from the gradient of `list_maxima`, which is divided equally between equal elements.
///
/// maxima, gradient: [lists, width]; out: [n, width].
#[pyfunction]
#[pyo3(signature = (indptr, indices, rows, maxima, gradient, out, threads=1))]
#[expect(clippy::too_many_arguments, reason = "as Python's keywords")]
pub fn list_maxima_backward(
    py: Python<'_>,
    indptr: &Bound<'_, PyAny>,
    indices: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    maxima: &Bound<'_, PyAny>,
    gradient: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    threads: usize,
) -> PyResult<()> {
    fn run<I: Number, T: Float>(
        lists: (&Input, &Input),
        [rows, maxima, gradient]: [&Input; 3],
        out: &mut Input,
        threads: usize,
    ) -> PyResult<()> {
        let (count, width) = table(rows)?;
        let read_too = [lists.0, lists.1, rows, maxima, gradient];
        let lists = checked::<I>(lists, count)?;
        check(maxima, lists.len(), width)?;
        check(gradient, lists.len(), width)?;
        check(out, count, width)?;
        let out = write::<T>(out, T::KIND, &read_too)?;
        let (rows, maxima) = (read::<T>(rows, T::KIND)?, read::<T>(maxima, T::KIND)?);
        let pool = pool(threads);
        let mut shares = vec![T::from_f64(0.0); maxima.len()];
        let tables = (rows, maxima, read::<T>(gradient, T::KIND)?);
        lists::maxima::shares(&lists, tables, width, &mut shares, pool.as_deref()).map_err(refused)?;
        let mut picked_by = vec![I::of(0); lists.indices().len()];
        let offsets = lists::transpose(&lists, |place, v, _| picked_by[place] = I::of(v));
        let picked_by = Lists::new(&offsets, &picked_by, lists.len()).map_err(refused)?;
        lists::maxima::spread(&picked_by, (rows, maxima, &shares), width, out, pool.as_deref())
            .map_err(refused)
    }
    let (indptr, indices) = (Input::new("indptr", indptr)?, Input::new("indices", indices)?);
    let (rows, maxima) = (Input::new("rows", rows)?, Input::new("maxima", maxima)?);
    let (gradient, mut out) = (Input::new("gradient", gradient)?, Input::new("out", out)?);
    py.detach(|| {
        by_types!(indptr, rows, run((&indptr, &indices), [&rows, &maxima, &gradient], &mut out, threads))
    })
}

/// Attention: the softmax over each list of LeakyReLU(of_rows[u] + of_lists[v]), per head. With `weights` (its result)
/// and `gradient` (the gradient of that), instead the gradient of the sums before LeakyReLU.
///
/// of_rows: [n, heads]; of_lists: [lists, heads]; weights, gradient, out: [edges, heads].
#[pyfunction]
#[pyo3(signature = (indptr, indices, of_rows, of_lists, slope, out, weights=None, gradient=None, threads=1))]
#[expect(clippy::too_many_arguments, reason = "as Python's keywords")]
pub fn list_attention(
    py: Python<'_>,
    indptr: &Bound<'_, PyAny>,
    indices: &Bound<'_, PyAny>,
    of_rows: &Bound<'_, PyAny>,
    of_lists: &Bound<'_, PyAny>,
    slope: f64,
    out: &Bound<'_, PyAny>,
    weights: Option<&Bound<'_, PyAny>>,
    gradient: Option<&Bound<'_, PyAny>>,
    threads: usize,
) -> PyResult<()> {
    fn run<I: Number, T: Float>(
        lists: (&Input, &Input),
        [of_rows, of_lists]: [&Input; 2],
        slope: f64,
        back: Option<[&Input; 2]>,
        out: &mut Input,
        threads: usize,
    ) -> PyResult<()> {
        let (count, heads) = table(of_rows)?;
        let mut read_too = vec![lists.0, lists.1, of_rows, of_lists];
        read_too.extend(back.into_iter().flatten());
        let lists = checked::<I>(lists, count)?;
        let edges = lists.indices().len();
        check(of_lists, lists.len(), heads)?;
        check(out, edges, heads)?;
        let scores = EdgeScores {
            of_rows: read::<T>(of_rows, T::KIND)?,
            of_lists: read::<T>(of_lists, T::KIND)?,
            heads,
            slope: T::from_f64(slope),
        };
        let out = write::<T>(out, T::KIND, &read_too)?;
        let pool = pool(threads);
        match back {
            None => lists::attention::attention(&lists, scores, out, pool.as_deref()),
            Some([weights, gradient]) => {
                check(weights, edges, heads)?;
                check(gradient, edges, heads)?;
                let given = (read::<T>(weights, T::KIND)?, read::<T>(gradient, T::KIND)?);
                lists::attention::back(&lists, scores, given, out, pool.as_deref())
            }
        }
        .map_err(refused)
    }
    let (indptr, indices) = (Input::new("indptr", indptr)?, Input::new("indices", indices)?);
    let (of_rows, of_lists) = (Input::new("of_rows", of_rows)?, Input::new("of_lists", of_lists)?);
    let back = match (weights, gradient) {
        (Some(weights), Some(gradient)) => {
            Some((Input::new("weights", weights)?, Input::new("gradient", gradient)?))
        }
        (None, None) => None,
        _ => return Err(PyValueError::new_err("weights and gradient: give both or neither")),
    };
    let mut out = Input::new("out", out)?;
    py.detach(|| {
        let back = back.as_ref().map(|(weights, gradient)| [weights, gradient]);
        by_types!(
            indptr,
            of_rows,
            run((&indptr, &indices), [&of_rows, &of_lists], slope, back, &mut out, threads)
        )
    })
}

/// The offsets of `lists` lists, [lists + 1], if the list number of each edge, [edges], ascends; else None.
#[pyfunction]
pub fn list_offsets(
    py: Python<'_>,
    destinations: &Bound<'_, PyAny>,
    lists: usize,
) -> PyResult<Option<Array>> {
    fn run<I: Number>(destinations: &Input, lists: usize) -> PyResult<Option<Array>> {
        let found = lists::offsets(read::<I>(destinations, I::KIND)?, lists)
            .map_err(|error| PyValueError::new_err(format!("destinations: {error}")))?;
        Ok(found.map(|offsets| exported(offsets, I::ELEMENT)))
    }
    let destinations = Input::new("destinations", destinations)?;
    py.detach(|| {
        if destinations.kind == ElementKind::I64 {
            run::<i64>(&destinations, lists)
        } else {
            run::<i32>(&destinations, lists)
        }
    })
}

/// Reversed lists: for each row the lists that contain it, as indptr [rows + 1] and indices [edges], and the former
/// number of each edge [edges]. Results have the type of `indptr`.
#[pyfunction]
pub fn transposed_lists(
    py: Python<'_>,
    indptr: &Bound<'_, PyAny>,
    indices: &Bound<'_, PyAny>,
    rows: usize,
) -> PyResult<(Array, Array, Array)> {
    fn run<I: Number>(lists: (&Input, &Input), rows: usize) -> PyResult<(Array, Array, Array)> {
        let lists = checked::<I>(lists, rows)?;
        let edges = lists.indices().len();
        let (mut picked_by, mut order) = (vec![I::of(0); edges], vec![I::of(0); edges]);
        let offsets = lists::transpose(&lists, |place, v, edge| {
            picked_by[place] = I::of(v);
            order[place] = I::of(edge);
        });
        Ok((exported(offsets, I::ELEMENT), exported(picked_by, I::ELEMENT), exported(order, I::ELEMENT)))
    }
    let (indptr, indices) = (Input::new("indptr", indptr)?, Input::new("indices", indices)?);
    let lists = (&indptr, &indices);
    py.detach(
        || if indptr.kind == ElementKind::I64 { run::<i64>(lists, rows) } else { run::<i32>(lists, rows) },
    )
}

/// The lists with row v in list v exactly once, at its end: indptr, indices, and the former number of each edge, -1 for
/// an own row without an edge. Results have the type of `indptr`.
#[pyfunction]
pub fn lists_with_own(
    py: Python<'_>,
    indptr: &Bound<'_, PyAny>,
    indices: &Bound<'_, PyAny>,
    rows: usize,
) -> PyResult<(Array, Array, Array)> {
    fn run<I: Number>(lists: (&Input, &Input), rows: usize) -> PyResult<(Array, Array, Array)> {
        let own = lists::with_own(&checked::<I>(lists, rows)?);
        Ok((
            exported(own.offsets, I::ELEMENT),
            exported(own.indices, I::ELEMENT),
            exported(own.origin, I::ELEMENT),
        ))
    }
    let (indptr, indices) = (Input::new("indptr", indptr)?, Input::new("indices", indices)?);
    let lists = (&indptr, &indices);
    py.detach(
        || if indptr.kind == ElementKind::I64 { run::<i64>(lists, rows) } else { run::<i32>(lists, rows) },
    )
}
