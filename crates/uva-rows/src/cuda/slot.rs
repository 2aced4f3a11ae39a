//! Where things lie in a slot, and that nothing lies on anything else.

use std::ops::Range;

use uva_cuda::Stream;
use uva_cuda::kernels::gather::GatherReport;
use uva_cuda::memory::SharedBuffer;

use super::error::FillError;

/// Slots of one size, one after another in one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotShape {
    /// How many.
    pub slots: usize,
    /// Bytes from the beginning of one to that of the next: a multiple of 64.
    pub stride: usize,
    /// Where in a slot its report lies: 64 bytes, on a multiple of 8.
    pub report_at: usize,
}

/// Slots begin on multiples of this: the widest thing that is read from one.
const ALIGNMENT: usize = 64;

impl SlotShape {
    /// Whether it's possible at all, in a buffer of `bytes` bytes.
    pub(super) fn check(&self, bytes: usize) -> Result<(), FillError> {
        let Self { slots, stride, report_at } = *self;
        let fits = slots.checked_mul(stride).is_some_and(|all| all <= bytes);
        let report = self.report();
        if slots == 0 || !stride.is_multiple_of(ALIGNMENT) || !fits {
            return Err(FillError::Layout(format!("{slots} slots of {stride} bytes in a buffer of {bytes}")));
        }
        if !report_at.is_multiple_of(8) || report.end > stride {
            return Err(FillError::Layout(format!("a report at byte {report_at} of a slot of {stride}")));
        }
        Ok(())
    }

    /// Clears the report of every slot, and waits for it: stale memory must not look like a fill.
    ///
    /// # Errors
    /// [`FillError::Layout`] when the slots don't lie in the buffer; [`FillError::Cuda`].
    pub fn clear_reports(&self, buffer: &SharedBuffer) -> Result<(), FillError> {
        self.check(buffer.bytes())?;
        let stream = Stream::new(buffer.context())?;
        for slot in 0..self.slots {
            let at = buffer.address() + (slot * self.stride + self.report_at) as u64;
            // SAFETY: within the buffer, by the check above. The caller has not handed it to anybody yet.
            unsafe { uva_cuda::memory::fill(&stream, at, 0, GatherReport::BYTES) }?;
        }
        Ok(stream.synchronize()?)
    }

    /// The bytes of the report, from the slot's beginning.
    pub(super) fn report(&self) -> Range<usize> {
        self.report_at..self.report_at.saturating_add(GatherReport::BYTES)
    }
}

/// The layout of one fill, checked to be complete and without overlaps.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// For each array: its bytes in payload and slot, and where they begin in the staging buffer.
    pub arrays: Vec<(Range<usize>, usize)>,
    /// For each of the other bytes: where they go in the slot, and where they begin in the staging buffer.
    pub beside: Vec<(Range<usize>, usize)>,
    /// Where the rows lie in the slot.
    features: Range<usize>,
    /// Bytes of the staging buffer that are used.
    pub staged: usize,
    /// Where the ids begin in the slot.
    pub ids_at: usize,
    /// How many ids.
    pub count: usize,
}

impl Plan {
    /// Checks one fill of a slot of that shape from a payload of `payload` bytes.
    pub(super) fn new(
        shape: &SlotShape,
        payload: usize,
        arrays: &[Range<usize>],
        ids: &Range<usize>,
        features_at: usize,
        row_bytes: usize,
    ) -> Result<Self, FillError> {
        let wrong = |what: String| Err(FillError::Layout(what));
        if ids.start > ids.end || !ids.start.is_multiple_of(8) || !ids.end.is_multiple_of(8) {
            return wrong(format!("64-bit ids at bytes {}..{}", ids.start, ids.end));
        }
        let count = (ids.end - ids.start) / 8;
        let features = count
            .checked_mul(row_bytes)
            .and_then(|bytes| features_at.checked_add(bytes))
            .filter(|&end| end <= shape.stride)
            .map(|end| features_at..end);
        let Some(features) = features else {
            return wrong(format!(
                "{count} rows of {row_bytes} bytes at byte {features_at} don't fit into a slot of {} bytes",
                shape.stride
            ));
        };
        let report = shape.report();
        if overlap(&features, &report) {
            return wrong(format!("the report {report:?} lies within the features {features:?}"));
        }
        let (mut plan, mut staged) = (Vec::with_capacity(arrays.len()), 0usize);
        let mut ids_copied = count == 0;
        for array in arrays {
            if array.start > array.end || array.end > payload || array.end > shape.stride {
                return wrong(format!(
                    "an array at bytes {}..{} of a payload of {payload} bytes and a slot of {}",
                    array.start, array.end, shape.stride
                ));
            }
            for (name, other) in [("features", &features), ("report", &report)] {
                if overlap(array, other) {
                    return wrong(format!("the array {array:?} and the {name} {other:?} overlap"));
                }
            }
            ids_copied |= array.start <= ids.start && ids.end <= array.end;
            plan.push((array.clone(), staged));
            // The arrays are within the payload, and few, so this is far from overflowing.
            staged += (array.end - array.start).next_multiple_of(ALIGNMENT);
        }
        if !ids_copied {
            return wrong(format!("the ids {ids:?} lie in none of the arrays that are copied"));
        }
        Ok(Self { arrays: plan, beside: Vec::new(), features, staged, ids_at: ids.start, count })
    }

