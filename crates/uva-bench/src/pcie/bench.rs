//! The shared parts of all measurements: buffers large enough for each of them, a stream, and the hold. Also the timing
//! of zero-copy gathers.

use std::sync::Arc;

use uva_cuda::kernels::gather::{
    BadId, GatherArguments, GatherKernels, GatherReport, GridBound, IdWidth, Kernel,
};
use uva_cuda::kernels::order::VisitOrder;
use uva_cuda::memory::{DeviceBuffer, PinnedBuffer, device_to_host, fill, host_to_device};
use uva_cuda::partition::GreenPartition;
use uva_cuda::{Context, CudaError, CudaEvent, CudaStream};

use super::error::PcieError;
use super::hold::Hold;
use super::ids::{IdOrder, check_sum};
use super::options::PcieOptions;
use super::sweep::{Cell, GatherPartition};
use super::table::KnownTable;
use super::verify::verify_rows;

/// The maximum number of ids per gather: ids use device memory as well.
const MOST_IDS: usize = 4 << 20;
/// The target duration of a timed gather: well beyond the resolution of events and the cost of launches.
const SECONDS_PER_SAMPLE: f64 = 4e-3;
/// Duration of the work before the samples: an idle device needs some time to raise its clocks.
const SECONDS_TO_WARM_UP: f64 = 10e-3;
const MOST_WARM_UPS: usize = 16;
/// Fills output bytes before a gather, so that bytes that it does not write are detected.
const POISON: u8 = 0xee;

/// The result of a zero-copy gather.
pub(super) struct ZeroCopy {
    /// Rows of a sample.
    pub rows: usize,
    /// Row bytes delivered ÷ time of each sample, in 10⁹ bytes per second.
    pub samples: Vec<f64>,
    /// Rows that were compared with the table.
    pub verified_rows: usize,
    /// [`check_sum`] of the ids of the first sample.
    pub ids_check: u64,
}

pub(super) struct Bench {
    pub context: Arc<Context>,
    pub kernels: GatherKernels,
    pub stream: CudaStream,
    pub hold: Hold,
    /// The maximum number of bytes per sample.
    pub most_bytes: usize,
    /// Gathered rows, on the device.
    pub out: DeviceBuffer,
    /// Host memory for copies from and to the device.
    pub back: PinnedBuffer,
    pub samples: usize,
    ids: DeviceBuffer,
    reports: DeviceBuffer,
    reports_back: PinnedBuffer,
}

/// Events around this many samples on the stream. The events of a green stream are made in its context.
pub(super) fn around(stream: &CudaStream, samples: usize) -> Result<Vec<(CudaEvent, CudaEvent)>, CudaError> {
    let event = || CudaEvent::timing(stream.made_in());
    (0..samples).map(|_| Ok((event()?, event()?))).collect()
}

impl Bench {
    pub(super) fn new(
        context: &Arc<Context>,
        kernels: GatherKernels,
        options: &PcieOptions,
    ) -> Result<Self, CudaError> {
        let (samples, most_bytes) = (options.samples, options.sample_bytes);
        // One more gather than are timed, to warm up. An id has 8 bytes, and one-byte rows need one id per byte.
        let gathers = samples + 1;
        let ids = MOST_IDS.min(most_bytes) * 8 * gathers;
        let reports = GatherReport::BYTES * gathers;
        Ok(Self {
            context: Arc::clone(context),
            kernels,
            stream: CudaStream::new(context)?,
            hold: Hold::new(context)?,
            most_bytes,
            out: DeviceBuffer::new(context, most_bytes, "the rows of a measured gather (`sample_bytes`)")?,
            back: PinnedBuffer::new(context, most_bytes, "the rows of a measured gather (`sample_bytes`)")?,
            samples,
            ids: DeviceBuffer::new(context, ids, "the ids of measured gathers (`sample_bytes`, `samples`)")?,
            reports: DeviceBuffer::new(context, reports, "the reports of measured gathers")?,
            reports_back: PinnedBuffer::new(context, reports, "the reports of measured gathers")?,
        })
    }

