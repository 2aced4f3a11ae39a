//! `uvatrain bench loader`: batches of a hop set for a consumer that only takes them, next to a plain copy.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use uva_graph::{Dataset, Hops, Split, Verify};
use uva_mem::ZeroedPages;
use uva_propagate::HopSet;
use uva_runtime::hop_options::{Chunk, HopOptions, Place, Shuffle};
use uva_runtime::plan::RunPlan;
use uva_runtime::{Batch, Features, LoaderOptions, Passes, Runtime, RuntimeError};
use uva_sample::ChunkOrder;

use crate::exit;
use crate::flags::LoaderBenchFlags;
use crate::ui::table::Table;
use crate::ui::{format, out};

/// Epochs before those that are timed: one is verified, one warms up.
const BEFORE: u32 = 2;

#[derive(Serialize)]
struct Report {
    dataset: String,
    /// Rows of an epoch.
    rows: usize,
    /// Tables that a row is in, and its bytes in all of them.
    tables: usize,
    row_bytes: usize,
    batch_size: usize,
    samplers: usize,
    slots: usize,
    epochs: u32,
    /// Copies of as many bytes of the same files, in their order, by as many threads.
    memcpy_gb_per_second: f64,
    orders: Vec<OfOrder>,
}

/// What one order of the rows gives.
#[derive(Serialize)]
struct OfOrder {
    shuffle: &'static str,
    /// Rows that stay together.
    chunk: usize,
    rows_per_second: f64,
    gb_per_second: f64,
    share_of_memcpy: f64,
    /// Batches whose nodes and rows were compared with the files.
    verified_batches: u64,
}

/// Measures and prints.
pub fn run(flags: &LoaderBenchFlags) -> anyhow::Result<()> {
    if !HopSet::is_at(&flags.data) {
        let data = flags.data.display();
        return Err(exit::usage(format!(
            "{data}: it is no hop set (no hops.json): `uvatrain propagate` makes one of a dataset; of a dataset \
             `bench pipeline` measures batches"
        ))
        .into());
    }
    let dataset = Arc::new(HopSet::open_dataset(&flags.data, Verify::Stamp)?);
    let hops = dataset.hops().context("a hop set has rows of hops")?;
    let rows = hops.rows_of(Split::Train).len();
    if rows == 0 {
        return Err(exit::usage(format!("{}: there are no training rows", flags.data.display())).into());
    }
    let bytes = rows * hops.count() * dataset.features().row_bytes();
    let gb_per_second = |time: Duration| bytes as f64 / 1e9 / time.as_secs_f64();
    let chunks =
        flags.chunk.iter().map(|&chunk| HopOptions { shuffle: Shuffle::Chunks, chunk, place: Place::Host });
    let asked: Vec<HopOptions> =
        std::iter::once(HopOptions { shuffle: Shuffle::Full, chunk: Chunk::Auto, place: Place::Host })
            .chain(chunks)
            .collect();
    // Whatever slows the machine down for a while slows copies before and behind it down too.
    let mut copies = copied(flags, hops)?;
    let mut measured = Vec::new();
    for order in asked {
        measured.push(measure(flags, &dataset, order)?);
        copies.extend(copied(flags, hops)?);
    }
    let memcpy_gb_per_second = gb_per_second(median(copies));
    let orders = measured.into_iter().map(|Measured { order, chunk, epoch, verified }| OfOrder {
        shuffle: order.shuffle.name(),
        chunk,
        rows_per_second: rows as f64 / epoch.as_secs_f64(),
        gb_per_second: gb_per_second(epoch),
        share_of_memcpy: gb_per_second(epoch) / memcpy_gb_per_second,
        verified_batches: verified,
    });
    let report = Report {
        dataset: dataset.name().to_owned(),
        rows,
        tables: hops.count(),
        row_bytes: bytes / rows,
        batch_size: flags.batch_size as usize,
        samplers: flags.samplers as usize,
        slots: flags.slots as usize,
        epochs: flags.epochs,
        memcpy_gb_per_second,
        orders: orders.collect(),
    };
    if flags.json { out::json(&report) } else { out::text(&text(&report)) }
}

