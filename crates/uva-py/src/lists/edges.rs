//! Lists of in-neighbours from a list of edges.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::array::Array;
use crate::arrays::dlpack::DlpackType;
use crate::arrays::input::Input;
use crate::arrays::values::{exported, zeros};

/// The edges (source, destination) as lists of in-neighbours, each in the order in which its edges stand.
///
/// sources, destinations: integers [edges]. Returns indptr, int64 [num_nodes + 1]; indices, int32 [edges], or int64 if
/// ids need it; and with `order`, the edge of each entry of indices, int64 [edges].
#[pyfunction]
pub fn lists_of_edges(
    py: Python<'_>,
    sources: &Bound<'_, PyAny>,
    destinations: &Bound<'_, PyAny>,
    num_nodes: usize,
    order: bool,
) -> PyResult<(Array, Array, Option<Array>)> {
    let (sources, destinations) =
        (Input::new("sources", sources)?, Input::new("destinations", destinations)?);
    for input in [&sources, &destinations] {
        if !input.is_integer() || input.shape.len() != 1 || input.shape != sources.shape {
            let message = format!(
                "sources is {} and destinations {}: both must be int64 [edges]",
                sources.describe(),
                destinations.describe()
            );
            return Err(PyValueError::new_err(message));
        }
    }
    py.detach(|| {
        if i32::try_from(num_nodes).is_ok() {
            let (indptr, indices, order) = sorted(&sources, &destinations, num_nodes, order, |id| id as i32)?;
            Ok((
                exported(indptr, DlpackType::I64),
                exported(indices, DlpackType::I32),
                order.map(|ids| exported(ids, DlpackType::I64)),
            ))
        } else {
            let (indptr, indices, order) = sorted(&sources, &destinations, num_nodes, order, |id| id)?;
            Ok((
                exported(indptr, DlpackType::I64),
                exported(indices, DlpackType::I64),
                order.map(|ids| exported(ids, DlpackType::I64)),
            ))
        }
    })
}

type Sorted<I> = (Vec<i64>, Vec<I>, Option<Vec<i64>>);

/// A counting sort by destination, stable.
fn sorted<I: Copy + Default>(
    sources: &Input,
    destinations: &Input,
    nodes: usize,
    order_wanted: bool,
    narrow: impl Fn(i64) -> I,
) -> PyResult<Sorted<I>> {
    let edges = sources.elements();
    let mut indptr = zeros::<i64>(nodes + 1)?;
    each(destinations, nodes, |_, node| indptr[node + 1] += 1)?;
    for node in 0..nodes {
        indptr[node + 1] += indptr[node];
    }
    // The position of the next edge of each destination.
    let mut next = zeros::<i64>(nodes)?;
    next.copy_from_slice(&indptr[..nodes]);
    let mut places = zeros::<i64>(edges)?;
    each(destinations, nodes, |edge, node| {
        places[edge] = next[node];
        next[node] += 1;
    })?;
    drop(next);
    let mut indices = zeros::<I>(edges)?;
    each(sources, nodes, |edge, node| indices[places[edge] as usize] = narrow(node as i64))?;
    let order = if order_wanted {
        let mut order = zeros::<i64>(edges)?;
        for (edge, &place) in places.iter().enumerate() {
            order[place as usize] = edge as i64;
        }
        Some(order)
    } else {
        None
    };
    Ok((indptr, indices, order))
}

/// Calls `work` with each position and the node there.
fn each(ids: &Input, nodes: usize, mut work: impl FnMut(usize, usize)) -> PyResult<()> {
    let mut position = 0;
    let looked_at = ids.widened(|values| {
        for &id in values {
            match usize::try_from(id).ok().filter(|&node| node < nodes) {
                Some(node) => work(position, node),
                None => {
                    let message = match nodes.checked_sub(1) {
                        Some(last) => {
                            format!("{}: entry {position} is {id}, outside the ids 0 to {last}", ids.name)
                        }
                        None => format!("{}: entry {position} is {id}, and there are no nodes", ids.name),
                    };
                    return Err(PyValueError::new_err(message));
                }
            }
            position += 1;
        }
        Ok(())
    });
    looked_at.unwrap_or_else(|| {
        Err(PyValueError::new_err(format!("{} is {}, no integers", ids.name, ids.describe())))
    })
}
