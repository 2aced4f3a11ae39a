//! Paths to the device other than zero-copy reads: rows gathered by the CPU and copied, and both paths at once (the
//! split). Also the rate that both kinds of hardware reach together without interference.
//!
//! The hold cannot delay the CPU's work. So the host's clock times the first two, from before the first row is gathered
//! until the device has all rows.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use uva_cuda::kernels::gather::Kernel;
use uva_cuda::memory::{device_to_host, host_to_device};
use uva_cuda::{CudaError, CudaEvent, CudaStream};

use super::bench::{Bench, median};
use super::error::PcieError;
use super::ids::IdOrder;
use super::options::PcieOptions;
use super::table::KnownTable;
use super::verify::{check_bytes, verify_rows};
use uva_rows::MappedTable;
use uva_rows::cuda::{Balance, PathWork, StagingSource};

/// Batches before the measured ones, in which a split's share settles.
const SETTLING: usize = 12;

/// A path for rows onto the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransferPath {
    /// The CPU gathers rows into pinned memory, and the copy engine transfers them.
    CpuGatherDma,
    /// That path and zero-copy reads, each for a share of a batch's rows.
    Split,
    /// Zero-copy reads of rows while the copy engine moves other, contiguous bytes: the limit of link and host memory
    /// for both together.
    Together,
}

impl TransferPath {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuGatherDma => "cpu-gather-dma",
            Self::Split => "split",
            Self::Together => "together",
        }
    }
}

/// The rate of one path.
#[derive(Clone, Debug, Serialize)]
pub struct WayFigure {
    /// The path.
    pub way: TransferPath,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Threads of the CPU's part; 0 if the path has none.
    pub threads: usize,
    /// Bytes of the table.
    pub table_bytes: u64,
    /// Rows of a sample.
    pub rows: usize,
    /// Row bytes delivered ÷ time, median, in 10⁹ bytes per second; for [`TransferPath::Together`], all bytes.
    pub gb_per_second: f64,
    /// Each sample.
    pub samples: Vec<f64>,
    /// The share of the bytes that multiprocessors read.
    pub zero_copy_share: f64,
    /// Rows that were compared with the table.
    pub verified_rows: usize,
}

/// Measures every path, with rows of `row_bytes` bytes in random order.
pub(super) fn measure(
    bench: &mut Bench,
    table: &KnownTable,
    options: &PcieOptions,
    row_bytes: usize,
    zero_copy_rate: f64,
    copy_rate: f64,
) -> Result<Vec<WayFigure>, PcieError> {
    let count = bench.most_rows(row_bytes);
    let rows = table.rows(row_bytes);
    if rows == 0 || count == 0 {
        return Err(PcieError::Refused(format!(
            "rows of {row_bytes} bytes do not fit into the table or a sample"
        )));
    }
    let draws: Vec<Vec<i64>> = (0..=(SETTLING + options.samples) as u32)
        .map(|seed| IdOrder::Random.draw(rows, count, seed))
        .collect();
    let source = MappedTable::owned(Arc::new(table.whole_rows(row_bytes)), row_bytes, options.threads)?;
    let mut path = StagingSource::new(&bench.context, source)?;
    let mut work = Work { bench, table, path: &mut path, row_bytes };
    let dma = work.by_cpu(&draws[..=options.samples])?;
    let split = work.split(&draws, options.samples)?;
    let together = work.together(&draws[0], options.samples, zero_copy_rate, copy_rate)?;
    Ok([dma, split, together]
        .into_iter()
        .map(|mut figure| {
            figure.threads = if figure.way == TransferPath::Together { 0 } else { options.threads };
            figure
        })
        .collect())
}

struct Work<'b> {
    bench: &'b mut Bench,
    table: &'b KnownTable,
    path: &'b mut StagingSource<MappedTable<'static>>,
    row_bytes: usize,
}

