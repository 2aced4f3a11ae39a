//! What every policy's caches hit on a dataset, and what planning costs, as JSON.
//!
//! `cargo run --release -p uva-cache --example policies -- DATA [FANOUTS [BATCH_SIZE [EPOCHS]]]`; fanouts 15,10,5,
//! batches of 1000 and 20 epochs unless given. Presampling counts epochs 0 and 1; all policies are judged by the
//! epochs after these. With 0 epochs only planning is measured.

use std::path::Path;
use std::time::Instant;

use serde_json::json;
use uva_cache::{PlanRequest, Workload, compare_policies, count, plan};
use uva_graph::Dataset;
use uva_sample::SamplerOptions;

/// Shares of rows, and of bytes of lists, that are cached.
const SHARES: [f64; 8] = [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, default: &'static str| arguments.get(at).map_or(default, String::as_str);
    let Some(path) = arguments.first() else { return Err("DATA is missing".into()) };
    let fanouts: Vec<i32> = argument(1, "15,10,5").split(',').map(str::parse).collect::<Result<_, _>>()?;
    let (batch_size, epochs): (usize, u32) = (argument(2, "1000").parse()?, argument(3, "20").parse()?);

    let dataset = Dataset::open(Path::new(path))?;
    let options = SamplerOptions { fanouts: fanouts.clone(), ..SamplerOptions::default() };
    let workload = Workload::of(&dataset, options, batch_size);

    let csc = dataset.csc();
    let adjacency_bytes = 8 * csc.indptr.len() + csc.indices.id_bytes() * csc.edges();
    let everything = adjacency_bytes as u64 + dataset.features().bytes.len() as u64;
    let (start, cpu) = (Instant::now(), cpu_seconds());
    count(&workload, 0..1)?;
    let epoch_seconds = start.elapsed().as_secs_f64();
    let epoch_cpu_seconds = cpu_seconds() - cpu;
    let (before, cpu) = (peak_bytes(), cpu_seconds());
    let plan = plan(&PlanRequest::new(&dataset, workload.clone(), everything / 10), None)?;
    let plan_cpu_seconds = cpu_seconds() - cpu;
    let policies = match epochs {
        0 => Vec::new(),
        _ => compare_policies(&workload, 2, 2..2 + epochs, &SHARES)?,
    };
    let report = json!({
        "dataset": dataset.name(),
        "nodes": dataset.nodes(),
        "edges": dataset.edges(),
        "train": workload.train.len(),
        "fanouts": fanouts,
        "batch_size": batch_size,
        "plan": {
            "epoch_seconds": epoch_seconds,
            "seconds": plan.profile.seconds,
            "epoch_cpu_seconds": epoch_cpu_seconds,
            "cpu_seconds": plan_cpu_seconds,
            "adjacency_bytes": adjacency_bytes,
            "peak_bytes_before": before,
            "peak_bytes": peak_bytes(),
            "lists": plan.lists,
            "rows": plan.rows,
        },
        "measured_epochs": epochs,
        "policies": policies,
    });
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

/// The most memory this process has had that is not a file's, as far as the system tells.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = |name: &str| -> Option<u64> {
        status.lines().find(|line| line.starts_with(name))?.split_whitespace().nth(1)?.parse().ok()
    };
    // Pages of mapped files can be dropped at any time.
    Some((kilobytes("VmHWM:")?).saturating_sub(kilobytes("RssFile:")?) * 1024)
}

/// Processor time of all threads so far, in hundredths of a second as Linux counts it; 0 where it does not tell.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold anything and ends with the last parenthesis.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
