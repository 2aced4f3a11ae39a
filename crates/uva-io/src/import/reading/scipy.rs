//! Interprets a pickle's values: numpy arrays, scipy's sparse rows, dictionaries of lists.

use std::borrow::Cow;

use uva_files::quote::shown;

use super::pickle::{Pickle, Ref, Value};

/// The maximum number of axes of an array.
const MOST_AXES: usize = 64;

/// Why a pickle's values are not as expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MeaningProblem {
    #[error("the pickle does not hold {0}")]
    Other(&'static str),
    #[error("the pickled array has elements of type '{0}', which is not supported here")]
    Type(String),
    #[error("the pickled array of shape {shape:?} has {found} bytes of {needed}")]
    Length { shape: Vec<usize>, found: usize, needed: usize },
    #[error(
        "its lists share their items: taken apart they have {items} and more, in a file of {bytes} bytes, of which each \
         item takes one at least"
    )]
    Shared { items: usize, bytes: usize },
    #[error("the sparse matrix is inconsistent: {what} ({value} at position {position})")]
    Sparse { what: &'static str, position: usize, value: i64 },
}

/// An array as stored in a pickle.
pub(crate) struct PickledArray<'p> {
    pub(crate) shape: Vec<usize>,
    kind: String,
    fortran: bool,
    bytes: Cow<'p, [u8]>,
}

/// Rows with only the nonzero values stored.
#[derive(Debug)]
pub(crate) struct SparseRows {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    indptr: Vec<i64>,
    indices: Vec<i64>,
    values: Vec<f32>,
    /// Whether the values are float64 in the file.
    pub(crate) narrowed: bool,
}

impl SparseRows {
    /// Column and value of every stored entry in row `row`. Entries of the same column add up, as in scipy.
    pub(crate) fn row(&self, row: usize) -> impl Iterator<Item = (usize, f32)> {
        let stored = self.indptr[row] as usize..self.indptr[row + 1] as usize;
        stored.map(|i| (self.indices[i] as usize, self.values[i]))
    }
}

impl Pickle {
    /// A `scipy.sparse.csr_matrix`.
    pub(crate) fn sparse_rows(&self) -> Result<SparseRows, MeaningProblem> {
        let other = || MeaningProblem::Other("a scipy.sparse.csr_matrix");
        let Value::Object { class, arguments, state: Some(state), .. } = self.root() else {
            return Err(other());
        };
        // Protocol 2 names the class itself; older ones call copy_reg._reconstructor with it.
        let class = match self.get(*class) {
            Value::Global(_, "_reconstructor") => self.tuple(*arguments).and_then(|a| a.first().copied()),
            _ => Some(*class),
        };
        let is_matrix = |class| matches!(self.get(class), Value::Global(_, "csr_matrix" | "csr_array"));
        if !class.is_some_and(is_matrix) {
            return Err(other());
        }
        let Value::Dict(state) = self.get(*state) else { return Err(other()) };
        let field = |names: &[&str]| {
            let found = state.iter().rfind(|(key, _)| match self.get(*key) {
                Value::Bytes(key) => names.iter().any(|name| name.as_bytes() == key),
                _ => false,
            });
            found.map(|(_, value)| *value).ok_or_else(other)
        };
        let shape = self.shape(field(&["_shape", "shape"])?).ok_or_else(other)?;
        let &[rows, columns] = shape.as_slice() else { return Err(other()) };
        let indptr = self.array(field(&["indptr"])?)?.integers()?;
        let indices = self.array(field(&["indices"])?)?.integers()?;
        let values = self.array(field(&["data"])?)?;
        let (narrowed, values) = (values.kind == "<f8", values.floats()?);

        let wrong = |what, position: usize, value| Err(MeaningProblem::Sparse { what, position, value });
        if rows.checked_add(1) != Some(indptr.len()) {
            return wrong("indptr has not one entry more than there are rows", rows, indptr.len() as i64);
        }
        if let Some(fall) = indptr.windows(2).position(|pair| pair[0] > pair[1]) {
            return wrong("indptr falls", fall + 1, indptr[fall + 1]);
        }
        if indptr[0] != 0 {
            return wrong("indptr does not start at 0", 0, indptr[0]);
        }
        if indptr[rows] != indices.len() as i64 || indices.len() != values.len() {
            return wrong("indptr does not end at the number of values", rows, indptr[rows]);
        }
        if let Some(at) = indices.iter().position(|id| !(0..columns as i64).contains(id)) {
            return wrong("a column is out of range", at, indices[at]);
        }
        Ok(SparseRows { rows, columns, indptr, indices, values, narrowed })
    }