impl Work<'_> {
    fn figure(
        &self,
        way: TransferPath,
        rows: usize,
        samples: Vec<f64>,
        share: f64,
        verified_rows: usize,
    ) -> WayFigure {
        WayFigure {
            way,
            row_bytes: self.row_bytes,
            threads: 0,
            table_bytes: self.table.report.bytes,
            rows,
            gb_per_second: median(&samples),
            samples,
            zero_copy_share: share,
            verified_rows,
        }
    }

    /// The first draw warms up.
    fn by_cpu(&mut self, draws: &[Vec<i64>]) -> Result<WayFigure, PcieError> {
        self.bench.poison()?;
        let bytes = (draws[0].len() * self.row_bytes) as f64;
        let mut samples = Vec::with_capacity(draws.len() - 1);
        for (index, ids) in draws.iter().enumerate() {
            let began = Instant::now();
            // SAFETY: the output has room for a draw's rows, and is not used otherwise; the stream is waited for at
            // once.
            let enqueued = unsafe { self.path.enqueue(ids, self.bench.out.address()) };
            let waited = self.path.stream.synchronize();
            enqueued.and(waited)?;
            if index > 0 {
                samples.push(bytes / began.elapsed().as_secs_f64() / 1e9);
            }
        }
        let last = &draws[draws.len() - 1];
        let verified =
            self.bench.verify(TransferPath::CpuGatherDma.name(), self.table, self.row_bytes, last)?;
        Ok(self.figure(TransferPath::CpuGatherDma, last.len(), samples, 0.0, verified))
    }

    fn split(&mut self, draws: &[Vec<i64>], counted: usize) -> Result<WayFigure, PcieError> {
        self.bench.poison()?;
        let mut balance = Balance::default();
        let bytes = (draws[0].len() * self.row_bytes) as f64;
        let times = SplitTimes::new(self.bench)?;
        let (mut samples, mut shares) = (Vec::with_capacity(counted), Vec::with_capacity(counted));
        for (index, ids) in draws.iter().enumerate() {
            let first = balance.first_of(ids.len());
            // The ids of a batch are on the device before its rows are requested.
            self.bench.set_ids(&ids[..first])?;
            let began = Instant::now();
            let enqueued = self.enqueue_split(ids, first, &times);
            let waited = self.path.stream.synchronize().and(self.bench.stream.synchronize());
            enqueued.and(waited)?;
            let seconds = began.elapsed().as_secs_f64();
            if index + counted >= draws.len() {
                samples.push(bytes / seconds / 1e9);
                shares.push(first as f64 / ids.len() as f64);
            }
            let (kernel, copies) = times.seconds()?;
            balance.measured(
                PathWork { rows: first, seconds: kernel },
                PathWork { rows: ids.len() - first, seconds: copies },
            );
        }
        let last = &draws[draws.len() - 1];
        let verified = self.bench.verify(TransferPath::Split.name(), self.table, self.row_bytes, last)?;
        let share = median(&shares);
        Ok(self.figure(TransferPath::Split, last.len(), samples, share, verified))
    }

    /// In the producer's order: the kernel first, since it needs nothing further from the host, then the CPU's rows
    /// piece by piece.
    fn enqueue_split(&mut self, ids: &[i64], first: usize, times: &SplitTimes) -> Result<(), CudaError> {
        let bench = &*self.bench;
        times.kernel.0.record(&bench.stream)?;
        if first > 0 {
            // SAFETY: the kernel writes the rows before `first`; both streams are waited for before anything is used
            // again.
            unsafe { bench.enqueue_rows(self.table, Kernel::Wide, self.row_bytes, first)? };
        }
        times.kernel.1.record(&bench.stream)?;
        times.copies.0.record(&self.path.stream)?;
        let to = bench.out.address() + (first * self.row_bytes) as u64;
        // SAFETY: the copies write the rows from `first` on; as above.
        unsafe { self.path.enqueue(&ids[first..], to)? };
        times.copies.1.record(&self.path.stream)
    }

    /// Uses both kinds of hardware at once, after one hold: rows by zero-copy, and a copy of the bytes that the copy
    /// engine alone moves in the same time.
    fn together(
        &mut self,
        ids: &[i64],
        samples: usize,
        zero_copy_rate: f64,
        copy_rate: f64,
    ) -> Result<WayFigure, PcieError> {
        let context = Arc::clone(&self.bench.context);
        let other = CudaStream::new(&context)?;
        let row_bytes = self.row_bytes;
        // The output is divided between the two in proportion to their rates alone.
        let share = (zero_copy_rate / (zero_copy_rate + copy_rate)).clamp(0.05, 0.95);
        let first = ((ids.len() as f64 * share) as usize).clamp(1, ids.len());
        let copied = (ids.len() - first) * row_bytes;
        self.bench.set_ids(&ids[..first])?;
        self.bench.poison()?;
        let host = self.table.pinned.host();
        let copied = copied.min(host.len());
        self.bench.back.as_mut_slice()[..copied].copy_from_slice(&host[..copied]);
        let times = SplitTimes::new(self.bench)?;
        let opened = CudaEvent::local(&context)?;
        let mut rates = Vec::with_capacity(samples);
        for sample in 0..=samples {
            let enqueued = self.enqueue_together(&other, &opened, first, copied, &times);
            let waited = other.synchronize().and(self.bench.stream.synchronize());
            enqueued.and(waited)?;
            if sample > 0 {
                let bytes = (first * row_bytes + copied) as f64;
                rates.push(bytes / times.whole()?.max(1e-9) / 1e9);
            }
        }
        let back = &mut self.bench.back.as_mut_slice()[..first * row_bytes + copied];
        // SAFETY: as many bytes as the output has, into the bench's own memory; waited for at once.
        let returned = unsafe { device_to_host(&self.bench.stream, self.bench.out.address(), back) };
        let waited = self.bench.stream.synchronize();
        returned.and(waited)?;
        let (gathered, engine) = back.split_at(first * row_bytes);
        let verified = verify_rows(TransferPath::Together.name(), host, row_bytes, &ids[..first], gathered)?;
        check_bytes("the copy engine with zero-copy reads", 0, &host[..copied], engine)?;
        Ok(self.figure(TransferPath::Together, first, rates, share, verified))
    }

    fn enqueue_together(
        &self,
        other: &CudaStream,
        opened: &CudaEvent,
        first: usize,
        copied: usize,
        times: &SplitTimes,
    ) -> Result<(), CudaError> {
        let Bench { kernels, stream, hold, out, back, .. } = &*self.bench;
        let closed = hold.close();
        closed.enqueue(kernels, stream)?;
        // One kernel holds both streams: the other waits for the event after it.
        opened.record(stream)?;
        other.wait(opened)?;
        times.kernel.0.record(stream)?;
        // SAFETY: the kernel writes the rows before `first`; the caller waits for both streams before anything is used
        // again.
        unsafe { self.bench.enqueue_rows(self.table, Kernel::Wide, self.row_bytes, first)? };
        times.kernel.1.record(stream)?;
        times.copies.0.record(other)?;
        let to = out.address() + (first * self.row_bytes) as u64;
        // SAFETY: the copy writes the memory after those rows; as above.
        unsafe { host_to_device(other, &back.as_slice()[..copied], to)? };
        times.copies.1.record(other)
    }
}

