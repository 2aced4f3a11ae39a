//! The end of a run: what came out, where the time went, where the metrics are.

use std::path::Path;

use uva_runtime::memory::ProcessMemory;
use uva_runtime::metrics::{End, Roles};

use super::format;
use super::table::Table;
use crate::flags::ByteSize;

/// The summary of a run as text, ready to be printed on stderr.
///
/// `metrics` and `checkpoint` are the files that `--metrics` and `--checkpoint` asked for, if they did.
pub fn of_run(end: &End, metrics: Option<&Path>, checkpoint: Option<&Path>) -> String {
    let mut text = String::from("\n");
    text += &roles(&end.roles);
    text.push('\n');
    if !end.memory.is_empty() {
        text += &memory(&end.memory);
        text.push('\n');
    }
    text += &facts(end, metrics, checkpoint);
    text
}

/// One row per role: its processes, the three ways its time went, its memory.
pub fn roles(roles: &Roles) -> String {
    let mut table = Table::with_heading(&[
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

/// One row per process: what it had of memory as its work ended. Only of what is its own there is as much as the rows
/// come to.
pub fn memory(processes: &[ProcessMemory]) -> String {
    let mut table =
        Table::with_heading(&["process", "resident", "its own", "mapped files", "shared memory", "peak"]);
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

fn facts(end: &End, metrics: Option<&Path>, checkpoint: Option<&Path>) -> String {
    let mut facts = Table::of_facts();
    let mut fact = |name: &str, value: String| facts.row(&[name.to_owned(), value]);
    if let Some(accuracy) = end.test_accuracy {
        fact("test accuracy", format::percent(accuracy).to_string());
    }
    if let Some(area) = end.test_roc_auc {
        fact("test ROC-AUC", format::percent(area).to_string());
    }
    if let Some(area) = end.best_valid_roc_auc {
        fact("best validation ROC-AUC", format::percent(area).to_string());
    }
    if let Some(accuracy) = end.best_valid_accuracy {
        fact("best validation accuracy", format::percent(accuracy).to_string());
    }
    let epochs = format!("{}{}", end.epochs, if end.stopped_early { ", stopped early" } else { "" });
    fact("epochs", epochs);
    fact("time", format::seconds(end.seconds));
    fact(
        "speed",
        format!("{:.1} batches/s over {} batches", end.batches_per_second, format::count(end.batches)),
    );
    fact("bottleneck", format!("the {}: the others wait for it", end.bottleneck));
    if let Some(cache) = &end.cache {
        let hit = |got: f64, expected: f64| {
            format!("{} hit, {} expected", format::percent(got), format::percent(expected))
        };
        fact("cached lists", hit(cache.list_hit_rate, cache.expected_list_hit_rate));
        fact("cached rows", hit(cache.row_hit_rate, cache.expected_row_hit_rate));
    }
    if let Some(path) = metrics {
        fact("metrics", path.display().to_string());
    }
    if let Some(path) = checkpoint {
        fact("checkpoint", path.display().to_string());
    }
    facts.render()
}

#[cfg(test)]
mod tests {
    use uva_runtime::metrics::{CacheCounts, CacheOutcome, RoleTimes};

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
            best_valid_accuracy: None,
            best_valid_roc_auc: None,
            stopped_early: true,
            bottleneck: "consumer".to_owned(),
            epochs: 3,
            seconds: 10.0,
            batches: 1200,
            batches_per_second: 120.0,
            cache: None,
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
        let text = of_run(&end(), None, None);
        let line = |role: &str| text.lines().find(|l| l.starts_with(role)).unwrap().to_owned();
        assert!(line("sampler").contains("2.50 s  25 %"), "{text}");
        assert!(line("sampler").contains("7.50 s  75 %"), "{text}");
        assert!(line("consumer").contains("10.0 s 100 %"), "{text}");
        assert!(line("producer").contains("300 MiB"), "{text}");
    }

    #[test]
    fn every_process_shows_what_of_its_memory_is_its_own_and_a_run_that_tells_none_has_no_such_table() {
        assert!(!of_run(&end(), None, None).contains("mapped files"));
        let process = |process: &str, own: u64| ProcessMemory {
            process: process.to_owned(),
            resident_bytes: (own + 12) << 20,
            own_bytes: own << 20,
            file_bytes: 8 << 20,
            shared_bytes: 4 << 20,
            peak_bytes: 99 << 20,
        };
        let end = End { memory: vec![process("launcher", 3), process("sampler 0", 5)], ..end() };
        let text = of_run(&end, None, None);
        let line = text.lines().find(|line| line.starts_with("sampler 0")).unwrap();
        let words: Vec<&str> = line.split_whitespace().skip(2).filter(|word| *word != "MiB").collect();
        assert_eq!(words, ["17", "5", "8", "4", "99"], "{text}");
        assert!(text.contains("are there once"), "{text}");
        assert!(!memory(&end.memory[..1]).contains("are there once"));
    }

    #[test]
    fn results_are_named_and_unknown_ones_left_out() {
        let text = of_run(&end(), Some(Path::new("run.jsonl")), None);
        assert!(text.contains("test accuracy  81.5 %"), "{text}");
        assert!(text.contains("3, stopped early"), "{text}");
        assert!(text.contains("run.jsonl"), "{text}");
        assert!(!text.contains("validation") && !text.contains("checkpoint"), "{text}");
    }

    #[test]
    fn areas_under_the_curve_stand_beside_the_accuracy() {
        let end = End { test_roc_auc: Some(0.9351), best_valid_roc_auc: Some(0.94), ..end() };
        let text = of_run(&end, None, None);
        assert!(text.contains("81.5 %") && text.contains("test ROC-AUC             93.5 %"), "{text}");
        assert!(text.contains("best validation ROC-AUC  94.0 %"), "{text}");
    }

    #[test]
    fn caches_show_what_they_hit_beside_what_was_expected() {
        let mut end = end();
        assert!(!of_run(&end, None, None).contains("cached"));
        end.cache = Some(CacheOutcome {
            counts: CacheCounts { list_reads: 8, list_hits: 4, rows: 4, row_hits: 1 },
            list_hit_rate: 0.5,
            row_hit_rate: 0.25,
            expected_list_hit_rate: 0.475,
            expected_row_hit_rate: 0.3,
        });
        let text = of_run(&end, None, None);
        assert!(
            text.contains("50.0 % hit, 47.5 % expected") && text.contains("25.0 % hit, 30.0 % expected"),
            "{text}"
        );
    }

    #[test]
    fn a_role_that_never_ran_divides_by_nothing() {
        let mut end = end();
        end.roles.sampler = RoleTimes::default();
        assert!(of_run(&end, None, None).contains("0.000 s   0 %"));
    }
}
