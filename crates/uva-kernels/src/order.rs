//! The order in which a gather visits its rows, region by region of the table: `kernels/order.cuh`.

use crate::arrays::KernelArray;
use crate::gather::GatherReport;
use crate::source::ORDER_CUH;

/// The entry points, in the order of their launches. Each runs with any grid.
pub const ORDER_STEPS: [&str; 3] = ["order_count", "order_place", "order_fill"];

shared_struct! {
    in ORDER_CUH;
    /// The arguments of all three. Addresses are the device's.
    pub struct OrderArguments {
        /// int64 ids.
        pub ids: u64,
        /// Number of ids, less than 2³².
        pub count: u64,
        /// Regions of the table, at least 1.
        pub regions: u64,
        /// A region is 2 to this power rows; rows after the last region belong to the last one.
        pub row_bits: u64,
        /// uint32 for each region, and one more. All are 0 before the first launch.
        pub places: u64,
        /// uint32 for each id: the result.
        pub order: u64,
        /// The gather's [`GatherReport`], which begins here.
        pub report: u64,
    }
}

impl OrderArguments {
    /// The arrays of these arguments.
    pub fn arrays(&self) -> [KernelArray; 4] {
        [
            KernelArray::read("the ids", self.ids, self.count, 8),
            KernelArray::write("the places of the regions", self.places, self.regions.saturating_add(1), 4),
            KernelArray::write("the order", self.order, self.count, 4),
            KernelArray::write("the report", self.report, 1, GatherReport::BYTES as u64),
        ]
    }

    /// Checks the arguments.
    ///
    /// # Errors
    /// The reason why no memory can match these arguments.
    pub fn check(&self) -> Result<(), String> {
        let refuse = |what: String| Err(format!("rows cannot be put in order: {what}"));
        if u32::try_from(self.count).is_err() {
            return refuse(format!("{} of them at once, and less than 2^32 are possible", self.count));
        }
        if self.regions == 0 || self.row_bits > 63 {
            return refuse(format!("{} regions of 2^{} rows", self.regions, self.row_bits));
        }
        self.arrays().iter().find_map(KernelArray::refusal).map_or(Ok(()), refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_no_memory_can_satisfy_are_refused() {
        let good = OrderArguments {
            ids: 0x1008,
            count: 5,
            regions: 3,
            row_bits: 9,
            places: 0x2004,
            order: 0x3004,
            report: 0x4008,
        };
        good.check().unwrap();
        for (wrong, told) in [
            (OrderArguments { ids: 0x1004, ..good }, "the ids"),
            (OrderArguments { count: 1 << 32, ..good }, "4294967296 of them"),
            (OrderArguments { regions: 0, ..good }, "0 regions"),
            (OrderArguments { row_bits: 64, ..good }, "2^64 rows"),
            (OrderArguments { places: 0, ..good }, "the places"),
            (OrderArguments { order: 0x3002, ..good }, "the order"),
            (OrderArguments { report: 0, ..good }, "the report"),
        ] {
            let error = wrong.check().unwrap_err();
            assert!(error.contains(told), "{error} should contain {told}");
        }
    }
}