/// An order that was measured.
struct Measured {
    order: HopOptions,
    chunk: usize,
    /// The median time of an epoch.
    epoch: Duration,
    verified: u64,
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Takes batches of this order, and compares those of the first epoch with the files.
fn measure(flags: &LoaderBenchFlags, dataset: &Arc<Dataset>, asked: HopOptions) -> anyhow::Result<Measured> {
    let hops = dataset.hops().context("a hop set has rows of hops")?;
    let batch_size = flags.batch_size as usize;
    let batches = asked.batches(hops, batch_size).map_err(RuntimeError::from)?;
    let chunk = batches.chunk;
    let options = LoaderOptions {
        batch_size,
        samplers: flags.samplers as usize,
        feature_slots: flags.slots as usize,
        seed: flags.seed,
        // The copies that it is compared with read the mapped files, too.
        features: Features::Memory,
        ..LoaderOptions::default()
    }
    .of_hops(batches);
    let passes = Passes { epochs: BEFORE + flags.epochs, ..Passes::default() };
    let plan = RunPlan::new(dataset, &options, passes)?;
    let rows = hops.rows_of(Split::Train).len();
    let mut order = ChunkOrder::new(flags.seed, Split::Train, rows, Some(chunk), batch_size, false)?;
    order.prepare(0)?;
    let mut runtime = Runtime::start(Arc::clone(dataset), plan)?;
    // When each epoch ended.
    let mut ends: Vec<Instant> = Vec::new();
    let (mut verified, mut taken) = (0, 0);
    while let Some(batch) = runtime.next_batch()? {
        if batch.epoch() == 0 {
            verify(&batch, hops, &order)?;
            verified += 1;
        }
        taken += batch.seed_count();
        drop(batch);
        if taken == rows {
            ends.push(Instant::now());
            taken = 0;
        }
    }
    runtime.stop()?;
    ensure!(ends.len() as u32 == BEFORE + flags.epochs, "{} epochs of {rows} rows", ends.len());
    let times = ends.windows(2).skip(BEFORE as usize - 1).map(|ends| ends[1] - ends[0]).collect();
    Ok(Measured { order: asked, chunk, epoch: median(times), verified })
}

/// Refuses a batch that does not hold the rows that its order names, in that order.
fn verify(batch: &Batch, hops: Hops<'_>, order: &ChunkOrder) -> anyhow::Result<()> {
    let first = hops.rows_of(Split::Train).start;
    let rows: Vec<usize> = order.batch(batch.index() as usize).flatten().map(|place| first + place).collect();
    let nodes = rows.iter().map(|&row| hops.nodes()[row]);
    ensure!(batch.input_nodes().iter().copied().eq(nodes), "batch {} has other nodes", batch.index());
    for number in 0..hops.count() {
        let (found, stored) = (batch.table(number), hops.table(number));
        let of_batch = found.bytes.chunks_exact(found.row_bytes());
        ensure!(
            of_batch.eq(rows.iter().map(|&row| stored.row(row))),
            "batch {} has other rows of hop {number}",
            batch.index()
        );
    }
    Ok(())
}

/// How long copies of an epoch's bytes take, in pieces as large as batches: each thread copies every so-manieth piece
/// into a buffer of its own.
fn copied(flags: &LoaderBenchFlags, hops: Hops<'_>) -> anyhow::Result<Vec<Duration>> {
    let piece = flags.batch_size as usize * hops.row_stride();
    let pieces: Vec<&[u8]> =
        hops.as_stored(hops.rows_of(Split::Train)).flat_map(|bytes| bytes.chunks(piece)).collect();
    let threads = flags.samplers as usize;
    let mut buffers = Vec::with_capacity(threads);
    for _ in 0..threads {
        let buffer = ZeroedPages::new(piece).context("no memory for a batch of rows")?;
        buffer.populate().context("no memory for a batch of rows")?;
        buffers.push(buffer);
    }
    let mut times = Vec::new();
    // The first one warms up.
    for repeat in 0..=flags.epochs {
        let began = Instant::now();
        std::thread::scope(|scope| {
            for (thread, buffer) in buffers.iter_mut().enumerate() {
                let of_thread = pieces.iter().skip(thread).step_by(threads);
                scope.spawn(move || {
                    for piece in of_thread {
                        buffer.bytes_mut()[..piece.len()].copy_from_slice(piece);
                        std::hint::black_box(buffer.bytes());
                    }
                });
            }
        });
        if repeat > 0 {
            times.push(began.elapsed());
        }
    }
    Ok(times)
}

fn text(report: &Report) -> String {
    let mut facts = Table::of_facts();
    facts.row(&["hop set", &report.dataset]);
    for OfOrder { shuffle, chunk, rows_per_second, gb_per_second, share_of_memcpy, .. } in &report.orders {
        let name = if *shuffle == Shuffle::Full.name() {
            "all rows shuffled".to_owned()
        } else {
            format!("chunks of {chunk}")
        };
        facts.row(&[
            name,
            format!(
                "{:.2} million rows a second, {gb_per_second:.2} GB/s, {} of memcpy",
                rows_per_second / 1e6,
                format::percent(*share_of_memcpy)
            ),
        ]);
    }
    facts
        .row(&["memcpy", &format!("{:.2} GB/s, as many bytes in the same run", report.memcpy_gb_per_second)]);
    let Report { epochs, rows, row_bytes, tables, batch_size, samplers, .. } = report;
    facts.row(&[
        "measured",
        &format!(
            "median of {epochs} × {} rows of {row_bytes} bytes in {tables} tables, batches of {}, workers: {samplers}, \
             verified",
            format::count(*rows as u64),
            format::count(*batch_size as u64),
        ),
    ]);
    facts.render()
}
