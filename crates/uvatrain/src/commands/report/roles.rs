//! What the roles did in all, and what follows from that: the sentence that tells what to change.

use super::run::Run;
use super::timeline::ROLES;
use crate::ui::bottleneck::{HeldUpBy, RoleSum, held_up_by, more_train_threads};
use crate::ui::format;

/// The three roles: as the run's end tells them, else what its batches come to.
pub fn sums(run: &Run) -> [RoleSum; 3] {
    if let Some(end) = &run.end {
        return RoleSum::of_all(&end.roles);
    }
    let whole = run.timeline.whole();
    std::array::from_fn(|role| RoleSum {
        processes: if role == 0 { run.timeline.samplers() } else { 1 },
        seconds: whole.spent[role].map(|spent| spent / 1e6),
        peak_memory: None,
    })
}

/// What held the run up and which option changes that, in a sentence or two; options stand between backquotes.
pub fn verdict(run: &Run) -> Option<String> {
    let sums = sums(run);
    let held_up = held_up_by(&sums)?;
    let (HeldUpBy::Role(busiest) | HeldUpBy::None(busiest) | HeldUpBy::Elsewhere(busiest)) = held_up;
    let share = sums[busiest].working();
    let so_far = if run.end.is_some() { "" } else { " as far as this file goes" };
    let worked = format!("which worked {} of the time{so_far}", format::percent(share));
    let number = |name: &str| run.option(name).and_then(serde_json::Value::as_u64);
    let hidden = number("hidden").map_or(String::new(), |hidden| format!(" ({hidden} now)"));
    if matches!(held_up, HeldUpBy::Elsewhere(_)) {
        let elsewhere = match run.command() {
            Some(_) => "what the command does besides its batches",
            None => "its start, and evaluation",
        };
        return Some(format!(
            "Batches lay ready most of the time: the producer waited {} of its time for a place to put \
             the next, and the {}, which worked most, did so for {}. What took the run's time is {elsewhere}; \
             making batches faster would gain nothing.",
            format::percent(sums[1].share(2)),
            ROLES[busiest],
            format::percent(share)
        ));
    }
    if matches!(held_up, HeldUpBy::None(_)) {
        let slots = number("slots").or_else(|| number("feature_slots")).unwrap_or(2);
        return Some(format!(
            "No stage worked all the time; the {} worked most, {}{so_far}. A slot more, `--slots {}` \
             ({slots} now), lets the stages run further ahead of each other.",
            ROLES[busiest],
            format::percent(share),
            slots.saturating_add(1)
        ));
    }
    let device = run.option("device").and_then(|device| device.as_str()).unwrap_or("cpu");
    let on_gpu = device != "cpu";
    let sampler_on_gpu = run.start.in_force["sampler"] == "gpu";
    Some(match ROLES[busiest] {
        "sampler" if sampler_on_gpu => format!(
            "Sampling is the bottleneck: the others wait for the sampler on the GPU, {worked}. A larger \
             `--gpu-cache` keeps more neighbour lists on the GPU, and smaller `--fanouts` are less work."
        ),
        "sampler" => {
            let samplers = run.timeline.samplers();
            format!(
                "Sampling is the bottleneck: the others wait for the sampler{}, {worked}. More of them \
                 help while cores are idle: `--samplers {}` ({samplers} now).",
                if samplers > 1 { "s" } else { "" },
                samplers + 1
            )
        }
        "producer" if on_gpu => format!(
            "Gathering feature rows is the bottleneck: the others wait for the producer, {worked}. {}",
            match run.totals.cache {
                Some(_) => "A larger `--gpu-cache` keeps more of the rows that are read often on the GPU.",
                None => "`--gpu-cache` keeps the rows that are read most on the GPU.",
            }
        ),
        "producer" => {
            let threads = number("gather_threads").unwrap_or(1);
            format!(
                "Gathering feature rows is the bottleneck: the others wait for the producer, {worked}. \
                 More threads help while cores are idle: `--gather-threads {}` ({threads} now).",
                threads.saturating_add(1)
            )
        }
        _ if run.command().is_some() => format!(
            "The command is the bottleneck: batches lie ready for it, {worked}. Options of batches change \
             nothing about that; what makes it faster is in the command itself."
        ),
        _ if on_gpu => format!(
            "Training is the bottleneck: batches lie ready for the consumer, {worked}. Making them faster \
             would gain nothing; a smaller model does, `--hidden`{hidden}."
        ),
        _ => {
            let threads = number("train_threads").unwrap_or(1);
            let more = more_train_threads(held_up, threads).unwrap_or(threads);
            format!(
                "Training is the bottleneck: batches lie ready for the consumer, {worked}. Making them \
                 faster would gain nothing; more threads help while cores are idle, `--train-threads {more}` \
                 ({threads} now), and a smaller model always does, `--hidden`{hidden}."
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;
    use uva_runtime::metrics::{Event, Start};

    use super::*;

    /// A run whose roles worked these seconds of ten.
    fn run(working: [f64; 3], in_force: serde_json::Value) -> Run {
        let start = Start { version: String::new(), dataset: json!({}), options: json!({}), in_force };
        let mut run = Run::new(Path::new("f"), start).unwrap();
        let role = |working: f64| {
            json!({ "processes": 2, "working_s": working, "waiting_input_s": 10.0 - working,
            "waiting_output_s": 0.0, "peak_rss_bytes": 7 })
        };
        let [sampler, producer, consumer] = working.map(role);
        let end = json!({ "event": "end", "stopped_early": false, "bottleneck": "", "epochs": 1,
            "seconds": 10.0, "batches": 1, "batches_per_second": 1.0,
            "roles": { "sampler": sampler, "producer": producer, "consumer": consumer } });
        run.take(serde_json::from_value::<Event>(end).unwrap()).unwrap();
        run
    }

    #[test]
    fn the_verdict_names_the_busiest_role_and_the_option_that_helps_it() {
        let cpu = json!({ "device": "cpu", "samplers": 2, "gather_threads": 3, "train_threads": 1,
            "feature_slots": 2 });
        let gpu = json!({ "device": "cuda:0", "sampler": "gpu" });
        let command = json!({ "device": "cpu", "command": ["python", "x.py"] });
        for (working, in_force, parts) in [
            ([9.5, 1.0, 4.0], &cpu, ["95.0 %", "`--samplers 3` (2 now)"]),
            ([1.0, 8.0, 4.0], &cpu, ["80.0 %", "`--gather-threads 4` (3 now)"]),
            ([1.0, 2.0, 9.9], &cpu, ["99.0 %", "`--train-threads 2` (1 now)"]),
            ([1.0, 4.0, 3.0], &cpu, ["the producer worked most, 40.0 %", "`--slots 3` (2 now)"]),
            ([9.0, 1.0, 2.0], &gpu, ["sampler on the GPU", "`--gpu-cache`"]),
            ([1.0, 9.0, 2.0], &gpu, ["the producer", "`--gpu-cache` keeps"]),
            ([1.0, 2.0, 9.0], &gpu, ["the consumer", "`--hidden`"]),
            ([1.0, 2.0, 9.0], &command, ["The command is", "in the command itself"]),
        ] {
            let verdict = verdict(&run(working, in_force.clone())).unwrap();
            assert!(parts.iter().all(|part| verdict.contains(part)), "{working:?}: {verdict}");
        }
        assert_eq!(verdict(&run([0.0; 3], cpu)), None);
        let mut full = run([1.0, 2.0, 3.0], command);
        let roles = full.end.as_mut().map(|end| &mut end.roles.producer).unwrap();
        (roles.waiting_input_s, roles.waiting_output_s) = (0.0, 8.0);
        let verdict = verdict(&full).unwrap();
        assert!(
            verdict.contains("waited 80.0 %") && verdict.contains("what the command does besides"),
            "{verdict}"
        );
    }
}