    /// Times one cell on its table.
    pub(super) fn zero_copy(&mut self, table: &KnownTable, cell: &Cell) -> Result<ZeroCopy, PcieError> {
        let row_bytes = cell.row_bytes;
        let rows = table.rows(row_bytes);
        if rows == 0 || row_bytes > self.most_bytes {
            return Err(PcieError::Refused(format!(
                "rows of {row_bytes} bytes do not fit into the table of {} bytes or into a sample of {}",
                table.report.bytes, self.most_bytes
            )));
        }
        let there_are = self.context.device().multiprocessors();
        if cell.multiprocessors.is_some_and(|some| some > there_are) {
            return Err(PcieError::Refused(format!("this process may use {there_are} multiprocessors")));
        }
        let green = match (cell.partition, cell.multiprocessors) {
            (GatherPartition::Green, Some(wanted)) => Some(self.green(wanted)?),
            _ => None,
        };
        let most = (self.most_bytes / row_bytes).clamp(1, MOST_IDS);
        // A first gather determines how many rows take just long enough to be timed.
        let pilot_rows = (most / 16).max(1);
        let draws = vec![cell.ids.draw(rows, pilot_rows, 0); 2];
        let pilot = self.gathers(table, cell, green.as_ref(), draws, 1)?;
        let rate = pilot_rows as f64 / pilot[0].max(1e-9);
        let count = ((rate * SECONDS_PER_SAMPLE) as usize).clamp(pilot_rows, most);
        let mut draws: Vec<Vec<i64>> =
            (0..=self.samples as u32).map(|seed| cell.ids.draw(rows, count, seed)).collect();
        let shortest = draws.iter().map(Vec::len).min().unwrap_or(0);
        draws.iter_mut().for_each(|ids| ids.truncate(shortest));
        let ids_check = check_sum(&draws[1]);
        let last = draws[self.samples].clone();
        let warm_ups = (SECONDS_TO_WARM_UP / (shortest as f64 / rate)).ceil() as usize;
        let seconds = self.gathers(table, cell, green.as_ref(), draws, warm_ups.clamp(1, MOST_WARM_UPS))?;
        let verified_rows = self.verify(&cell.name(), table, row_bytes, &last)?;
        let bytes = (shortest * row_bytes) as f64;
        let samples = seconds.iter().map(|seconds| bytes / seconds / 1e9).collect();
        Ok(ZeroCopy { rows: shortest, samples, verified_rows, ids_check })
    }

    fn green(&self, wanted: u32) -> Result<CudaStream, PcieError> {
        let partition = GreenPartition::new(&self.context, wanted)?;
        if partition.multiprocessors() != wanted {
            return Err(PcieError::Refused(format!(
                "the device creates a green context of {} multiprocessors, not of {wanted}",
                partition.multiprocessors()
            )));
        }
        // The stream keeps the partition.
        Ok(partition.stream()?)
    }

    /// Gathers each of `draws` after the hold. The first only warms up, as often as requested. Returns the seconds of
    /// the others.
    fn gathers(
        &mut self,
        table: &KnownTable,
        cell: &Cell,
        green: Option<&CudaStream>,
        draws: Vec<Vec<i64>>,
        warm_ups: usize,
    ) -> Result<Vec<f64>, PcieError> {
        let Self { context, kernels, stream: own, hold, ids, reports, reports_back, out, .. } = self;
        let stream = green.unwrap_or(own);
        let times = around(stream, draws.len() - 1)?;
        let count = draws[0].len();
        let stride = (count * 8) as u64;
        let prepared = draws.iter().enumerate().try_for_each(|(index, draw)| {
            // SAFETY: the buffer has room for this many draws of this many ids; the draws live until the wait for the
            // stream below.
            unsafe {
                host_to_device(stream, bytemuck::cast_slice(draw), ids.address() + index as u64 * stride)
            }
        });
        // SAFETY: the output is owned by this value, and not in use now.
        let poisoned = unsafe { fill(stream, out.address(), POISON, count * cell.row_bytes) };
        stream.synchronize()?;
        prepared.and(poisoned)?;

        let (rows, bound) = (
            table.rows(cell.row_bytes),
            cell.multiprocessors.map_or(GridBound::Device, GridBound::Multiprocessors),
        );
        let visits = (cell.ids == IdOrder::ByRegion)
            .then(|| VisitOrder::new(context, rows as usize, cell.row_bytes, count))
            .transpose()?;
        let closed = hold.close();
        let mut enqueue = || {
            closed.enqueue(kernels, stream)?;
            for index in std::iter::repeat_n(0, warm_ups.max(1)).chain(1..draws.len()) {
                let report = reports.address() + (index * GatherReport::BYTES) as u64;
                let mut arguments = GatherArguments {
                    table: table.pinned.address(),
                    rows,
                    row_bytes: cell.row_bytes as u64,
                    ids: ids.address() + index as u64 * stride,
                    count: count as u64,
                    out: out.address(),
                    report,
                    slot_map: 0,
                    cache: 0,
                    order: 0,
                };
                let timed = index.checked_sub(1).map(|sample| &times[sample]);
                if let Some((began, _)) = timed {
                    began.record(stream)?;
                }
                // SAFETY: the table is pinned and held by the caller. The buffers are owned by this value and large
                // enough, and so is the order's. The stream is waited for before any of them is used again.
                unsafe {
                    kernels.begin(stream, report)?;
                    if let Some(visits) = &visits {
                        let ids = (arguments.ids, count);
                        arguments.order = visits.enqueue(stream, kernels, ids, report, bound)?;
                    }
                    kernels.rows(stream, cell.kernel, IdWidth::I64, &arguments, bound)?;
                    kernels.finish(stream, IdWidth::I64, report, arguments.ids, stamp(index))?;
                }
                if let Some((_, ended)) = timed {
                    ended.record(stream)?;
                }
            }
            let bytes = draws.len() * GatherReport::BYTES;
            // SAFETY: pinned memory owned by this value, waited for below.
            unsafe { device_to_host(stream, reports.address(), &mut reports_back.as_mut_slice()[..bytes]) }
        };
        let enqueued = enqueue();
        drop(closed);
        let waited = stream.synchronize();
        enqueued.and(waited)?;

        for index in 0..draws.len() {
            let mut bytes = [0; GatherReport::BYTES];
            bytes.copy_from_slice(
                &reports_back.as_slice()[index * GatherReport::BYTES..][..GatherReport::BYTES],
            );
            check_report(&cell.name(), &GatherReport::from_bytes(&bytes), stamp(index))?;
        }
        let seconds = |(began, ended): &(CudaEvent, CudaEvent)| {
            Ok(f64::from(CudaEvent::elapsed_ms(began, ended)?) / 1e3)
        };
        times.iter().map(seconds).collect::<Result<_, CudaError>>().map_err(Into::into)
    }

