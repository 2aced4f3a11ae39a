//! Who makes the sums that a first layer begins with, by measured times.

use uva_model::projects_first;
use uva_runtime::Aggregation;
use uva_runtime::planning::SumTimes;

/// A first layer whose sums the producer could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstLayer {
    /// The sums.
    pub aggregation: Aggregation,
    /// Columns of its input.
    pub inputs: usize,
    /// Columns of its output.
    pub outputs: usize,
}

/// The choice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SumsChoice {
    /// What the producer sums up.
    pub aggregation: Aggregation,
    /// Why, with both times.
    pub reason: String,
    /// What was measured.
    pub times: SumTimes,
}

impl FirstLayer {
    /// The faster way. Where the trainer multiplies before it sums, it is the consumer: the times are of another order,
    /// and losses would depend on the choice in their last bits.
    pub fn choose(&self, times: SumTimes) -> SumsChoice {
        let Self { aggregation, inputs, outputs } = *self;
        let block = times.densest;
        if projects_first(block.destinations, block.sources, block.entries, inputs, outputs, false) {
            let reason = format!(
                "the trainer multiplies rows of {inputs} columns by the weights, which leaves {outputs} columns to sum: \
                 summing first would cost more, and change losses in their last digits"
            );
            return SumsChoice { aggregation: Aggregation::None, reason, times };
        }
        let aggregation = if times.is_worth_it() { aggregation } else { Aggregation::None };
        SumsChoice { aggregation, reason: times.reason(), times }
    }
}

#[cfg(test)]
mod tests {
    use uva_runtime::planning::BlockSize;

    use super::*;

    fn times(off_ms: f64, host_ms: f64, densest: BlockSize) -> SumTimes {
        SumTimes { batches: 8, threads: 1, gather_ms: 1.0, sum_ms: 1.0, off_ms, host_ms, densest }
    }

    #[test]
    fn the_producer_sums_if_that_is_faster_and_the_trainer_would_sum_first_too() {
        let layer = |inputs, outputs| FirstLayer { aggregation: Aggregation::Mean, inputs, outputs };
        let sparse = BlockSize { destinations: 1000, sources: 9000, entries: 10_000 };
        let dense = BlockSize { destinations: 1000, sources: 1001, entries: 10_000 };
        for (layer, off_ms, host_ms, block, aggregation, part) in [
            (layer(100, 128), 5.0, 3.0, sparse, Aggregation::Mean, "3.0 ms"),
            (layer(100, 128), 3.0, 5.0, sparse, Aggregation::None, "5.0 ms"),
            // A wide layer sums first whatever the block, and a narrow one where many further rows would be multiplied.
            (layer(100, 128), 5.0, 3.0, dense, Aggregation::Mean, "3.0 ms"),
            (layer(1024, 128), 5.0, 3.0, sparse, Aggregation::Mean, "3.0 ms"),
            (layer(1024, 16), 5.0, 3.0, dense, Aggregation::None, "1024 columns"),
        ] {
            let choice = layer.choose(times(off_ms, host_ms, block));
            assert_eq!(choice.aggregation, aggregation, "{layer:?} {block:?}");
            assert!(choice.reason.contains(part), "{}", choice.reason);
        }
    }
}
