//! The view of a run: the current figures, and their rates of change since earlier ones.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::layout;
use super::scrape::Scrape;
use crate::ui::format;
use crate::ui::table::TextTable;
use uva_runtime::spec::ByteSize;

/// The window over which speeds and shares are computed.
const WINDOW: Duration = Duration::from_secs(10);
/// The roles in the order in which a batch passes through them. A run has samplers and a producer, or workers.
const ROLES: [&str; 4] = ["sampler", "producer", "worker", "consumer"];
const DOINGS: [&str; 3] = ["working", "waiting_input", "waiting_output"];

/// The recent samples of a run.
pub struct History {
    address: String,
    looks: VecDeque<(Instant, Scrape)>,
}

impl History {
    /// An empty history of the run at this address.
    pub fn new(address: String) -> Self {
        Self { address, looks: VecDeque::new() }
    }

    /// Adds a sample. Samples before the window are dropped, except the last of them.
    pub fn take(&mut self, figures: Scrape, at: Instant) {
        let batches = |figures: &Scrape| figures.value("uvatrain_batches_total", &[]);
        if self.looks.back().is_some_and(|(_, before)| batches(before) > batches(&figures)) {
            // Another run now listens on the port.
            self.looks.clear();
        }
        self.looks.push_back((at, figures));
        while self.looks.len() > 2 && at.duration_since(self.looks[1].0) >= WINDOW {
            self.looks.pop_front();
        }
    }

    /// The view as plain text, for a terminal of `columns` columns. Without a width, all parts are stacked.
    pub fn frame(&self, columns: Option<usize>) -> String {
        let Some((_, now)) = self.looks.back() else { return String::new() };
        let parts = [self.head(now, columns), self.roles(now), rings(now), caches(now), memory(now)];
        layout::of(&parts.into_iter().flatten().collect::<Vec<_>>(), columns)
    }

    /// The growth of a counter per second; `None` if unknown.
    fn rate(&self, name: &str) -> Option<f64> {
        let ((then, before), (now, after)) = (self.looks.front()?, self.looks.back()?);
        let seconds = now.duration_since(*then).as_secs_f64();
        let grown = after.value(name, &[])? - before.value(name, &[]).unwrap_or(0.0);
        (seconds > 0.0).then(|| grown / seconds)
    }

    fn head(&self, now: &Scrape, columns: Option<usize>) -> Option<String> {
        // After the longest name and the gap.
        let width = columns.map(|columns| columns.saturating_sub("accuracy".len() + 2));
        let fold = |facts: &mut TextTable, name: &str, parts: &[String]| {
            for (number, line) in layout::folded(parts, width).iter().enumerate() {
                facts.row(&[if number == 0 { name } else { "" }, line]);
            }
        };
        let label = |name| now.label("uvatrain_info", name);
        let mut facts = TextTable::of_facts();
        let run = match (label("dataset"), label("version")) {
            (Some(dataset), Some(version)) => format!("{dataset} at {}, uvatrain {version}", self.address),
            _ => format!("at {}, about to begin", self.address),
        };
        facts.row(&["run", &run]);
        if let Some(place) = place(now) {
            facts.row(&["epoch", &place]);
        }
        let number = |name: &str| now.value(name, &[]);
        let mut learnt = Vec::new();
        learnt.extend(number("uvatrain_batch_loss").map(|loss| format!("{loss:.4} of the last batch")));
        learnt.extend(number("uvatrain_pass_loss").map(|loss| format!("{loss:.4} of this epoch")));
        learnt.extend(number("uvatrain_epoch_loss").map(|loss| format!("{loss:.4} of the last epoch")));
        fold(&mut facts, "loss", &learnt);
        let mut right = Vec::new();
        right.extend(
            number("uvatrain_pass_accuracy").map(|share| format!("{} so far", format::percent(share))),
        );
        right.extend(now.all("uvatrain_validation").map(|(labels, value)| {
            let metric = labels.get("metric").map_or("", String::as_str);
            match metric {
                "mse" | "mae" => format!("validation {} {}", metric.to_uppercase(), format::error(value)),
                _ => {
                    let metric = metric.replace("roc_auc", "ROC-AUC");
                    format!("{} validation {metric}", format::percent(value))
                }
            }
        }));
        fold(&mut facts, "accuracy", &right);
        let batches = number("uvatrain_batches_total").unwrap_or(0.0) as u64;
        let mut speed = Vec::new();
        speed.extend(self.rate("uvatrain_batches_total").map(|rate| format!("{rate:.1} batches/s")));
        speed.extend(
            self.rate("uvatrain_input_nodes_total")
                .map(|rate| format!("{} input nodes/s", format::count(rate as u64))),
        );
        speed.extend(
            self.rate("uvatrain_gathered_bytes_total").map(|rate| format!("{}/s gathered", bytes(rate))),
        );
        if speed.is_empty() {
            facts.row(&["speed"]);
        }
        fold(&mut facts, "speed", &speed);
        let gathered =
            number("uvatrain_gathered_bytes_total").map(|all| format!(", {} gathered", bytes(all)));
        facts.row(&[
            "so far",
            &format!("{} training batches{}", format::count(batches), gathered.unwrap_or_default()),
        ]);
        Some(facts.render())
    }

