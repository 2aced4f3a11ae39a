//! `uvatrain bench loader`: batches of a hop set for a consumer that only takes them, compared with a plain copy or
//! with the disk reader alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use uva_graph::{Dataset, Hops, Split, Verify};
use uva_mem::ZeroedPages;
use uva_propagate::HopSet;
use uva_runtime::options::hop_options::{Chunk, HopOptions, HopRowsPlace, Shuffle};
use uva_runtime::plan::RunPlan;
use uva_runtime::{Batch, DiskReader, Features, LoaderOptions, OpenHopFiles, Passes, Runtime, RuntimeError};
use uva_sample::ChunkOrder;

use crate::exit;
use crate::flags::bench::LoaderBenchFlags;
use crate::runs::data_kinds::kind_at;
use crate::ui::table::TextTable;
use crate::ui::{format, out};

/// Epochs before the timed ones: one is verified, and one warms up.
const BEFORE: u32 = 2;

#[derive(Serialize)]
struct Report {
    dataset: String,
    /// Rows in an epoch.
    rows: usize,
    /// Number of tables that hold each row, and the row's bytes in all of them.
    tables: usize,
    row_bytes: usize,
    batch_size: usize,
    samplers: usize,
    slots: usize,
    epochs: u32,
    /// How rows are read from disk. Absent if the mapped files are copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    reader: Option<&'static str>,
    /// Plain copies of the same bytes of the same files, in file order, on as many threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    memcpy_gb_per_second: Option<f64>,
    /// For rows from disk, instead of the copies: the same bytes read by as many readers alone, in pieces as large as
    /// batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    reads_gb_per_second: Option<f64>,
    orders: Vec<OfOrder>,
}

/// The result for one order of the rows.
#[derive(Serialize)]
struct OfOrder {
    shuffle: &'static str,
    /// Rows that stay together in a shuffle.
    chunk: usize,
    rows_per_second: f64,
    gb_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_of_memcpy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_of_reads: Option<f64>,
    /// Batches whose nodes and rows were compared with the files.
    verified_batches: u64,
}

/// Measures and prints the result.
pub fn run(flags: &LoaderBenchFlags) -> anyhow::Result<()> {
    kind_at(&flags.data).check_rows(&flags.data)?;
    if flags.reader == Some(DiskReader::Cufile) {
        return Err(exit::usage(
            "--reader cufile: not supported, since this benchmark reads rows into host memory",
        )
        .into());
    }
    let dataset = Arc::new(HopSet::open_dataset(&flags.data, Verify::Stamp)?);
    let hops = dataset.hops().context("a hop set has rows of hops")?;
    let rows = hops.rows_of(Split::Train).len();
    if rows == 0 {
        return Err(exit::usage(format!("{}: there are no training rows", flags.data.display())).into());
    }
    let bytes = rows * hops.count() * dataset.table().row_bytes();
    let gb_per_second = |time: Duration| bytes as f64 / 1e9 / time.as_secs_f64();
    let place = if flags.reader.is_some() { HopRowsPlace::Disk } else { HopRowsPlace::Host };
    let chunks = flags.chunk.iter().map(|&chunk| HopOptions { shuffle: Shuffle::Chunks, chunk, place });
    let asked: Vec<HopOptions> =
        std::iter::once(HopOptions { shuffle: Shuffle::Full, chunk: Chunk::Auto, place })
            .chain(chunks)
            .collect();
    let (mut bare, mut measured, mut reader) = (Vec::new(), Vec::new(), None);
    let mut without_loader = |bare: &mut Vec<Duration>| -> anyhow::Result<()> {
        match flags.reader {
            None => bare.extend(copied(flags, hops)?),
            Some(asked) => {
                let (times, taken) = read_alone(flags, hops, asked)?;
                bare.extend(times);
                reader = Some(taken);
            }
        }
        Ok(())
    };
    // Copies or reads run before and after the loader, so that a temporary slowdown of the machine affects both.
    without_loader(&mut bare)?;
    for order in asked {
        measured.push(measure(flags, &dataset, order)?);
        without_loader(&mut bare)?;
    }
    let limit = gb_per_second(median(bare));
    let of_memory = |figure: f64| flags.reader.is_none().then_some(figure);
    let of_disk = |figure: f64| flags.reader.is_some().then_some(figure);
    let orders = measured.into_iter().map(|Measured { order, chunk, epoch, verified }| OfOrder {
        shuffle: order.shuffle.name(),
        chunk,
        rows_per_second: rows as f64 / epoch.as_secs_f64(),
        gb_per_second: gb_per_second(epoch),
        share_of_memcpy: of_memory(gb_per_second(epoch) / limit),
        share_of_reads: of_disk(gb_per_second(epoch) / limit),
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
        reader,
        memcpy_gb_per_second: of_memory(limit),
        reads_gb_per_second: of_disk(limit),
        orders: orders.collect(),
    };
    if flags.json { out::json(&report) } else { out::text(&text(&report)) }
}

/// A measured order.
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

/// Takes batches in this order, and compares those of the first epoch with the files.
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
        // The same source as that of the comparison.
        features: if flags.reader.is_some() { Features::Disk } else { Features::Memory },
        reader: flags.reader.unwrap_or_default(),
        ..LoaderOptions::default()
    }
    .of_hops(batches);
    let passes = Passes { epochs: BEFORE + flags.epochs, ..Passes::default() };
    let plan = RunPlan::new(dataset, &options, passes)?;
    let rows = hops.rows_of(Split::Train).len();
    let mut order = ChunkOrder::new(flags.seed, Split::Train, rows, Some(chunk), batch_size, false)?;
    order.prepare(0)?;
    let mut runtime = Runtime::start(Arc::clone(dataset), plan)?;
    // The end of each epoch.
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

