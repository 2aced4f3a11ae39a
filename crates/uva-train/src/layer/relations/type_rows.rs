//! Rows of several node types.

use crate::TrainError;
use tch::Tensor;

/// The rows of each node type, or their gradients; a type may have none.
pub(crate) struct TypeRows(Vec<Option<Tensor>>);

impl TypeRows {
    pub(crate) fn none(types: usize) -> Self {
        Self((0..types).map(|_| None).collect())
    }

    pub(crate) fn types(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, of_type: usize) -> Result<&Tensor, TrainError> {
        self.0.get(of_type).and_then(Option::as_ref).ok_or_else(|| no_rows(of_type))
    }

    pub(crate) fn take(&mut self, of_type: usize) -> Result<Tensor, TrainError> {
        self.0.get_mut(of_type).and_then(Option::take).ok_or_else(|| no_rows(of_type))
    }

    pub(crate) fn set(&mut self, of_type: usize, rows: Tensor) {
        self.0[of_type] = Some(rows);
    }

    /// Adds to the first rows of a type. `rows` become its rows if there are none and they are `all` of them.
    pub(crate) fn add(&mut self, of_type: usize, rows: Tensor, all: usize) -> Result<(), TrainError> {
        let place = &mut self.0[of_type];
        let count = rows.size2()?.0;
        match place {
            Some(sum) => drop(sum.f_narrow(0, 0, count)?.f_add_(&rows)?),
            None if count == all as i64 => *place = Some(rows),
            None => {
                let sum = rows.f_new_zeros([all as i64, rows.size2()?.1], (rows.f_kind()?, rows.device()))?;
                sum.f_narrow(0, 0, count)?.f_copy_(&rows)?;
                *place = Some(sum);
            }
        }
        Ok(())
    }
}

/// The types of rows whose gradients are needed.
pub(crate) struct GradientTypes(Vec<bool>);

impl GradientTypes {
    /// All types.
    pub(crate) fn all(types: usize) -> Self {
        Self(vec![true; types])
    }

    /// These types of `types`.
    pub(crate) fn some(types: usize, needed: impl Iterator<Item = usize>) -> Self {
        let mut found = vec![false; types];
        needed.for_each(|of_type| found[of_type] = true);
        Self(found)
    }

    pub(crate) fn contain(&self, of_type: usize) -> bool {
        self.0.get(of_type).is_some_and(|&needed| needed)
    }
}

fn no_rows(of_type: usize) -> TrainError {
    TrainError::Input(format!("node type {of_type} has no rows where the model reads them"))
}