    /// Each role's recent activity; if nothing was counted recently, its activity since the start of the run.
    fn roles(&self, now: &Scrape) -> Option<String> {
        let before = self.looks.front().map(|(_, figures)| figures).filter(|_| self.looks.len() > 1);
        let mut shares: Vec<(&str, Vec<f64>)> = Vec::new();
        for role in ROLES {
            let seconds = |figures: &Scrape| -> Option<Vec<f64>> {
                let value =
                    |doing| figures.value("uvatrain_role_seconds_total", &[("role", role), ("doing", doing)]);
                DOINGS.into_iter().map(value).collect()
            };
            let Some(all) = seconds(now) else { continue };
            let lately: Vec<f64> = match before.and_then(seconds) {
                Some(before) => all.iter().zip(before).map(|(now, before)| now - before).collect(),
                None => all.clone(),
            };
            let counted = if lately.iter().sum::<f64>() > 0.0 { lately } else { all };
            let whole = counted.iter().sum::<f64>();
            let parts = counted.into_iter().map(|part| if whole > 0.0 { part / whole } else { 0.0 });
            shares.push((role, parts.collect()));
        }
        if shares.is_empty() {
            return None;
        }
        let busiest = shares.iter().map(|(_, parts)| parts[0]).fold(0.0, f64::max);
        let mut table = TextTable::with_heading(&[
            "role",
            "processes",
            "working",
            "waiting for input",
            "waiting for output",
            "",
        ]);
        for (role, parts) in &shares {
            let processes = now.value("uvatrain_role_processes", &[("role", role)]).unwrap_or(1.0);
            let mut row = vec![(*role).to_owned(), processes.to_string()];
            row.extend(parts.iter().map(|share| format!("{:.0} %", 100.0 * share)));
            if busiest > 0.0 && parts[0] == busiest {
                row.push("bottleneck".to_owned());
            }
            table.row(&row);
        }
        Some(table.render())
    }
}

/// Epoch, split and batch.
fn place(now: &Scrape) -> Option<String> {
    let epoch = now.value("uvatrain_epoch", &[])?;
    let of = now.value("uvatrain_epochs", &[]).map_or_else(String::new, |epochs| format!(" of {epochs}"));
    let split = now.label("uvatrain_pass_batch", "split")?;
    let batch = now.value("uvatrain_pass_batch", &[])?;
    let batches = now.value("uvatrain_pass_batches", &[])?;
    Some(format!(
        "{epoch}{of}, {split} batch {} of {}",
        format::count(batch as u64),
        format::count(batches as u64)
    ))
}

fn rings(now: &Scrape) -> Option<String> {
    now.all("uvatrain_slots").next()?;
    let states = ["free", "filling", "ready", "reading"];
    let mut table = TextTable::with_heading(&[&["slots", "all"], &states[..]].concat());
    for ring in ["batch", "feature"] {
        let slots = |state| now.value("uvatrain_slots", &[("ring", ring), ("state", state)]);
        // A run with workers has no ring of batches.
        let Some(each) = states.into_iter().map(slots).collect::<Option<Vec<f64>>>() else { continue };
        let numbers = std::iter::once(each.iter().sum()).chain(each.iter().copied());
        let row: Vec<String> =
            std::iter::once(ring.to_owned()).chain(numbers.map(|slots: f64| slots.to_string())).collect();
        table.row(&row);
    }
    Some(table.render())
}

fn caches(now: &Scrape) -> Option<String> {
    let mut table = TextTable::with_heading(&["cache", "reads", "hits", "hit rate"]);
    for cache in ["lists", "rows"] {
        let value = |name: &str| now.value(name, &[("cache", cache)]);
        let (reads, hits) = (value("uvatrain_cache_reads_total")?, value("uvatrain_cache_hits_total")?);
        let rate = if reads > 0.0 { format::percent(hits / reads).to_string() } else { "–".to_owned() };
        table.row(&[cache.to_owned(), format::count(reads as u64), format::count(hits as u64), rate]);
    }
    Some(table.render())
}

