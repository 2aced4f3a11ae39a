//! `uvatrain bench pipeline`: samplers and producer at full speed, a consumer that only takes the batches.

use std::time::Instant;

use serde::Serialize;
use serde_json::Value;
use uva_runtime::machine::memory::ProcessMemory;
use uva_runtime::options::Prepare;
use uva_runtime::options::seed_order::MadeOrder;
use uva_runtime::telemetry::metrics::Roles;
use uva_runtime::{DiskCounts, InputSeeds, Runtime};

use super::spread::Spread;
use crate::exit;
use crate::flags::bench::PipelineBenchFlags;
use crate::runs::dry_run;
use crate::ui::table::TextTable;
use crate::ui::{format, out, summary};
use uva_runtime::spec::{ByteSize, Spelling};

#[derive(Serialize)]
struct Report {
    dataset: String,
    batches_per_second: f64,
    input_nodes_per_second: f64,
    feature_gb_per_second: f64,
    /// Time from one batch to the next, as the consumer receives them.
    batch_ms: Spread,
    bottleneck: &'static str,
    /// The counted batches: all after the warm-up.
    batches: u64,
    /// Batches before the counted ones. The wait for the first one is the start-up of the pipeline.
    warm_up: u64,
    input_nodes: u64,
    edges: u64,
    feature_bytes: u64,
    seconds: f64,
    epochs: u32,
    prepare: &'static str,
    samplers: usize,
    gather_threads: usize,
    /// Sum of the batches' hashes: the same for any number of samplers.
    hash: String,
    /// The roles' times after the warm-up.
    roles: Roles,
    /// Reads of rows from disk after the warm-up. Absent if rows are read from memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<Disk>,
    memory: Vec<ProcessMemory>,
    /// Absent where seeds are shuffled.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed_order: Option<Value>,
    /// The order of the seeds as text.
    #[serde(skip)]
    order_note: Option<String>,
}

/// Reads of rows from disk.
#[derive(Serialize)]
struct Disk {
    #[serde(flatten)]
    counts: DiskCounts,
    reads_per_second: f64,
    read_gb_per_second: f64,
}

/// Measures and prints the result.
pub fn run(flags: &PipelineBenchFlags) -> anyhow::Result<()> {
    flags.loader.check()?;
    let options = flags.loader.options();
    let (prepare, samplers) = (options.prepare, options.samplers);
    // A worker gathers on its own thread alone.
    let gather_threads = if prepare == Prepare::Whole { 1 } else { options.gather_threads };
    let mut builder = Runtime::builder(&flags.data).options(options).epochs(flags.epochs);
    if !flags.input_nodes.is_empty() {
        builder = builder.input_nodes(InputSeeds::in_files(&flags.input_nodes)).shuffle(true);
    }
    if flags.dry_run {
        return dry_run::show(&builder.dry_run()?, flags.json);
    }
    let mut runtime = builder.build()?;
    let (mut batches, mut input_nodes, mut edges, mut feature_bytes, mut hash) =
        (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    // Batches before the counted ones.
    let mut passed = 0;
    // When each counted batch was released, and the last one before them.
    let mut taken: Vec<Instant> = Vec::new();
    // The roles' counters at that time.
    let mut before = None;
    while flags.batches.is_none_or(|most| batches < most)
        && let Some(batch) = runtime.next_batch()?
    {
        hash = hash.wrapping_add(batch.hash());
        let counted = passed == flags.warm_up;
        if counted {
            batches += 1;
            let metagraph = batch.metagraph();
            input_nodes += batch.node_count() as u64;
            for layer in 0..batch.layers() {
                let blocks = metagraph.relations().map(|of| batch.block_of(layer, of));
                edges += blocks.map(|block| block.indices.len() as u64).sum::<u64>();
            }
            let rows = metagraph.types().filter_map(|of| batch.rows_of(of));
            feature_bytes += rows.map(|rows| rows.bytes.len() as u64).sum::<u64>();
        }
        drop(batch);
        if !counted {
            passed += 1;
            if passed < flags.warm_up {
                continue;
            }
        }
        taken.push(Instant::now());
        before.get_or_insert_with(|| (runtime.roles(), runtime.disk_reads()));
    }
    let seconds = taken.first().map_or(0.0, |begun| begun.elapsed().as_secs_f64());
    let (roles_before, disk_before) = before.unwrap_or_default();
    let (roles, memory) = (runtime.roles().since(&roles_before), runtime.memory());
    let disk = runtime.disk_reads().map(|counts| counts.since(disk_before.unwrap_or_default()));
    runtime.stop()?;
    if batches == 0 && flags.warm_up > 1 {
        return Err(exit::usage(format!(
            "--warm-up {}: the run has {passed} batches, and none is left to count: fewer, or more --epochs",
            flags.warm_up
        ))
        .into());
    }
    let rate = |count: u64| if batches > 0 { count as f64 / seconds } else { 0.0 };
    let report = Report {
        dataset: runtime.dataset().name().to_owned(),
        batches_per_second: rate(batches),
        input_nodes_per_second: rate(input_nodes),
        feature_gb_per_second: rate(feature_bytes) / 1e9,
        batch_ms: Spread::of_ms(taken.windows(2).map(|ends| ends[1] - ends[0])),
        bottleneck: roles.bottleneck(),
        batches,
        warm_up: passed,
        input_nodes,
        edges,
        feature_bytes,
        seconds,
        epochs: flags.epochs,
        prepare: prepare.name(),
        samplers,
        gather_threads,
        hash: format!("{hash:016x}"),
        roles,
        disk: disk.map(|counts| Disk {
            reads_per_second: rate(counts.reads),
            read_gb_per_second: rate(counts.bytes_read) / 1e9,
            counts,
        }),
        memory,
        seed_order: runtime.seed_order().map(MadeOrder::in_force),
        order_note: runtime.seed_order().map(|order| Spelling::CommandLine.sentence(&order.note())),
    };
    if flags.json { out::json(&report) } else { out::text(&report.text()) }
}

impl Report {
    fn text(&self) -> String {
        let mut facts = TextTable::of_facts();
        let mut fact = |name: &str, value: String| facts.row(&[name.to_owned(), value]);
        fact("dataset", self.dataset.clone());
        fact("batches", format!("{:.1} a second", self.batches_per_second));
        fact("input nodes", format!("{:.2} million a second", self.input_nodes_per_second / 1e6));
        fact("features", format!("{:.2} GB/s", self.feature_gb_per_second));
        if let Some(Disk { counts, reads_per_second, read_gb_per_second }) = &self.disk {
            let more = counts.bytes_read as f64 / counts.bytes_asked.max(1) as f64;
            fact(
                "disk",
                format!(
                    "{reads_per_second:.0} reads a second, {read_gb_per_second:.2} GB/s: {more:.2} times the rows"
                ),
            );
        }
        if let Some(order) = &self.order_note {
            fact("order", order.clone());
        }
        fact("bottleneck", format!("the {}", self.bottleneck));
        let threads = if self.roles.are_of_workers() {
            format!("workers: {}", self.samplers)
        } else {
            format!("sampler threads: {}, gather threads: {}", self.samplers, self.gather_threads)
        };
        fact(
            "measured",
            format!(
                "{} batches, {}, in {}; {threads}",
                format::count(self.batches),
                ByteSize::from_bytes(self.feature_bytes),
                format::seconds(self.seconds)
            ),
        );
        fact("hash", self.hash.clone());
        format!("{}\n{}\n{}", summary::roles(&self.roles), summary::memory(&self.memory), facts.render())
    }
}