    /// Copies the output back and compares it with the table.
    pub(super) fn verify(
        &mut self,
        what: &str,
        table: &KnownTable,
        row_bytes: usize,
        ids: &[i64],
    ) -> Result<usize, PcieError> {
        let bytes = ids.len() * row_bytes;
        let back = &mut self.back.as_mut_slice()[..bytes];
        // SAFETY: as many bytes as `out` has, into memory owned by this value; waited for at once, also after an error.
        let copied = unsafe { device_to_host(&self.stream, self.out.address(), back) };
        let waited = self.stream.synchronize();
        copied.and(waited)?;
        verify_rows(what, table.pinned.host(), row_bytes, ids, back)
    }

    /// One gather by `kernel` of rows whose ids have been copied by [`Bench::set_ids`], by all multiprocessors.
    ///
    /// # Safety
    /// Until the stream has been waited for, the table lives and the output's first `count` rows are not used
    /// otherwise.
    pub(super) unsafe fn enqueue_rows(
        &self,
        table: &KnownTable,
        kernel: Kernel,
        row_bytes: usize,
        count: usize,
    ) -> Result<(), CudaError> {
        let arguments = GatherArguments {
            table: table.pinned.address(),
            rows: table.rows(row_bytes),
            row_bytes: row_bytes as u64,
            ids: self.ids.address(),
            count: count as u64,
            out: self.out.address(),
            report: self.reports.address(),
            slot_map: 0,
            cache: 0,
            order: 0,
        };
        // SAFETY: the caller's promise; the other buffers are owned by this value.
        unsafe {
            self.kernels.enqueue(&self.stream, kernel, IdWidth::I64, &arguments, stamp(0), GridBound::Device)
        }
    }

    /// Copies ids to the device, and waits.
    pub(super) fn set_ids(&self, ids: &[i64]) -> Result<(), CudaError> {
        let ids = &ids[..ids.len().min(self.ids.bytes() / 8)];
        // SAFETY: no more than the buffer holds; waited for at once.
        let copied = unsafe { host_to_device(&self.stream, bytemuck::cast_slice(ids), self.ids.address()) };
        let waited = self.stream.synchronize();
        copied.and(waited)
    }

    /// Fills the output with bytes that no gather writes, and waits.
    pub(super) fn poison(&self) -> Result<(), CudaError> {
        // SAFETY: owned by this value, and not in use now; waited for at once.
        let poisoned = unsafe { fill(&self.stream, self.out.address(), POISON, self.out.bytes()) };
        let waited = self.stream.synchronize();
        poisoned.and(waited)
    }

    /// The maximum number of rows of `row_bytes` bytes in one gather.
    pub(super) fn most_rows(&self, row_bytes: usize) -> usize {
        (self.most_bytes / row_bytes).min(MOST_IDS)
    }
}

/// The stamp of gather number `index` after a hold.
fn stamp(index: usize) -> u64 {
    index as u64 + 1
}

/// Whether a gather ran to its end and found every id.
fn check_report(what: &str, report: &GatherReport, stamp: u64) -> Result<(), PcieError> {
    if let Some(BadId { position, id, .. }) = report.bad() {
        return Err(PcieError::Report(format!("{what}: the kernel found no row {id} (position {position})")));
    }
    if report.stamp != stamp {
        return Err(PcieError::Report(format!("{what}: stamp {}, expected {stamp}", report.stamp)));
    }
    Ok(())
}

/// The median; 0 without samples.
pub(super) fn median(samples: &[f64]) -> f64 {
    let mut samples = samples.to_vec();
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_gather_or_one_with_a_bad_id_gives_no_figure() {
        let good = GatherReport { stamp: 3, bad_position: u64::MAX, ..Default::default() };
        assert!(check_report("a cell", &good, 3).is_ok());
        assert!(check_report("a cell", &good, 4).unwrap_err().to_string().contains("stamp 3, expected 4"));
        let bad = GatherReport { bad_position: 7, bad_id: -2, ..good };
        assert!(check_report("a cell", &bad, 3).unwrap_err().to_string().contains("no row -2"));
    }
}
