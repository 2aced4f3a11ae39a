//! The layout of a slot, and the check for overlaps.

use std::ops::Range;

use uva_cuda::CudaStream;
use uva_cuda::kernels::gather::GatherReport;
use uva_cuda::memory::SharedBuffer;

use crate::cuda::error::FillError;

/// Slots of one size, one after another in one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotShape {
    /// The number of slots.
    pub slots: usize,
    /// Bytes from the start of a slot to the start of the next: a multiple of 64.
    pub stride: usize,
}

/// The range of the report in a slot.
pub(crate) const REPORT: Range<usize> = 0..GatherReport::BYTES;

/// The alignment of slots: the widest value read from a slot.
const ALIGNMENT: usize = 64;

impl SlotShape {
    /// Checks that the shape is valid for a buffer of `bytes` bytes.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), FillError> {
        let Self { slots, stride } = *self;
        let fits = slots.checked_mul(stride).is_some_and(|all| all <= bytes);
        if slots == 0 || stride < REPORT.end || !stride.is_multiple_of(ALIGNMENT) || !fits {
            return Err(FillError::Layout(format!("{slots} slots of {stride} bytes in a buffer of {bytes}")));
        }
        Ok(())
    }

    /// Clears the report of every slot, and waits for it: stale memory must not look like a fill.
    ///
    /// # Errors
    /// [`FillError::Layout`] if the slots exceed the buffer; [`FillError::Cuda`].
    pub fn clear_reports(&self, buffer: &SharedBuffer) -> Result<(), FillError> {
        self.check(buffer.bytes())?;
        let stream = CudaStream::new(buffer.context())?;
        for slot in 0..self.slots {
            let at = buffer.address() + (slot * self.stride + REPORT.start) as u64;
            // SAFETY: within the buffer, by the check above. The caller has not shared it yet.
            unsafe { uva_cuda::memory::fill(&stream, at, 0, GatherReport::BYTES) }?;
        }
        Ok(stream.synchronize()?)
    }
}

/// Rows that a fill writes after the arrays of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilledRows {
    /// The offset of the first row.
    pub at: usize,
    pub count: usize,
    /// Bytes per row.
    pub bytes: usize,
}

impl FilledRows {
    /// The range of the rows in the slot, if within it.
    fn range(&self, stride: usize) -> Option<Range<usize>> {
        let end = self.count.checked_mul(self.bytes)?.checked_add(self.at)?;
        (end <= stride).then_some(self.at..end)
    }
}

/// The layout of one fill, checked to be complete and without overlaps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The range of the slot that one copy transfers: the report and the arrays after it.
    pub upload: Range<usize>,
    /// The offset of the ids in the slot.
    pub ids_at: usize,
    /// The number of ids.
    pub count: usize,
}

impl Plan {
    /// Checks one fill of a slot of that shape with these arrays on the host and on the device. `lists` are further
    /// ranges of the arrays that the fill reads, `written` are the rows that it writes.
    pub(crate) fn new(
        shape: &SlotShape,
        arrays: &[(usize, &[u8])],
        on_device: &[(usize, Range<usize>)],
        ids: &Range<usize>,
        lists: &[Range<usize>],
        written: &[FilledRows],
    ) -> Result<Self, FillError> {
        let wrong = |what: String| Err(FillError::Layout(what));
        if ids.start > ids.end || !ids.start.is_multiple_of(8) || !ids.end.is_multiple_of(8) {
            return wrong(format!("64-bit ids at bytes {}..{}", ids.start, ids.end));
        }
        let count = (ids.end - ids.start) / 8;
        let mut features = Vec::with_capacity(written.len());
        for rows in written {
            let Some(range) = rows.range(shape.stride) else {
                return wrong(format!(
                    "{} rows of {} bytes at byte {} don't fit into a slot of {} bytes",
                    rows.count, rows.bytes, rows.at, shape.stride
                ));
            };
            if let Some(other) = features.iter().find(|other| overlap(other, &range)) {
                return wrong(format!("the features {other:?} and {range:?} overlap"));
            }
            features.push(range);
        }
        let mut upload = REPORT;
        let mut taken = upload.clone();
        let mut has_ids = count == 0;
        let mut has_lists = vec![false; lists.len()];
        let sent = arrays.iter().map(|(at, bytes)| (*at, bytes.len(), true));
        let there = on_device.iter().map(|(at, bytes)| (*at, bytes.len(), false));
        for (start, bytes, is_sent) in sent.chain(there) {
            let array = start..start.saturating_add(bytes);
            if array.start < taken.end {
                return wrong(format!("an array at bytes {array:?}, which begins before byte {}", taken.end));
            }
            let has = |part: &Range<usize>| array.start <= part.start && part.end <= array.end;
            has_ids |= has(ids);
            has_lists.iter_mut().zip(lists).for_each(|(found, list)| *found |= list.is_empty() || has(list));
            taken.end = array.end;
            if is_sent {
                upload.end = array.end;
            }
        }
        if taken.end > shape.stride {
            return wrong(format!("arrays up to byte {} of a slot of {}", taken.end, shape.stride));
        }
        if let Some(features) = features.iter().find(|features| overlap(&taken, features)) {
            return wrong(format!("the arrays {taken:?} and the features {features:?} overlap"));
        }
        if !has_ids {
            return wrong(format!("the ids {ids:?} are not in any of the arrays"));
        }
        if let Some((_, list)) = has_lists.iter().zip(lists).find(|(found, _)| !**found) {
            return wrong(format!("the lists {list:?} are not in any of the arrays"));
        }
        Ok(Self { upload, ids_at: ids.start, count })
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "arrays are ranges, and one may be alone")]
mod tests {
    use super::*;