fn memory(now: &Scrape) -> Option<String> {
    let mut table = TextTable::with_heading(&["process", "number", "resident"]);
    let mut processes = now.all("uvatrain_resident_bytes").peekable();
    processes.peek()?;
    for (labels, resident) in processes {
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        table.row(&[label("role"), label("process"), bytes(resident)]);
    }
    Some(table.render())
}

fn bytes(number: f64) -> String {
    ByteSize::from_bytes(number.max(0.0) as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(batches: u32, working: f64, waiting: f64) -> Scrape {
        let mut text = format!(
            "uvatrain_info{{version=\"1\",dataset=\"g\"}} 1\nuvatrain_batches_total {batches}\nuvatrain_input_nodes_total 0\n"
        );
        for role in ROLES {
            let (working, waiting) = if role == "producer" { (working, waiting) } else { (0.0, 1.0) };
            for (doing, seconds) in
                [("working", working), ("waiting_input", waiting), ("waiting_output", 0.0)]
            {
                text +=
                    &format!("uvatrain_role_seconds_total{{role=\"{role}\",doing=\"{doing}\"}} {seconds}\n");
            }
        }
        Scrape::parse(&text).unwrap()
    }

    #[test]
    fn speeds_and_shares_are_those_of_lately() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut history = History::new("here:1".to_owned());
        history.take(figures(0, 100.0, 0.0), at(0));
        assert_eq!(history.rate("uvatrain_batches_total"), None);
        assert!(history.frame(None).contains("100 %"), "{}", history.frame(None));
        history.take(figures(40, 101.0, 3.0), at(4));
        assert_eq!(history.rate("uvatrain_batches_total"), Some(10.0));
        let frame = history.frame(None);
        let producer = frame.lines().find(|line| line.starts_with("producer")).unwrap();
        assert!(
            producer.contains("25 %") && producer.contains("75 %") && producer.ends_with("bottleneck"),
            "{frame}"
        );
        // The counters do not change, so the earlier values are shown.
        for second in 5..40 {
            history.take(figures(40, 101.0, 3.0), at(second));
        }
        assert_eq!(history.rate("uvatrain_batches_total"), Some(0.0));
        assert!(history.looks.len() <= 12, "{}", history.looks.len());
        assert!(history.frame(None).contains("97 %"), "{}", history.frame(None));
    }

    #[test]
    fn another_run_at_the_address_starts_from_the_beginning() {
        let start = Instant::now();
        let mut history = History::new("here:1".to_owned());
        history.take(figures(400, 1.0, 1.0), start);
        history.take(figures(3, 1.0, 1.0), start + Duration::from_secs(1));
        assert_eq!(history.rate("uvatrain_batches_total"), None);
    }

    #[test]
    fn a_run_that_has_not_begun_is_shown_as_such() {
        let mut history = History::new("here:1".to_owned());
        history.take(Scrape::parse("uvatrain_batches_total 0\n").unwrap(), Instant::now());
        assert_eq!(
            history.frame(None),
            "run     at here:1, about to begin\nspeed\nso far  0 training batches\n"
        );
    }

    #[test]
    fn a_wide_terminal_has_tables_side_by_side_and_a_narrow_one_all_figures() {
        let mut history = History::new("here:1".to_owned());
        let mut text =
            String::from("uvatrain_batches_total 40\nuvatrain_batch_loss 0.5\nuvatrain_pass_loss 0.25\n");
        text += "uvatrain_epoch_loss 0.125\n";
        for role in ROLES {
            for doing in DOINGS {
                text += &format!("uvatrain_role_seconds_total{{role=\"{role}\",doing=\"{doing}\"}} 1\n");
            }
        }
        for ring in ["batch", "feature"] {
            for state in ["free", "filling", "ready", "reading"] {
                text += &format!("uvatrain_slots{{ring=\"{ring}\",state=\"{state}\"}} 1\n");
            }
        }
        history.take(Scrape::parse(&text).unwrap(), Instant::now());
        let has = |frame: &str, parts: &[&str]| {
            frame.lines().any(|line| parts.iter().all(|part| line.contains(part)))
        };
        let wide = history.frame(Some(160));
        assert!(has(&wide, &["waiting for output", "slots"]) && has(&wide, &["0.5000", "0.1250"]), "{wide}");
        let narrow = history.frame(Some(50));
        assert!(!has(&narrow, &["waiting for output", "slots"]), "{narrow}");
        for figure in ["0.5000 of the last batch", "0.2500 of this epoch", "0.1250 of the last epoch"] {
            let line = narrow.lines().find(|line| line.contains(figure)).unwrap();
            assert!(line.chars().count() <= 50, "{narrow}");
        }
    }
}
