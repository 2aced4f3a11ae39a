//! The page around the runs: a self-contained file.

use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};
use uva_runtime::spec::ByteSize;

use super::curves::Scale;
use super::run::Run;
use super::{chart, view};
use crate::ui::format;

/// The page's contents and wording.
const TEMPLATE: &str = include_str!("page.html");
/// Colours, sizes, and the variants for phones, dark mode and paper.
const STYLE: &str = include_str!("style.css");
/// Shows the tooltip under the pointer. The template names its hash, so no other script runs, even if names in a file
/// inject markup into the page.
const SCRIPT: &str = include_str!("point.js");

/// The report on these runs.
///
/// # Errors
/// If a picture cannot be drawn.
pub fn of(runs: &[Run]) -> anyhow::Result<String> {
    let named: Vec<(String, &Run)> = names(runs).into_iter().zip(runs).collect();
    let scale = Scale::of(runs.len());
    let runs = named.iter().enumerate().map(|(number, named)| view::of(named, number, scale));
    let page = environment().render_named_str(
        "page.html",
        TEMPLATE,
        context! {
            runs => runs.collect::<anyhow::Result<Vec<_>>>()?,
            compared => if named.len() > 1 { view::of_all(&named, scale)? } else { Value::from(()) },
            palette => Value::from(Serde(chart::PALETTE.map(|(name, colour)| (name, chart::hex(colour))))),
            style => Value::from_safe_string(STYLE.to_owned()),
            script => Value::from_safe_string(SCRIPT.to_owned()),
            version => env!("CARGO_PKG_VERSION"),
        },
    );
    Ok(page?)
}

/// Short, distinct names of runs: the stems of their files, or the paths where two stems are the same.
fn names(runs: &[Run]) -> Vec<String> {
    let stem = |run: &Run| {
        Path::new(&run.path).file_stem().map_or(run.path.clone(), |stem| stem.to_string_lossy().into())
    };
    let stems: Vec<String> = runs.iter().map(stem).collect();
    let name = |(run, stem): (&Run, &String)| match stems.iter().filter(|other| *other == stem).count() {
        1 => short(stem, 60),
        _ => short(&run.path, 60),
    };
    runs.iter().zip(&stems).map(name).collect()
}

/// A formatter of a number.
type Written = fn(f64) -> String;

/// The template's filters. A filter writes a dash for a value of the wrong type, since files can hold any value.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the delimiters are the usual ones"));
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(|out, _, value| {
        let text = if value.is_safe() { value.to_string() } else { escape(&word(value)) };
        Ok(out.write_str(&text)?)
    });
    let dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let filters: [(&str, Written); 4] = [
        ("seconds", format::seconds),
        ("percent", |share| format::percent(share).to_string().replace(' ', "\u{a0}")),
        ("whole_percent", |share| format!("{:.0} %", 100.0 * share)),
        ("bytes", |bytes| ByteSize::from_bytes(bytes as u64).to_string()),
    ];
    for (name, write) in filters {
        environment.add_filter(name, move |value: Value| dash(f64::try_from(value).ok().map(write)));
    }
    environment.add_filter("count", move |value: Value| dash(u64::try_from(value).ok().map(format::count)));
    environment.add_filter("fixed", move |value: Value, digits: usize| {
        dash(f64::try_from(value).ok().map(|number| format!("{number:.digits$}")))
    });
    environment.add_filter("short", |value: Value, most: usize| short(&word(&value), most));
    environment
}

/// A value as it is typed on the command line.
fn word(value: &Value) -> String {
    match value.kind() {
        ValueKind::None => "–".to_owned(),
        ValueKind::String => value.to_string(),
        ValueKind::Seq => {
            let words = value.try_iter().into_iter().flatten().map(|part| word(&part));
            words.collect::<Vec<_>>().join(",")
        }
        _ => serde_json::to_string(value).unwrap_or_default(),
    }
}

