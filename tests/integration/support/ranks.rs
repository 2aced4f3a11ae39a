//! Ranks of `uvatrain run`: a shell that replaces torchrun, and the expected batches of each rank.

use std::path::Path;

use rustix::process::Pid;
use uva_runtime::options::part::Part;
use uva_runtime::{LoaderOptions, Runtime};

use super::Uvatrain;
use super::command;
use super::runs::{Metrics, Process, Traces, wait_until};

/// Starts two concurrent ranks, each in its own folder, and ends with the code of one that failed.
pub const OF_TWO: &str = r#"
for rank in 0 1; do
    mkdir -p r$rank
    (cd r$rank && RANK=$rank WORLD_SIZE=2 exec "$@") & all="$all $!"
done
code=0; for one in $all; do wait $one || code=$?; done; exit $code"#;

/// As [`OF_TWO`], for this many ranks.
pub fn of(ranks: usize) -> String {
    let numbers: Vec<String> = (0..ranks).map(|rank| rank.to_string()).collect();
    let all = OF_TWO.replace("rank in 0 1;", &format!("rank in {};", numbers.join(" ")));
    all.replace("WORLD_SIZE=2", &format!("WORLD_SIZE={ranks}"))
}

/// Split, epoch, number and hash of every batch of a rank, as made by roles that are threads.
pub fn expected(
    directory: &Path,
    epochs: u32,
    part: Part,
    drop_last: bool,
) -> Vec<(String, u64, u64, String)> {
    let options = LoaderOptions { fanouts: [5, 4].into(), batch_size: 100, part, ..LoaderOptions::default() };
    let options = LoaderOptions { drop_last, ..options };
    let builder = Runtime::builder(directory.join("graph")).options(options).epochs(epochs);
    let mut runtime = builder.validate(true).test(true).build().unwrap();
    let mut all = Vec::new();
    while let Some(batch) = runtime.next_batch().unwrap() {
        let (epoch, index) = (u64::from(batch.epoch()), u64::from(batch.index()));
        all.push((batch.split().name().to_owned(), epoch, index, format!("{:016x}", batch.hash())));
    }
    all
}

/// The process of a rank, which recorded its number (`pid pid`).
pub fn process_of(directory: &Path, rank: u32) -> Pid {
    let number = std::fs::read_to_string(directory.join(format!("r{rank}/pid"))).unwrap();
    number.parse().ok().and_then(Pid::from_raw).unwrap()
}

/// The current traces of runs.
pub fn traces(directory: &Path) -> Traces {
    std::fs::create_dir_all(directory.join("tmp")).unwrap();
    Traces::now(&directory.join("tmp"))
}

/// Asserts that the run left no process, no file and no socket.
pub fn nothing_is_left(directory: &Path, launcher: u32, processes: &[Process], before: &Traces) {
    for process in processes {
        wait_until(&format!("the {} (process {}) ends", process.role, process.pid), || process.has_ended());
    }
    assert_eq!(before, &Traces::now(&directory.join("tmp")));
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    assert!(!sockets.contains(&format!("@uvatrain-ranks-{launcher}-")), "{sockets}");
}

/// Steps of a command that takes all passes of two epochs.
pub const ALL_SPLITS: &str =
    "attach; pass train 0; pass valid 0; pass train 1; pass valid 1; pass test 0; close";

/// A run of this many ranks with these options.
pub fn run(directory: &Path, ranks: u32, options: &str, steps: &str) -> Uvatrain {
    command::run_with(directory, options, Some(&of(ranks as usize)), steps)
}

/// A run of this many ranks on a machine with four GPUs.
pub fn on_four_gpus(directory: &Path, ranks: u32, options: &str, steps: &str) -> Uvatrain {
    run(directory, ranks, options, steps)
        .simulated()
        .env("CUDA_SIM_DEVICES", "4")
        .env("CUDA_SIM_DELAY_US", "200")
}

/// The values in force according to a rank's metrics.
pub fn in_force(directory: &Path, rank: u32, ranks: u32) -> serde_json::Value {
    let name = if ranks == 1 { "run.jsonl".to_owned() } else { format!("run.{rank}.jsonl") };
    Metrics::read(&directory.join(name)).of("start").next().expect("a start")["in_force"].clone()
}

/// Writes a run's own lines under another name, with unambiguous times of sampling, gathering and training, in
/// microseconds.
pub fn with_times(directory: &Path, from: &str, name: &str, [sample_us, gather_us, train_us]: [u64; 3]) {
    let text = std::fs::read_to_string(directory.join(from)).unwrap();
    let lines = text.lines().map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        for (stage, us) in [("sample_us", sample_us), ("gather_us", gather_us), ("train_us", train_us)] {
            if line["event"] == "batch" {
                line[stage] = us.into();
            }
        }
        line.to_string() + "\n"
    });
    std::fs::write(directory.join(name), lines.collect::<String>()).unwrap();
}