/// Refuses a batch whose rows are not the rows of its order, in sequence.
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

/// Times copies of an epoch's bytes, in pieces as large as batches. With n threads, each thread copies every n-th piece
/// into its own buffer.
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
    // The first repeat warms up.
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

/// Times reads of an epoch's bytes from disk, in pieces as large as batches and without a consumer, and reports the
/// reader in use. With n threads, each thread has its own reader and reads every n-th piece.
fn read_alone(
    flags: &LoaderBenchFlags,
    hops: Hops<'_>,
    asked: DiskReader,
) -> anyhow::Result<(Vec<Duration>, &'static str)> {
    let tables: Vec<usize> = (0..hops.count()).collect();
    let rows = hops.rows_of(Split::Train);
    let piece = |first: usize| first..rows.end.min(first + flags.batch_size as usize);
    let pieces: Vec<_> = rows.clone().step_by(flags.batch_size as usize).map(piece).collect();
    let threads = flags.samplers as usize;
    let open = |_| OpenHopFiles::open(hops, &tables, asked).map(OpenHopFiles::into_files);
    let mut readers = (0..threads).map(open).collect::<Result<Vec<_>, _>>()?;
    let taken = readers[0].reader().name();
    let mut times = Vec::new();
    // The first repeat warms up.
    for repeat in 0..=flags.epochs {
        let began = Instant::now();
        std::thread::scope(|scope| {
            let reading: Vec<_> = (0..)
                .zip(&mut readers)
                .map(|(thread, reader)| {
                    let of_thread = pieces.iter().skip(thread).step_by(threads);
                    scope.spawn(move || {
                        for piece in of_thread {
                            let bare = |_, _, bytes: &[u8]| {
                                std::hint::black_box(bytes);
                            };
                            reader.read(std::slice::from_ref(piece), bare)?;
                        }
                        anyhow::Ok(())
                    })
                })
                .collect();
            reading.into_iter().try_for_each(|one| one.join().expect("a reader of files does not panic"))
        })?;
        if repeat > 0 {
            times.push(began.elapsed());
        }
    }
    Ok((times, taken))
}

fn text(report: &Report) -> String {
    let mut facts = TextTable::of_facts();
    facts.row(&["hop set", &report.dataset]);
    let (limit, of) = match (report.memcpy_gb_per_second, report.reads_gb_per_second) {
        (Some(memcpy), _) => (memcpy, "memcpy"),
        (None, reads) => (reads.unwrap_or_default(), "the reader alone"),
    };
    for OfOrder { shuffle, chunk, rows_per_second, gb_per_second, .. } in &report.orders {
        let name = if *shuffle == Shuffle::Full.name() {
            "all rows shuffled".to_owned()
        } else {
            format!("chunks of {chunk}")
        };
        facts.row(&[
            name,
            format!(
                "{:.2} million rows a second, {gb_per_second:.2} GB/s, {} of {of}",
                rows_per_second / 1e6,
                format::percent(gb_per_second / limit)
            ),
        ]);
    }
    let name = report.reader.map_or_else(|| of.to_owned(), |reader| format!("{reader} alone"));
    facts.row(&[name, format!("{limit:.2} GB/s, as many bytes in the same run")]);
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