    /// Adds bytes from elsewhere, which go to this place in the slot.
    pub(super) fn add(&mut self, shape: &SlotShape, to: Range<usize>) -> Result<(), FillError> {
        let report = shape.report();
        let arrays = self.arrays.iter().chain(&self.beside).map(|(range, _)| range);
        let taken = arrays.chain([&self.features, &report]).find(|other| overlap(&to, other));
        if to.end > shape.stride || taken.is_some() {
            return Err(FillError::Layout(format!(
                "bytes at {to:?} of a slot of {}, whose {taken:?} is taken",
                shape.stride
            )));
        }
        let at = self.staged;
        // Far from overflowing: they are within the slot, and few.
        self.staged += to.len().next_multiple_of(ALIGNMENT);
        self.beside.push((to, at));
        Ok(())
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end
}

#[cfg(test)]
#[allow(
    clippy::reversed_empty_ranges,
    clippy::single_range_in_vec_init,
    reason = "arrays are ranges, and one is wrong"
)]
mod tests {
    use super::*;

    const SHAPE: SlotShape = SlotShape { slots: 2, stride: 4096, report_at: 4032 };

    fn plan(
        arrays: &[Range<usize>],
        ids: Range<usize>,
        features_at: usize,
        row_bytes: usize,
    ) -> Result<Plan, FillError> {
        Plan::new(&SHAPE, 1024, arrays, &ids, features_at, row_bytes)
    }

    fn refusal(result: Result<impl std::fmt::Debug, FillError>) -> String {
        match result {
            Err(FillError::Layout(what)) => what,
            other => panic!("not refused for its layout: {other:?}"),
        }
    }

    #[test]
    fn arrays_are_packed_on_lines_of_the_staging_buffer_and_the_ids_are_among_them() {
        let plan = plan(&[0..10, 128..256, 512..520], 136..160, 1024, 100).unwrap();
        assert_eq!(plan.arrays, [(0..10, 0), (128..256, 64), (512..520, 192)]);
        assert_eq!((plan.staged, plan.ids_at, plan.count), (256, 136, 3));
    }

    #[test]
    fn no_ids_need_no_array() {
        let plan = plan(&[], 0..0, 0, 100).unwrap();
        assert_eq!((plan.staged, plan.count), (0, 0));
    }

    #[test]
    fn what_lies_outside_or_upon_something_else_is_refused() {
        let ids = 0..16;
        for (case, part) in [
            (plan(&[0..16, 1000..1025], ids.clone(), 2048, 8), "1000..1025"),
            (plan(&[0..16, 40..32], ids.clone(), 2048, 8), "40..32"),
            (plan(&[16..64], ids.clone(), 2048, 8), "none of the arrays"),
            (plan(&[0..8], ids.clone(), 2048, 8), "none of the arrays"),
            (plan(&[0..16], 0..12, 2048, 8), "64-bit ids"),
            (plan(&[0..32], 4..20, 2048, 8), "64-bit ids"),
            (plan(&[0..16], ids.clone(), 8, 8), "overlap"),
            (plan(&[0..16], ids.clone(), 4025, 8), "within the features"),
            (plan(&[0..16], ids.clone(), 4088, 8), "don't fit"),
            (plan(&[0..16], ids.clone(), usize::MAX, 8), "don't fit"),
            (plan(&[0..16], ids, 0, usize::MAX), "don't fit"),
        ] {
            let text = refusal(case);
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
        // The features may end where the report begins.
        assert!(plan(&[0..16], 0..16, 4032 - 16, 8).is_ok());
    }

    #[test]
    fn other_bytes_are_staged_behind_the_arrays_and_lie_on_nothing() {
        let mut plan = plan(&[0..16], 0..16, 2048, 8).unwrap();
        plan.add(&SHAPE, 64..164).unwrap();
        plan.add(&SHAPE, 192..192).unwrap();
        assert_eq!((&plan.beside[..], plan.staged), (&[(64..164, 64), (192..192, 192)][..], 192));
        for taken in [8..20, 100..110, 2050..2051, 4032..4040, 4096..4097] {
            assert!(refusal(plan.add(&SHAPE, taken.clone())).contains(&format!("{taken:?}")), "{taken:?}");
        }
    }

    #[test]
    fn an_array_may_not_lie_on_the_report() {
        let shape = SlotShape { slots: 1, stride: 4096, report_at: 64 };
        let text = refusal(Plan::new(&shape, 4096, &[0..65], &(0..8), 128, 4));
        assert!(text.contains("report"), "{text}");
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        assert!(SHAPE.check(8192).is_ok());
        for (shape, bytes) in [
            (SHAPE, 8191),
            (SlotShape { slots: 0, ..SHAPE }, 8192),
            (SlotShape { slots: usize::MAX, ..SHAPE }, 8192),
            (SlotShape { stride: 4000, ..SHAPE }, 8192),
            (SlotShape { report_at: 4033, ..SHAPE }, 8192),
            (SlotShape { report_at: 4040, ..SHAPE }, 8192),
            (SlotShape { report_at: usize::MAX - 7, ..SHAPE }, 8192),
        ] {
            assert!(shape.check(bytes).is_err(), "{shape:?} in {bytes}");
        }
    }
}
