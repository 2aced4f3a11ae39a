//! The summary at the end of a run: its results, how its time was spent, and where the metrics are.

use std::path::Path;

use uva_launch::training::Keep;
use uva_runtime::machine::memory::ProcessMemory;
use uva_runtime::telemetry::metrics::{CacheOutcome, End, Roles};

use super::bottleneck::{RoleSum, held_up_by, more_train_threads};
use super::format;
use super::table::TextTable;
use uva_runtime::spec::ByteSize;

/// The note on results that depend on random neighbours.
pub const ON_SAMPLED_NEIGHBOURS: &str = "on sampled neighbours";

/// Further facts about a run at its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct SummaryFacts<'p> {
    /// The file of `--metrics`.
    pub metrics: Option<&'p Path>,
    /// The directory of `--checkpoint`.
    pub checkpoint: Option<&'p Path>,
    /// Which model is kept, if a built-in model was trained.
    pub keep: Option<Keep>,
    /// Threads of a built-in model that was trained on the CPU.
    pub train_threads: Option<usize>,
    /// Cores of this machine.
    pub cores: usize,
    /// Whether validation and test were on sampled neighbours.
    pub sampled: bool,
    /// Whether the time of each role and the memory of each process are shown.
    pub verbose: bool,
}

/// The summary of a run as text, in lines of at most 80 columns. With `verbose` a table of the roles' time and one of the
/// processes' memory precede it.
pub fn of_run(end: &End, besides: &SummaryFacts<'_>) -> String {
    let mut text = String::from("\n");
    if besides.verbose {
        text += &roles(&end.roles);
        text.push('\n');
        if !end.memory.is_empty() {
            text += &memory(&end.memory);
            text.push('\n');
        }
    }
    text += &facts(end, besides);
    text
}

/// One row per role: its processes, its time in three parts, its memory.
pub fn roles(roles: &Roles) -> String {
    let mut table = TextTable::with_heading(&[
        "role",
        "processes",
        "working",
        "waiting for input",
        "waiting for output",
        "peak memory",
    ]);
    for (name, times) in roles.each() {
        let whole = times.working_s + times.waiting_input_s + times.waiting_output_s;
        let part = |seconds: f64| {
            let share = if whole > 0.0 { 100.0 * seconds / whole } else { 0.0 };
            format!("{} {share:>3.0} %", format::seconds(seconds))
        };
        table.row(&[
            name.to_owned(),
            times.processes.to_string(),
            part(times.working_s),
            part(times.waiting_input_s),
            part(times.waiting_output_s),
            ByteSize::from_bytes(times.peak_rss_bytes).to_string(),
        ]);
    }
    table.render()
}

/// One row per process: its memory at the end of its work. Only private memory adds up over the rows.
pub fn memory(processes: &[ProcessMemory]) -> String {
    let mut table =
        TextTable::with_heading(&["process", "resident", "its own", "mapped files", "shared memory", "peak"]);
    let bytes = |bytes: u64| ByteSize::from_bytes(bytes).to_string();
    for process in processes {
        table.row(&[
            process.process.clone(),
            bytes(process.resident_bytes),
            bytes(process.own_bytes),
            bytes(process.file_bytes),
            bytes(process.shared_bytes),
            bytes(process.peak_bytes),
        ]);
    }
    let mut text = table.render();
    if processes.len() > 1 {
        text += "Mapped files and shared memory are there once, and count in each process that has them.\n";
    }
    text
}

