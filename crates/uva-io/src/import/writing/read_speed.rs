//! Estimates how long reading a large source takes, from the speed at its beginning.

use std::path::Path;
use std::time::{Duration, Instant};

use uva_graph::GraphError;

use crate::import::reading::stream::ArrayStream;
use crate::import::reading::text::{self, LineError};

/// Smaller sources take seconds: measuring would take as long as reading.
const LARGE: u64 = 256 << 20;

/// The duration of the measurement.
const SAMPLE: Duration = Duration::from_millis(700);

/// Chunks between two checks of the clock.
const PER_LOOK: u64 = 256;

/// Seconds to read and parse a text of numbers; nothing if it is small.
pub(crate) fn of_text(path: &Path) -> Result<Option<f64>, GraphError> {
    let bytes = std::fs::metadata(path).map_err(GraphError::io(path, "open"))?.len();
    if bytes < LARGE {
        return Ok(None);
    }
    let (start, position) = (Instant::now(), std::cell::Cell::new(0));
    let mut sum = 0.0;
    text::each_line_until(path, &|at| position.set(at.done), |_, line| {
        sum += line.split(|&c| c == b',').filter_map(text::float::<f32>).sum::<f32>();
        Ok::<bool, LineError>(start.elapsed() < SAMPLE)
    })?;
    std::hint::black_box(sum);
    Ok(extrapolated(start.elapsed(), position.get(), bytes))
}

/// Seconds to read an array of `compressed` bytes in an archive; nothing if it is small.
pub(crate) fn of_array(mut array: ArrayStream, compressed: u64) -> Result<Option<f64>, GraphError> {
    if compressed < LARGE {
        return Ok(None);
    }
    let start = Instant::now();
    while start.elapsed() < SAMPLE && array.position() < array.len() {
        for _ in 0..PER_LOOK {
            array.bytes(super::output::CHUNK)?;
        }
    }
    Ok(extrapolated(start.elapsed(), array.position(), array.len()))
}

fn extrapolated(took: Duration, done: u64, total: u64) -> Option<f64> {
    (done > 0).then(|| took.as_secs_f64() * total as f64 / done as f64)
}

/// The sum, if any is known.
pub(crate) fn sum(seconds: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    seconds.into_iter().flatten().reduce(|sum, seconds| sum + seconds)
}