/// Events around both parts.
struct SplitTimes {
    kernel: (CudaEvent, CudaEvent),
    copies: (CudaEvent, CudaEvent),
}

impl SplitTimes {
    fn new(bench: &Bench) -> Result<Self, CudaError> {
        let pair =
            || Ok::<_, CudaError>((CudaEvent::timing(&bench.context)?, CudaEvent::timing(&bench.context)?));
        Ok(Self { kernel: pair()?, copies: pair()? })
    }

    /// The seconds of each part, from its own beginning to its end.
    fn seconds(&self) -> Result<(f64, f64), CudaError> {
        let seconds = |(began, ended): &(CudaEvent, CudaEvent)| {
            Ok::<_, CudaError>(f64::from(CudaEvent::elapsed_ms(began, ended)?) / 1e3)
        };
        Ok((seconds(&self.kernel)?, seconds(&self.copies)?))
    }

    /// The seconds from the first beginning to the last end.
    fn whole(&self) -> Result<f64, CudaError> {
        let mut longest = 0.0_f64;
        for began in [&self.kernel.0, &self.copies.0] {
            for ended in [&self.kernel.1, &self.copies.1] {
                longest = longest.max(f64::from(CudaEvent::elapsed_ms(began, ended)?) / 1e3);
            }
        }
        Ok(longest)
    }
}
