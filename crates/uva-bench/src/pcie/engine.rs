//! The copy engine: the throughput of the link with long copies only.

use std::time::{Duration, Instant};

use serde::Serialize;
use uva_cuda::CudaEvent;
use uva_cuda::memory::{device_to_host, host_to_device};

use super::bench::{Bench, around, median};
use super::error::PcieError;
use super::ids::mix;
use super::verify::check_bytes;

/// The rate of copies of one size.
#[derive(Clone, Debug, Serialize)]
pub struct CopySize {
    /// Bytes of a copy.
    pub bytes: usize,
    /// Median, in 10⁹ bytes a second.
    pub gb_per_second: f64,
    /// Each sample.
    pub samples: Vec<f64>,
}

/// The copy engine, pinned host memory to device memory.
#[derive(Clone, Debug, Serialize)]
pub struct CopyEngine {
    /// The rate of the best size.
    pub peak_gb_per_second: f64,
    /// The rates by size, ascending.
    pub sizes: Vec<CopySize>,
}

const WARM_UP: Duration = Duration::from_millis(200);

/// Sizes of copies, as fractions of a sample.
const PARTS: [usize; 5] = [256, 64, 16, 4, 1];

/// Times copies of several sizes, up to a whole sample, and compares the result.
pub(super) fn measure(bench: &mut Bench) -> Result<CopyEngine, PcieError> {
    warm_up(bench)?;
    let most = bench.most_bytes;
    let mut sizes: Vec<usize> = PARTS.iter().map(|part| (most / part).max(1)).collect();
    sizes.dedup();
    let mut measured = Vec::with_capacity(sizes.len());
    for bytes in sizes {
        let contents = |word: usize| mix((bytes + word) as u64).to_le_bytes();
        for (word, place) in bench.back.as_mut_slice()[..bytes].chunks_mut(8).enumerate() {
            place.copy_from_slice(&contents(word)[..place.len()]);
        }
        bench.poison()?;
        let samples = copies(bench, bytes)?;
        // The bytes are copied back into the buffer that they came from.
        let back = &mut bench.back.as_mut_slice()[..bytes];
        back.fill(0);
        // SAFETY: buffers owned by this value, waited for at once.
        let copied = unsafe { device_to_host(&bench.stream, bench.out.address(), back) };
        let waited = bench.stream.synchronize();
        copied.and(waited)?;
        for (word, place) in back.chunks(8).enumerate() {
            check_bytes("the copy engine", word * 8, &contents(word)[..place.len()], place)?;
        }
        measured.push(CopySize { bytes, gb_per_second: median(&samples), samples });
    }
    let peak = measured.iter().map(|size| size.gb_per_second).fold(0.0, f64::max);
    Ok(CopyEngine { peak_gb_per_second: peak, sizes: measured })
}

/// Copies for a while: a link and a device that were idle need some time to leave their idle states. At least once.
fn warm_up(bench: &Bench) -> Result<(), PcieError> {
    let began = Instant::now();
    loop {
        for _ in 0..8 {
            // SAFETY: the bench's own buffers, equally large, waited for below.
            unsafe { host_to_device(&bench.stream, bench.back.as_slice(), bench.out.address())? };
        }
        bench.stream.synchronize()?;
        if began.elapsed() > WARM_UP {
            return Ok(());
        }
    }
}

fn copies(bench: &mut Bench, bytes: usize) -> Result<Vec<f64>, PcieError> {
    let times = around(&bench.stream, bench.samples)?;
    let Bench { kernels, stream, hold, out, back, .. } = bench;
    let from = &back.as_slice()[..bytes];
    // Short copies are timed several at a time: recording an event costs about as much as one of them.
    let each = ((1 << 20) / bytes.max(1)).clamp(1, 16);
    let closed = hold.close();
    let enqueue = || {
        closed.enqueue(kernels, stream)?;
        // SAFETY: the buffers are the bench's own and as large; the stream is waited for below.
        unsafe { host_to_device(stream, from, out.address())? };
        for (began, ended) in times.iter() {
            began.record(stream)?;
            for _ in 0..each {
                // SAFETY: as above.
                unsafe { host_to_device(stream, from, out.address())? };
            }
            ended.record(stream)?;
        }
        Ok(())
    };
    let enqueued: Result<(), uva_cuda::CudaError> = enqueue();
    drop(closed);
    let waited = stream.synchronize();
    enqueued.and(waited)?;
    let rate = |(began, ended): &(CudaEvent, CudaEvent)| {
        let seconds = f64::from(CudaEvent::elapsed_ms(began, ended)?) / 1e3;
        Ok::<_, PcieError>((each * bytes) as f64 / seconds.max(1e-9) / 1e9)
    };
    times.iter().map(rate).collect()
}
