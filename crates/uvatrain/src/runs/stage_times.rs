//! Times of a run's stages, from its metrics.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;
use uva_mem::files::open_regular;
use uva_runtime::telemetry::metrics::{BatchEvent, Event};

use crate::exit::{self, CommandError};

/// The median times of a run's training batches.
pub struct TimedStages {
    /// Milliseconds of sampling, gathering and training.
    pub milliseconds: [f64; 3],
    /// Batches in an epoch.
    pub in_epoch: usize,
    /// The devices of the stages, if the run records them.
    pub timed_on: Option<Value>,
}

/// Reads the times from a file of metrics, which this option names.
pub fn timed_stages(option: &str, path: &Path) -> Result<TimedStages, CommandError> {
    let fault = |what: String| exit::usage(format!("{option} {}: {what}", path.display()));
    let file = open_regular(path).map_err(|error| fault(error.to_string()))?;
    let mut stages: [Vec<u64>; 3] = Default::default();
    let (mut in_epoch, mut timed_on) = (0, None);
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(|error| fault(error.to_string()))?;
        let batch = match serde_json::from_slice::<Event>(&line) {
            Ok(Event::Batch(batch)) => batch,
            Ok(Event::Start(start)) => {
                let named = ["device", "sampler", "gather"].map(|name| (name, start.in_force[name].clone()));
                timed_on = Some(named.into_iter().filter(|(_, value)| !value.is_null()).collect());
                continue;
            }
            // Lines of later versions, and one that is still being written, have no batch to count.
            _ => continue,
        };
        let BatchEvent { sample_us, gather_us, train_us, batch: number, .. } = *batch;
        for (stage, us) in stages.iter_mut().zip([sample_us, gather_us, train_us]) {
            stage.push(us);
        }
        in_epoch = in_epoch.max(number as usize + 1);
    }
    if in_epoch == 0 {
        return Err(fault(
            "it has no batches: give a file that `uvatrain train` or `uvatrain run` wrote by --metrics FILE"
                .to_owned(),
        ));
    }
    let median = |mut of: Vec<u64>| {
        let middle = of.len() / 2;
        // A stage faster than a microsecond still took some time.
        (*of.select_nth_unstable(middle).1).max(1) as f64 / 1e3
    };
    Ok(TimedStages { milliseconds: stages.map(median), in_epoch, timed_on })
}

/// The devices of the stages, as text.
pub fn words_of(timed_on: &Value) -> String {
    let words = timed_on.as_object().into_iter().flatten();
    let words = words.map(|(name, value)| format!("{name} {}", value.as_str().unwrap_or_default()));
    words.collect::<Vec<_>>().join(", ")
}