fn facts(end: &End, besides: &SummaryFacts<'_>) -> String {
    let mut facts = TextTable::of_facts();
    let mut fact = |name: &str, value: String| facts.row(&[name.to_owned(), value]);
    // Printed once, with the first result.
    let mut how = besides.sampled.then_some(ON_SAMPLED_NEIGHBOURS).into_iter();
    let mut result = |name: &str, value: String, epoch: Option<u32>, fact: &mut dyn FnMut(&str, String)| {
        let how = how.next().map_or(String::new(), |how| format!(" {how}"));
        let of = epoch.map_or(String::new(), |epoch| format!(", epoch {}", u64::from(epoch) + 1));
        fact(name, format!("{value}{how}{of}"));
    };
    for (name, value, epoch) in [
        ("test accuracy", end.test_accuracy, end.test_epoch),
        ("test ROC-AUC", end.test_roc_auc, end.test_epoch),
        ("best validation ROC-AUC", end.best_valid_roc_auc, end.best_valid_epoch),
        ("best validation accuracy", end.best_valid_accuracy, end.best_valid_epoch),
    ] {
        if let Some(value) = value {
            result(name, format::percent(value).to_string(), epoch, &mut fact);
        }
    }
    for (name, value, epoch) in [
        ("test MSE", end.test_mse, end.test_epoch),
        ("test MAE", end.test_mae, end.test_epoch),
        ("best validation MSE", end.best_valid_mse, end.best_valid_epoch),
        ("best validation MAE", end.best_valid_mae, end.best_valid_epoch),
    ] {
        if let Some(value) = value {
            result(name, format::error(value), epoch, &mut fact);
        }
    }
    if let Some(keep) = besides.keep {
        fact("model", kept(keep, end));
    }
    let epochs = format!("{}{}", end.epochs, if end.stopped_early { ", stopped early" } else { "" });
    fact("epochs", epochs);
    fact("time", format!("{}, start and evaluation included", format::seconds(end.seconds)));
    if let Some(speed) = end.batches_per_second {
        let (batches, seconds) = (format::count(end.batches), format::seconds(end.training_seconds));
        fact("speed", format!("{speed:.1} batches/s: {batches} training batches in {seconds}"));
    }
    fact("working", working(&end.roles));
    if let Some(bottleneck) = &end.bottleneck {
        fact("bottleneck", bottleneck.clone());
    }
    if let Some((threads, more)) = more_threads(end, besides) {
        fact("to try", format!("--train-threads {more} ({threads} now, {} cores)", besides.cores));
    }
    let largest = end.roles.each().into_iter().max_by_key(|(_, times)| times.peak_rss_bytes);
    if let Some((role, times)) = largest.filter(|(_, times)| times.peak_rss_bytes > 0) {
        fact("peak memory", format!("{} ({role})", ByteSize::from_bytes(times.peak_rss_bytes)));
    }
    if let Some(oversized) = end.oversized.filter(|oversized| *oversized > 0) {
        fact(
            "oversized",
            format!("{} of the batches (--gpu-slots largest fits all)", format::count(oversized)),
        );
    }
    if let Some(cache) = &end.cache {
        caches(cache, &mut fact);
    }
    if let Some(disk) = &end.disk {
        let counts = &disk.counts;
        let [asked, read] = [counts.bytes_asked, counts.bytes_read].map(ByteSize::from_bytes);
        fact(
            "read from disk",
            format!("{asked} of rows, by {} reads of {read}", format::count(counts.reads)),
        );
        let found = [
            ("cached", counts.cached_rows),
            ("kept in memory", counts.kept_rows),
            ("read ahead", counts.ahead_rows),
            ("read when needed", counts.demanded_rows),
        ];
        let all = found.iter().map(|(_, rows)| rows).sum::<u64>().max(1) as f64;
        let share = |(name, rows): &(&str, u64)| {
            (*rows > 0).then(|| format!("{:.1} % {name}", 100.0 * *rows as f64 / all))
        };
        fact("rows", found.iter().filter_map(share).collect::<Vec<_>>().join(", "));
    }
    if let Some(path) = besides.metrics {
        fact("metrics", path.display().to_string());
    }
    if let Some(path) = besides.checkpoint {
        fact("checkpoint", path.display().to_string());
    }
    facts.render()
}

/// The share of its time that each role works, rather than waits.
fn working(roles: &Roles) -> String {
    let shares = roles.each().into_iter().map(|(role, times)| {
        let whole = times.working_s + times.waiting_input_s + times.waiting_output_s;
        let share = if whole > 0.0 { 100.0 * times.working_s / whole } else { 0.0 };
        format!("{role} {share:.0} %")
    });
    shares.collect::<Vec<_>>().join(", ")
}

/// Which model is tested and used for predictions.
fn kept(keep: Keep, end: &End) -> String {
    match (keep, end.best_valid_epoch) {
        (Keep::Best, Some(epoch)) => {
            format!("best by validation, epoch {}", u64::from(epoch) + 1)
        }
        (Keep::Best, None) => "last (no validation)".to_owned(),
        (Keep::Last, _) => "last".to_owned(),
    }
}

/// The number of training threads, and one that may be faster: if the report recommends it and enough cores exist.
fn more_threads(end: &End, besides: &SummaryFacts<'_>) -> Option<(usize, u64)> {
    let threads = besides.train_threads.filter(|threads| *threads < besides.cores)?;
    let held_up = held_up_by(&RoleSum::of_all(&end.roles)).filter(|_| end.batches > 0)?;
    Some((threads, more_train_threads(held_up, threads as u64)?))
}