/// The beginning of a text, limited in length.
fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Escapes text for use between tags and within quotes, also in well-formed XML. Characters that XML forbids become a
/// replacement character.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\n' | '\t' => escaped.push(character),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ => escaped.push(if character.is_control() { '\u{fffd}' } else { character }),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uva_runtime::telemetry::metrics::{Event, Start};

    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        let hostile = "<script>'&\"\u{0}\u{1b}\u{ffff}";
        assert_eq!(escape(hostile), "&lt;script&gt;&#39;&amp;&quot;\u{fffd}\u{fffd}\u{fffd}");
        let page =
            environment().render_named_str("a.html", "{{ a }} {{ a|short(3) }}", context! { a => hostile });
        assert_eq!(page.unwrap(), format!("{} &lt;sc…", escape(hostile)));
        assert_eq!((short("größer", 4), short("größer", 6)), ("größ…".into(), "größer".into()));
    }

    #[test]
    fn a_value_that_a_filter_cannot_write_is_a_dash() {
        let template = "{{ a|count }} {{ a|seconds }} {{ a|percent }} {{ a|whole_percent }} {{ a|bytes }} {{ a|fixed(2) }}";
        let written = |a: serde_json::Value| {
            environment()
                .render_named_str("a.html", template, context! { a => Value::from(Serde(a)) })
                .unwrap()
        };
        for unknown in [json!(null), json!("7x"), json!([1]), json!({ "b": 2 })] {
            assert_eq!(written(unknown), "– – – – – –");
        }
        assert_eq!(written(json!(2)), "2 2.00 s 200.0\u{a0}% 200 % 2 B 2.00");
        assert_eq!(word(&Value::from(Serde(json!([1, [2.5, "a"], true])))), "1,2.5,a,true");
    }

    #[test]
    fn every_colour_of_a_picture_is_another_in_the_dark() {
        for (name, _) in chart::PALETTE {
            let times = STYLE.matches(&format!("--{name}: ")).count();
            assert!(
                times == 3 || name == "mark",
                "--{name} is defined {times} times: expected light, dark and print"
            );
        }
    }

    /// The sentence on a run whose roles worked these numbers of seconds out of ten.
    fn verdict(working: [f64; 3], waiting_output: f64, in_force: serde_json::Value) -> Option<String> {
        let start = Start { version: String::new(), dataset: json!({}), options: json!({}), in_force };
        let mut run = Run::new(Path::new("f"), start).unwrap();
        let role = |working: f64, output: f64| {
            json!({ "processes": 2, "working_s": working, "waiting_input_s": 10.0 - working - output,
                "waiting_output_s": output, "peak_rss_bytes": 7 })
        };
        let [sampler, producer, consumer] = working;
        let mut roles = json!({ "sampler": role(sampler, 0.0), "producer": role(producer, waiting_output),
            "consumer": role(consumer, 0.0) });
        if run.start.in_force["prepare"] == "whole" {
            roles["sampler"] = role(sampler, waiting_output);
            roles["producer"]["processes"] = json!(0);
        }
        let end = json!({ "event": "end", "stopped_early": false, "bottleneck": "", "epochs": 1, "seconds": 10.0,
            "batches": 1, "batches_per_second": 1.0, "roles": roles });
        run.take(serde_json::from_value::<Event>(end).unwrap()).unwrap();
        let page = of(&[run]).unwrap().replace('\u{a0}', " ");
        Some(page.split_once("<p class=\"verdict\">")?.1.split_once("</p>")?.0.to_owned())
    }

    #[test]
    fn the_verdict_names_the_busiest_role_and_the_option_that_helps_it() {
        let cpu = json!({ "device": "cpu", "samplers": 2, "gather_threads": 3, "train_threads": 1,
            "feature_slots": 2 });
        let gpu = json!({ "device": "cuda:0", "sampler": "gpu" });
        let command = json!({ "device": "cpu", "command": ["python", "x.py"] });
        let workers = json!({ "device": "cpu", "samplers": 2, "prepare": "whole", "feature_slots": 2 });
        for (working, output, in_force, parts) in [
            ([9.5, 1.0, 4.0], 0.0, &cpu, ["95.0 %", "<code>--samplers 3</code> (2 now)"]),
            ([1.0, 8.0, 4.0], 0.0, &cpu, ["80.0 %", "<code>--gather-threads 4</code> (3 now)"]),
            ([1.0, 2.0, 9.9], 0.0, &cpu, ["99.0 %", "<code>--train-threads 2</code> (1 now)"]),
            (
                [1.0, 4.0, 3.0],
                0.0,
                &cpu,
                ["the producer worked most, 40.0 %", "<code>--slots 3</code> (2 now)"],
            ),
            ([9.0, 1.0, 2.0], 0.0, &gpu, ["sampler on the GPU", "<code>--gpu-cache</code>"]),
            ([1.0, 9.0, 2.0], 0.0, &gpu, ["the producer", "<code>--gpu-cache</code> keeps"]),
            ([1.0, 2.0, 9.0], 0.0, &gpu, ["the consumer", "<code>--hidden</code>"]),
            ([1.0, 2.0, 9.0], 0.0, &command, ["The command is", "in the command itself"]),
            ([1.0, 2.0, 3.0], 8.0, &command, ["waited 80.0 %", "the work of the command outside"]),
            ([1.0, 2.0, 3.0], 8.0, &cpu, ["waited 80.0 %", "its start, and evaluation"]),
            ([9.5, 0.0, 4.0], 0.0, &workers, ["waits for the workers", "<code>--samplers 3</code> (2 now)"]),
            ([1.0, 0.0, 1.5], 8.0, &workers, ["the workers waited 80.0 %", "its start, and evaluation"]),
            ([4.0, 0.0, 3.0], 0.0, &workers, ["the worker worked most", "<code>--slots 3</code> (2 now)"]),
        ] {
            let verdict = verdict(working, output, in_force.clone()).unwrap();
            assert!(parts.iter().all(|part| verdict.contains(part)), "{working:?}: {verdict}");
        }
        let idle = json!({ "device": "cpu" });
        assert!(verdict([0.0; 3], 0.0, idle).is_none());
    }
}
