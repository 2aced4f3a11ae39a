//! The core of `uvatrain.attach()`: the consumer's place in a run of `uvatrain run`.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use uva_launch::launcher::attach_as;
use uva_runtime::RuntimeError;
use uva_runtime::options::part::Part;

use crate::errors::of_launched;
use crate::loader::source::Source;
use crate::options::keywords::{count, split_named};
use crate::process::interrupt::SignalCheck;

/// Connects this process as the consumer of the run that started it, with `--ranks` as that of this rank. The epochs of
/// `main` are expected to follow one another.
#[pyfunction]
#[pyo3(signature = (main, *, rank, world_size))]
pub fn _attach(
    py: Python<'_>,
    main: &str,
    rank: &Bound<'_, PyAny>,
    world_size: &Bound<'_, PyAny>,
) -> PyResult<Source> {
    let main = split_named(main)?;
    let part = Part { index: count("rank", rank)?, of: count("world_size", world_size)? };
    let signals = SignalCheck::default();
    let attached = py.detach(|| attach_as(part, &|| signals.end_the_wait()));
    if let Some(raised) = signals.raised() {
        // Also if the answer arrived while the handler ran: the place is then given up.
        if let Ok(attached) = attached {
            py.detach(|| drop(attached.begin(main)));
        }
        return Err(raised);
    }
    let attached = attached.map_err(|error| match error {
        RuntimeError::Interrupted(_) => PyKeyboardInterrupt::new_err(()),
        other => of_launched(other),
    })?;
    let (options, backend) = (attached.plan().options.clone(), attached.plan().backend.clone());
    let stream = py.detach(|| attached.begin(main));
    Ok(Source::new(stream, options, backend, None))
}