    const SHAPE: SlotShape = SlotShape { slots: 2, stride: 4096 };

    /// A plan with arrays at these ranges.
    fn plan(
        arrays: &[Range<usize>],
        ids: Range<usize>,
        features_at: usize,
        row_bytes: usize,
    ) -> Result<Plan, FillError> {
        let bytes = [0; 4096];
        let arrays: Vec<_> = arrays.iter().map(|array| (array.start, &bytes[..array.len()])).collect();
        let count = ids.len() / 8;
        Plan::new(&SHAPE, &arrays, &[], &ids, &[], &[FilledRows { at: features_at, count, bytes: row_bytes }])
    }

    fn refusal(result: Result<impl std::fmt::Debug, FillError>) -> String {
        match result {
            Err(FillError::Layout(what)) => what,
            other => panic!("not refused for its layout: {other:?}"),
        }
    }

    #[test]
    fn one_copy_takes_the_report_and_every_array() {
        let plan = plan(&[64..74, 128..256, 512..520], 136..160, 1024, 100).unwrap();
        assert_eq!(plan, Plan { upload: 0..520, ids_at: 136, count: 3 });
    }

    #[test]
    fn without_arrays_the_report_is_sent_alone() {
        assert_eq!(plan(&[], 0..0, 64, 100).unwrap(), Plan { upload: 0..64, ids_at: 0, count: 0 });
    }

    #[test]
    fn arrays_on_the_device_follow_those_that_are_sent() {
        let plan = |there: &[(usize, Range<usize>)], features_at| {
            let rows = FilledRows { at: features_at, count: 2, bytes: 8 };
            Plan::new(&SHAPE, &[(64, &[0; 8])], there, &(128..144), &[], &[rows])
        };
        let found = plan(&[(128, 1000..1016), (192, 0..8)], 256).unwrap();
        assert_eq!(found, Plan { upload: 0..72, ids_at: 128, count: 2 });
        assert!(refusal(plan(&[(64, 0..80)], 256)).contains("before byte 72"));
        assert!(refusal(plan(&[(128, 0..16), (192, 0..80)], 256)).contains("overlap"));
        assert!(refusal(plan(&[(192, 0..8)], 256)).contains("not in any of the arrays"));
    }

    #[test]
    fn ranges_out_of_bounds_or_overlapping_are_refused() {
        let ids = 64..80;
        for (case, part) in [
            (plan(&[64..80, 4000..4097], ids.clone(), 2048, 0), "byte 4097"),
            (plan(&[64..80, 72..96], ids.clone(), 2048, 8), "before byte 80"),
            (plan(&[128..144, 64..80], ids.clone(), 2048, 8), "before byte 144"),
            (plan(&[56..80], ids.clone(), 2048, 8), "before byte 64"),
            (plan(&[80..128], ids.clone(), 2048, 8), "not in any of the arrays"),
            (plan(&[64..72], ids.clone(), 2048, 8), "not in any of the arrays"),
            (plan(&[64..80], 64..76, 2048, 8), "64-bit ids"),
            (plan(&[64..96], 68..84, 2048, 8), "64-bit ids"),
            (plan(&[64..80], ids.clone(), 72, 8), "overlap"),
            (plan(&[64..80], ids.clone(), 0, 8), "overlap"),
            // The space between two arrays is not free: the copy overwrites it.
            (plan(&[64..80, 512..520], ids.clone(), 128, 8), "overlap"),
            (plan(&[64..80], ids.clone(), 4088, 8), "don't fit"),
            (plan(&[64..80], ids.clone(), usize::MAX, 8), "don't fit"),
            (plan(&[64..80], ids, 0, usize::MAX), "don't fit"),
        ] {
            let text = refusal(case);
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
        // The features may begin where the arrays end, and end where the slot does.
        assert!(plan(&[64..80], 64..80, 80, 2008).is_ok());
    }

    #[test]
    fn lists_are_in_the_arrays_and_rows_do_not_overlap() {
        let plan = |lists: &[Range<usize>], rows: [(usize, usize); 2]| {
            let rows = rows.map(|(at, count)| FilledRows { at, count, bytes: 16 });
            Plan::new(&SHAPE, &[(64, &[0; 64]), (128, &[0; 32])], &[], &(64..72), lists, &rows)
        };
        assert_eq!(plan(&[128..160, 500..500], [(256, 2), (288, 3)]).unwrap().upload, 0..160);
        for (case, part) in [
            (plan(&[128..164], [(256, 2), (288, 3)]), "the lists 128..164"),
            (plan(&[120..136], [(256, 2), (288, 3)]), "not in any of the arrays"),
            (plan(&[], [(256, 3), (288, 3)]), "256..304 and 288..336 overlap"),
            (plan(&[], [(256, 2), (144, 1)]), "arrays 0..160 and the features 144..160"),
            (plan(&[], [(256, 2), (4090, 1)]), "don't fit"),
        ] {
            let text = refusal(case);
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        assert!(SHAPE.check(8192).is_ok());
        for (shape, bytes) in [
            (SHAPE, 8191),
            (SlotShape { slots: 0, ..SHAPE }, 8192),
            (SlotShape { slots: usize::MAX, ..SHAPE }, 8192),
            (SlotShape { stride: 4000, ..SHAPE }, 8192),
            (SlotShape { stride: 0, ..SHAPE }, 8192),
        ] {
            assert!(shape.check(bytes).is_err(), "{shape:?} in {bytes}");
        }
    }
}