/// The hit rates of the caches, without the epochs from which the caches were chosen.
fn caches(cache: &CacheOutcome, fact: &mut dyn FnMut(&str, String)) {
    let hit = |what: &str, got: Option<f64>, expected: f64| {
        let expected = format::percent(expected);
        match got {
            Some(got) => format!("{} of {what} hit, {expected} expected", format::percent(got)),
            None => {
                format!("{expected} of {what} expected to hit in epochs that were not counted beforehand")
            }
        }
    };
    fact("cached lists", hit("visits and picks", cache.list_hit_rate, cache.expected_list_hit_rate));
    fact("cached rows", hit("reads", cache.row_hit_rate, cache.expected_row_hit_rate));
    if let Some(counted) = &cache.counted_beforehand {
        let rate =
            |rate: Option<f64>| rate.map_or("–".to_owned(), |rate| format::percent(rate).to_string());
        fact(
            "counted beforehand",
            format!(
                "epochs 1 to {}, by which the caches were chosen: lists {}, rows {}",
                counted.epochs,
                rate(counted.list_hit_rate),
                rate(counted.row_hit_rate)
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use uva_runtime::telemetry::metrics::{CacheCounts, CacheTotals, RoleTimes};

    use super::*;

    fn end() -> End {
        let role = |working_s, waiting_input_s, waiting_output_s| RoleTimes {
            processes: 1,
            working_s,
            waiting_input_s,
            waiting_output_s,
            peak_rss_bytes: 300 << 20,
        };
        End {
            test_accuracy: Some(0.815),
            test_roc_auc: None,
            test_mse: None,
            test_mae: None,
            best_valid_mse: None,
            best_valid_mae: None,
            best_valid_accuracy: None,
            best_valid_roc_auc: None,
            test_epoch: Some(0),
            best_valid_epoch: None,
            stopped_early: true,
            bottleneck: Some("consumer".to_owned()),
            epochs: 3,
            seconds: 10.0,
            batches: 1200,
            training_seconds: 10.0,
            batches_per_second: Some(120.0),
            unpadded: None,
            oversized: None,
            cache: None,
            disk: None,
            aggregate: None,
            memory: Vec::new(),
            roles: Roles {
                sampler: role(2.5, 0.0, 7.5),
                producer: role(1.0, 2.0, 7.0),
                consumer: role(10.0, 0.0, 0.0),
            },
        }
    }

    #[test]
    fn every_role_shows_seconds_and_shares_of_its_time() {
        let text = of_run(&end(), &SummaryFacts { verbose: true, ..SummaryFacts::default() });
        let line = |role: &str| text.lines().find(|l| l.starts_with(role)).unwrap().to_owned();
        assert!(line("sampler").contains("2.50 s  25 %"), "{text}");
        assert!(line("sampler").contains("7.50 s  75 %"), "{text}");
        assert!(line("consumer").contains("10.0 s 100 %"), "{text}");
        assert!(line("producer").contains("300 MiB"), "{text}");
    }

    #[test]
    fn every_process_shows_its_own_memory_and_a_run_without_it_no_table() {
        let verbose = SummaryFacts { verbose: true, ..SummaryFacts::default() };
        assert!(!of_run(&end(), &verbose).contains("mapped files"));
        let process = |process: &str, own: u64| ProcessMemory {
            process: process.to_owned(),
            resident_bytes: (own + 12) << 20,
            own_bytes: own << 20,
            file_bytes: 8 << 20,
            shared_bytes: 4 << 20,
            peak_bytes: 99 << 20,
        };
        let end = End { memory: vec![process("launcher", 3), process("sampler 0", 5)], ..end() };
        let text = of_run(&end, &verbose);
        let line = text.lines().find(|line| line.starts_with("sampler 0")).unwrap();
        let words: Vec<&str> = line.split_whitespace().skip(2).filter(|word| *word != "MiB").collect();
        assert_eq!(words, ["17", "5", "8", "4", "99"], "{text}");
        assert!(text.contains("are there once"), "{text}");
        assert!(!memory(&end.memory[..1]).contains("are there once"));
    }

    #[test]
    fn the_summary_is_one_table_of_at_most_80_columns() {
        let end = End {
            best_valid_accuracy: Some(0.8),
            best_valid_epoch: Some(998),
            oversized: Some(1234),
            ..end()
        };
        let facts = SummaryFacts {
            train_threads: Some(1),
            cores: 128,
            sampled: true,
            keep: Some(Keep::Best),
            ..SummaryFacts::default()
        };
        let text = of_run(&end, &facts);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            text.contains("working                   sampler 25 %, producer 10 %, consumer 100 %\n"),
            "{text}"
        );
        assert!(text.contains("peak memory               300 MiB"), "{text}");
        assert!(!text.contains('─') && !text.trim().contains("\n\n"), "{text}");
    }

    #[test]
    fn results_are_named_and_unknown_ones_omitted() {
        let besides = SummaryFacts { metrics: Some(Path::new("run.jsonl")), ..SummaryFacts::default() };
        let text = of_run(&end(), &besides);
        assert!(text.contains("test accuracy  81.5 %, epoch 1\n"), "{text}");
        assert!(text.contains("3, stopped early"), "{text}");
        assert!(text.contains("run.jsonl"), "{text}");
        assert!(!text.contains("best validation") && !text.contains("checkpoint"), "{text}");
        // Without training there is no speed.
        let idle = End { batches: 0, batches_per_second: None, bottleneck: None, ..end() };
        let text = of_run(&idle, &besides);
        assert!(!text.contains("speed") && !text.contains("bottleneck") && !text.contains("NaN"), "{text}");
    }

    #[test]
    fn the_first_result_says_that_neighbours_were_sampled() {
        let end = End { best_valid_accuracy: Some(0.8), best_valid_epoch: Some(0), ..end() };
        let text = of_run(&end, &SummaryFacts { sampled: true, ..SummaryFacts::default() });
        assert!(text.contains("81.5 % on sampled neighbours, epoch 1\n"), "{text}");
        assert_eq!(text.matches(ON_SAMPLED_NEIGHBOURS).count(), 1, "{text}");
        assert!(!of_run(&end, &SummaryFacts::default()).contains(ON_SAMPLED_NEIGHBOURS));
    }

    #[test]
    fn areas_under_the_curve_are_next_to_the_accuracy() {
        let end = End { test_roc_auc: Some(0.9351), best_valid_roc_auc: Some(0.94), ..end() };
        let text = of_run(&end, &SummaryFacts::default());
        assert!(text.contains("81.5 %") && text.contains("test ROC-AUC             93.5 %"), "{text}");
        assert!(text.contains("best validation ROC-AUC  94.0 %"), "{text}");
    }

    #[test]
    fn caches_show_their_hits_next_to_the_expected_ones() {
        let mut end = end();
        assert!(!of_run(&end, &SummaryFacts::default()).contains("cached"));
        let counts = |list_hits, row_hits| CacheCounts { list_reads: 8, list_hits, rows: 4, row_hits };
        let mut totals = CacheTotals { counted: CacheCounts::default(), others: counts(4, 1) };
        end.cache = Some(CacheOutcome::of(&totals, [0.475, 0.3], 2));
        let text = of_run(&end, &SummaryFacts::default());
        for part in
            ["50.0 % of visits and picks hit, 47.5 % expected", "25.0 % of reads hit, 30.0 % expected"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("beforehand"), "{text}");
        // The epochs that were counted stand apart, and alone where there are no others.
        totals.counted = counts(6, 3);
        end.cache = Some(CacheOutcome::of(&totals, [0.475, 0.3], 2));
        let text = of_run(&end, &SummaryFacts::default());
        assert!(text.contains("25.0 % of reads hit") && text.contains("epochs 1 to 2,"), "{text}");
        assert!(text.contains("lists 75.0 %, rows 75.0 %"), "{text}");
        totals.others = CacheCounts::default();
        end.cache = Some(CacheOutcome::of(&totals, [0.475, 0.3], 2));
        let text = of_run(&end, &SummaryFacts::default());
        assert!(text.contains("30.0 % of reads expected to hit") && text.contains("rows 75.0 %"), "{text}");
    }

    #[test]
    fn more_threads_are_suggested_where_training_is_slow_and_cores_are_left() {
        let with = |train_threads, cores| {
            of_run(&end(), &SummaryFacts { train_threads, cores, ..SummaryFacts::default() })
        };
        assert!(with(Some(1), 2).contains("--train-threads 2 (1 now, 2 cores)"), "{}", with(Some(1), 2));
        for (threads, cores) in [(Some(2), 2), (None, 8)] {
            assert!(!with(threads, cores).contains("--train-threads"), "{threads:?} {cores}");
        }
        let mut other = end();
        other.roles.consumer.working_s = 1.0;
        other.roles.consumer.waiting_input_s = 9.0;
        let besides = SummaryFacts { train_threads: Some(1), cores: 8, ..SummaryFacts::default() };
        assert!(!of_run(&other, &besides).contains("--train-threads"));
    }

    #[test]
    fn a_role_that_never_ran_divides_by_nothing() {
        let mut end = end();
        end.roles.sampler = RoleTimes::default();
        let verbose = SummaryFacts { verbose: true, ..SummaryFacts::default() };
        assert!(of_run(&end, &verbose).contains("0.000 s   0 %"));
        assert!(
            of_run(&end, &SummaryFacts::default()).contains("sampler 0 %, producer 10 %, consumer 100 %")
        );
    }
}