    /// A numpy array.
    pub(crate) fn root_array(&self) -> Result<PickledArray<'_>, MeaningProblem> {
        self.array_of(self.root())
    }

    /// A dictionary from integers to lists of integers, entries in the order of the file. Memory is bounded by the
    /// length of the file, even if values are shared.
    pub(crate) fn lists(&self) -> Result<Vec<(i64, Vec<i64>)>, MeaningProblem> {
        let other = || MeaningProblem::Other("a dictionary of lists of node ids");
        let entries = match self.root() {
            Value::Dict(entries) => entries,
            Value::Object { class, items, .. }
                if matches!(
                    self.get(*class),
                    Value::Global("collections", "defaultdict" | "OrderedDict")
                ) =>
            {
                items
            }
            _ => return Err(other()),
        };
        let mut total = 0;
        let mut lists = Vec::with_capacity(entries.len());
        for &(key, value) in entries {
            let (Value::List(items) | Value::Tuple(items)) = self.get(value) else { return Err(other()) };
            // Every entry may be the same list, which the file then stores once.
            total += items.len();
            if total > self.bytes() {
                return Err(MeaningProblem::Shared { items: total, bytes: self.bytes() });
            }
            let list: Option<Vec<i64>> = items.iter().map(|&item| self.int(item)).collect();
            lists.push((self.int(key).ok_or_else(other)?, list.ok_or_else(other)?));
        }
        Ok(lists)
    }

    fn array(&self, at: Ref) -> Result<PickledArray<'_>, MeaningProblem> {
        self.array_of(self.get(at))
    }

    /// `numpy.core.multiarray._reconstruct(ndarray, (0,), 'b')` with the state (version, shape, dtype, Fortran order,
    /// bytes), or `numpy.core.numeric._frombuffer(bytes, dtype, shape, order)` of protocol 5.
    fn array_of<'p>(&'p self, value: &'p Value) -> Result<PickledArray<'p>, MeaningProblem> {
        let other = || MeaningProblem::Other("a numpy array");
        let Value::Object { class, arguments, state, .. } = value else { return Err(other()) };
        let (shape, kind, fortran, bytes) = match (self.get(*class), state) {
            (Value::Global(_, "_reconstruct"), Some(state)) => {
                let Some(&[_version, shape, kind, fortran, bytes]) = self.tuple(*state) else {
                    return Err(other());
                };
                let fortran = match self.get(fortran) {
                    Value::Bool(fortran) => *fortran,
                    Value::Int(fortran) => *fortran != 0,
                    _ => return Err(other()),
                };
                (shape, kind, fortran, bytes)
            }
            (Value::Global(_, "_frombuffer"), None) => {
                let Some(&[bytes, kind, shape, order]) = self.tuple(*arguments) else { return Err(other()) };
                let Value::Bytes(order) = self.get(order) else { return Err(other()) };
                (shape, kind, order == b"F", bytes)
            }
            _ => return Err(other()),
        };
        let shape = self.shape(shape).ok_or_else(other)?;
        let kind = self.element_type(kind).ok_or_else(other)?;
        let bytes = self.byte_string(bytes).ok_or_else(other)?;
        Ok(PickledArray { shape, kind, fortran, bytes })
    }

    /// Bytes, which Python 3 writes as `_codecs.encode(text, 'latin1')` in the protocols of Python 2.
    fn byte_string(&self, at: Ref) -> Option<Cow<'_, [u8]>> {
        match self.get(at) {
            Value::Bytes(bytes) => Some(Cow::Borrowed(bytes)),
            Value::Object { class, arguments, .. } => match (self.get(*class), self.tuple(*arguments)?) {
                (Value::Global(_, "bytes"), []) => Some(Cow::Borrowed(&[])),
                (Value::Global("_codecs", "encode"), &[text, encoding]) => {
                    let (Value::Bytes(text), Value::Bytes(encoding)) = (self.get(text), self.get(encoding))
                    else {
                        return None;
                    };
                    if !matches!(&encoding[..], b"latin1" | b"latin-1") {
                        return None;
                    }
                    let text = std::str::from_utf8(text).ok()?;
                    let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
                    bytes.map(Cow::Owned)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// `numpy.dtype('f4', 0, 1)` with a state that begins (version, byte order, …): `<f4`.
    fn element_type(&self, at: Ref) -> Option<String> {
        let Value::Object { class, arguments, state, .. } = self.get(at) else { return None };
        if !matches!(self.get(*class), Value::Global("numpy", "dtype")) {
            return None;
        }
        let text = |at: Ref| match self.get(at) {
            Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        };
        let name = text(*self.tuple(*arguments)?.first()?)?;
        let order = match state {
            Some(state) => text(*self.tuple(*state)?.get(1)?)?,
            None => "|".to_owned(),
        };
        Some(format!("{order}{name}"))
    }

    fn shape(&self, at: Ref) -> Option<Vec<usize>> {
        // numpy allows no more axes, and messages show all axes.
        self.tuple(at)
            .filter(|axes| axes.len() <= MOST_AXES)?
            .iter()
            .map(|&axis| usize::try_from(self.int(axis)?).ok())
            .collect()
    }

    fn tuple(&self, at: Ref) -> Option<&[Ref]> {
        match self.get(at) {
            Value::Tuple(items) => Some(items),
            _ => None,
        }
    }

    fn int(&self, at: Ref) -> Option<i64> {
        match self.get(at) {
            Value::Int(value) => Some(*value),
            _ => None,
        }
    }
}

impl PickledArray<'_> {
    /// The elements as 64-bit integers, in C order.
    pub(crate) fn integers(&self) -> Result<Vec<i64>, MeaningProblem> {
        match self.kind.as_str() {
            "|b1" | "|u1" => self.elements(|[byte]: [u8; 1]| byte.into()),
            "|i1" => self.elements(|bytes| i8::from_le_bytes(bytes).into()),
            "<i2" => self.elements(|bytes| i16::from_le_bytes(bytes).into()),
            "<i4" => self.elements(|bytes| i32::from_le_bytes(bytes).into()),
            "<i8" => self.elements(i64::from_le_bytes),
            _ => Err(MeaningProblem::Type(shown(&self.kind))),
        }
    }

    /// The elements as 32-bit floats, in C order.
    fn floats(&self) -> Result<Vec<f32>, MeaningProblem> {
        match self.kind.as_str() {
            "<f4" => self.elements(f32::from_le_bytes),
            "<f8" => self.elements(|bytes| f64::from_le_bytes(bytes) as f32),
            _ => Ok(self.integers()?.into_iter().map(|value| value as f32).collect()),
        }
    }

    fn elements<T: Copy, const SIZE: usize>(
        &self,
        decode: impl Fn([u8; SIZE]) -> T,
    ) -> Result<Vec<T>, MeaningProblem> {
        let needed = self.shape.iter().try_fold(SIZE, |bytes, &axis| bytes.checked_mul(axis));
        if needed != Some(self.bytes.len()) {
            return Err(MeaningProblem::Length {
                shape: self.shape.clone(),
                found: self.bytes.len(),
                needed: needed.unwrap_or(usize::MAX),
            });
        }
        let (chunks, _) = self.bytes.as_chunks::<SIZE>();
        if chunks.is_empty() {
            // Also for any shape with an axis of length 0, regardless of the other lengths.
            return Ok(Vec::new());
        }
        match (self.fortran, self.shape.as_slice()) {
            (false, _) | (true, [_]) => Ok(chunks.iter().map(|&bytes| decode(bytes)).collect()),
            (true, &[rows, columns]) => Ok((0..rows)
                .flat_map(|row| (0..columns).map(move |column| column * rows + row))
                .map(|at| decode(chunks[at]))
                .collect()),
            (true, _) => Err(MeaningProblem::Other("an array of at most two axes")),
        }
    }
}
