//! `uvatrain report`: pages made from metrics of real runs and from handmade files. The real binary, and a strict
//! parser for the pages.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::runs::{Metrics, small_graph, train};
use crate::support::{Outcome, command, directory, uvatrain, uvatrain_behind};
use serde_json::{Value, json};

/// The page on these runs, checked as every page is.
#[track_caller]
fn page(directory: &Path, runs: &[&str]) -> String {
    let args = [&["report"], runs, &["--out", "report.html"]].concat();
    let outcome = uvatrain(directory, args).run().succeeds();
    assert!(outcome.stdout.is_empty(), "{outcome}");
    assert!(outcome.stderr.starts_with("report.html: ") && outcome.stderr.lines().count() == 1, "{outcome}");
    let page = fs::read_to_string(directory.join("report.html")).unwrap();
    check(&page);
    page
}

/// What holds for every page: well-formed, small, with a name for every picture, and nothing from elsewhere.
#[track_caller]
fn check(page: &str) {
    let elements = elements(page);
    for name in ["iframe", "img", "link", "object", "embed", "base", "form"] {
        assert!(!elements.iter().any(|element| element.name == name), "the page has a <{name}>");
    }
    let ids: Vec<&str> = elements.iter().filter_map(|element| element.attribute("id")).collect();
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "an id is there twice: {ids:?}");
    for element in &elements {
        for (name, value) in &element.attributes {
            assert!(!name.starts_with("on"), "{element:?}");
            assert!(!value.contains("://") && !value.contains("javascript:"), "{element:?}");
            match name.as_str() {
                "href" => assert!(ids.contains(&value.trim_start_matches('#')), "{element:?}"),
                "aria-labelledby" => assert!(value.split(' ').all(|id| ids.contains(&id)), "{element:?}"),
                "src" | "xlink:href" | "style" | "data" | "action" => panic!("{element:?}"),
                _ => {}
            }
            // A value that is not a number must not become a coordinate in a picture.
            assert!(!value.contains("NaN") && !value.contains("inf"), "{element:?}");
        }
        if element.name == "svg" {
            let told = element.attribute("aria-hidden") == Some("true")
                || element.attribute("role") == Some("img") && element.attribute("aria-labelledby").is_some();
            assert!(told, "{element:?}");
        }
    }
    check_script(page, &elements);
    check_legends(page);
    let style = page.split("<style>").nth(1).and_then(|rest| rest.split("</style>").next()).unwrap();
    assert!(!style.contains("url(") && !style.contains("@import"), "the style fetches something");
    assert!(style.contains("prefers-color-scheme: dark") && style.contains("@media print"));
    assert!(page.contains("default-src 'none'") && page.contains("width=device-width"));
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

/// The only script is the program's own, and the policy allows no other: it contains the script's hash.
#[track_caller]
fn check_script(page: &str, elements: &[Element]) {
    let scripts: Vec<_> = elements.iter().filter(|element| element.name == "script").collect();
    assert!(scripts.len() == 1 && scripts[0].attributes.is_empty(), "{scripts:?}");
    let script = page.split("<script>").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
    assert!(
        script == include_str!("../../../crates/uvatrain/src/commands/training/report/point.js"),
        "{script}"
    );
    let hash = sha256(script);
    let allowed: Vec<&str> =
        page.split("script-src ").skip(1).map(|rest| rest.split(';').next().unwrap()).collect();
    assert_eq!(allowed, [format!("'sha256-{hash}'")], "page.html names the hash of point.js");
}

/// As policies write it, in base64.
fn sha256(text: &str) -> String {
    let mut child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let told = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    // 256 bits and two of nothing: 43 characters of six bits.
    let bits: String =
        told[..64].chars().map(|digit| format!("{:04b}", digit.to_digit(16).unwrap())).collect();
    let characters: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
    let six = |at: usize| usize::from_str_radix(&format!("{bits}00")[at..at + 6], 2).unwrap();
    (0..43).map(|place| characters[six(6 * place)]).chain(['=']).collect()
}

/// Every shape of a picture except its axes is in the legend above it.
#[track_caller]
fn check_legends(page: &str) {
    for figure in page.split("<figure>").skip(1) {
        let figure = figure.split("</figure>").next().unwrap();
        let (legend, plot) = figure.split_once("<div class=\"plot\">").unwrap();
        let known = colours(legend);
        for colour in colours(plot).iter().filter(|colour| **colour != RULE) {
            assert!(known.contains(colour), "{colour} is not in the legend: {legend}");
        }
        assert_eq!(legend.matches("<li>").count(), legend.matches("</svg>").count(), "{legend}");
    }
}

/// Grid lines and axes.
const RULE: &str = "#DDE2E8";

/// The colours of shapes in the light theme.
fn colours(html: &str) -> BTreeSet<&str> {
    let shapes = html.split('<').filter(|part| !part.starts_with("text"));
    let values = shapes.flat_map(|shape| shape.split('"').skip(1).step_by(2));
    values.filter(|value| value.starts_with('#') && value.len() == 7).collect()
}

#[derive(Debug)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// The elements of a page that is well-formed XML after its first line; panics for any other page.
#[track_caller]
fn elements(page: &str) -> Vec<Element> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>\n").expect("its first line");
    let (mut open, mut found): (Vec<String>, Vec<Element>) = (Vec::new(), Vec::new());
    loop {
        let (text, tag) = rest.split_once('<').unwrap_or((rest, ""));
        match open.last().map(String::as_str) {
            Some("style" | "script") => assert!(!text.contains('&'), "no text of a style sheet or a script"),
            _ => check_text(text),
        }
        if tag.is_empty() {
            assert!(text.trim().is_empty(), "text after the end: {text}");
            break;
        }
        let (tag, behind) = tag.split_once('>').expect("a tag ends");
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "another element is open");
            continue;
        }
        let (tag, alone) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, mut listed) = tag.split_once([' ', '\n']).unwrap_or((tag, ""));
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()), "<{tag}>");
        let mut attributes: Vec<(String, String)> = Vec::new();
        while !listed.trim().is_empty() {
            let (attribute, value) = listed.trim_start().split_once("=\"").expect("an attribute with quotes");
            assert!(attribute.chars().all(|c| c.is_ascii_alphabetic() || "-:12xy".contains(c)), "<{tag}>");
            let (value, behind) = value.split_once('"').expect("a quote ends");
            check_text(value);
            assert!(
                attributes.iter().all(|(other, _)| other != attribute),
                "{attribute} is there twice: <{tag}>"
            );
            attributes.push((attribute.to_owned(), value.to_owned()));
            listed = behind;
        }
        found.push(Element { name: name.to_owned(), attributes });
        if !alone {
            assert!(!open.is_empty() || found.len() == 1, "a second root: <{tag}>");
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    found
}

#[track_caller]
fn check_text(text: &str) {
    assert!(!text.contains('>') && !text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    for entity in text.split('&').skip(1) {
        let name = entity.split_once(';').map(|(name, _)| name);
        assert!(matches!(name, Some("amp" | "lt" | "gt" | "quot" | "#39")), "&{entity}");
    }
}

/// What one reads of a page: its text without the tags.
fn text(page: &str) -> String {
    let body = page.split("<body>").nth(1).and_then(|body| body.split("<script>").next()).unwrap();
    let texts = body.split('<').filter_map(|part| part.split_once('>').map(|(_, text)| text));
    let text = texts.collect::<Vec<_>>().join(" ");
    let spelled =
        [("\u{a0}", " "), ("\n", " "), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    spelled.into_iter().fold(text, |text, (from, to)| text.replace(from, to))
}

#[track_caller]
fn shows(page: &str, parts: &[&str]) {
    let text = text(page);
    for part in parts {
        assert!(text.contains(part), "{part:?} is not on the page:\n{text}");
    }
}

#[track_caller]
fn refuses(directory: &Path, args: &[&str], message: &[&str]) -> Outcome {
    let out = directory.join("report.html");
    let before = fs::read(&out).ok();
    let outcome = uvatrain(directory, [&["report"], args].concat()).run().refuses(2, message);
    assert_eq!(fs::read(&out).ok(), before, "something was written\n{outcome}");
    outcome
}

fn start() -> Value {
    json!({ "event": "start", "version": "0.1.0",
        "dataset": { "name": "g", "nodes": 10, "edges": 20, "feature_dim": 8, "feature_dtype": "f32",
            "classes": 2, "train": 5, "valid": 0, "test": 0, "fingerprint": "0" },
        "options": { "model": "sage", "hidden": 16, "epochs": 2,
            "loader": { "fanouts": [5, 5], "batch_size": 2 } },
        "in_force": { "device": "cpu", "samplers": 1, "gather_threads": 1, "train_threads": 1,
            "train_batches": 100, "start": { "epoch": 0, "batch": 0 } } })
}

/// A batch a millisecond, the consumer at work all the time.
fn batch(number: u64) -> Value {
    let at = 1_000_000 + 1000 * number;
    json!({ "event": "batch", "epoch": number / 100, "batch": number % 100, "hash": "00", "seeds": 2,
        "input_nodes": 900 + number % 50, "edges": [10 + number % 3, 40 + number % 20],
        "loss": 2.0 / (1.0 + number as f64 / 1000.0), "sampler": 0, "sample_at_us": at, "sample_us": 200,
        "gather_at_us": at + 200, "gather_us": 100, "train_at_us": at + 1000, "train_us": 1000 })
}

fn write_lines(path: &Path, lines: &[Value]) {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(path, lines).unwrap();
}

#[test]
fn a_runs_page_has_the_figures_of_its_metrics() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "run.jsonl", "--epochs 3 --samplers 2 --gpu-cache 64KiB").run().succeeds();
    let page = page(temp.path(), &["run.jsonl"]);
    let metrics = Metrics::read(&temp.path().join("run.jsonl"));
    let end = metrics.of("end").next().unwrap();
    let percent = |value: &Value| format!("{:.1} %", 100.0 * value.as_f64().unwrap());
    let batches = metrics.of("batch").count();
    let loss = metrics.of("epoch").last().unwrap()["train_loss"].as_f64().unwrap();
    let largest = metrics.of("batch").map(|batch| batch["input_nodes"].as_u64().unwrap()).max().unwrap();
    let rows: u64 = metrics.of("batch").map(|batch| batch["input_nodes"].as_u64().unwrap()).sum();
    let counted = |number: u64| match number {
        0..1000 => number.to_string(),
        1000..1_000_000 => format!("{},{:03}", number / 1000, number % 1000),
        _ => panic!("{number}"),
    };
    shows(
        &page,
        &[
            "Run on graph",
            "sage · fanouts 5,4 · batches of 100 · on cpu",
            "graph: 4,000 nodes",
            &percent(&end["test_accuracy"]),
            &percent(&end["best_valid_accuracy"]),
            &format!("{:.1} batches/s", end["batches_per_second"].as_f64().unwrap()).replace(" b", "  b"),
            &format!("{loss:.4}"),
            &format!("{batches} batches"),
            &counted(largest),
            &counted(rows),
            &percent(&end["cache"]["row_hit_rate"]),
            "samplers 2",
            "64 KiB by presample",
        ],
    );
    // The sentence names the bottleneck that the run named.
    let named =
        ["sampler", "producer", "consumer"].into_iter().find(|role| end["bottleneck"] == *role).unwrap();
    let verdict = page.split("<p class=\"verdict\">").nth(1).unwrap().split("</p>").next().unwrap();
    // In a run as short as this one starting may take most of the time, and no option changes that.
    let advice = verdict.contains("<code>--") || verdict.contains("would gain nothing");
    assert!(verdict.contains(named) && advice, "{verdict}");
    // The first screen of a phone has the advice and the shares of all roles, and facts come last.
    let place = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part} is missing"));
    let order =
        ["class=\"verdict\"", "class=\"shares\"", "class=\"tiles\"", "<h3>Where the", "class=\"facts\""];
    assert!(order.map(place).is_sorted(), "{:?}", order.map(place));
    // Each role's share of its time is that of the end, in the first table and in that below the picture.
    for (role, times) in end["roles"].as_object().unwrap() {
        let seconds = |name: &str| times[name].as_f64().unwrap();
        let whole = seconds("working_s") + seconds("waiting_input_s") + seconds("waiting_output_s");
        let rows: Vec<_> = page.split(&format!("<tr><th scope=\"row\">{role}")).skip(1).take(2).collect();
        let share = format!("<b>{:.0} %</b>", 100.0 * seconds("working_s") / whole);
        for row in &rows {
            let row = row.split("</tr>").next().unwrap();
            assert!(row.contains(&share), "{share} in {row}");
        }
        assert_eq!(rows.len(), 2);
    }
    // The same holds for the memory of each process: launcher, janitor, two samplers, producer, consumer.
    let memory =
        page.split("<caption>Memory of each process").nth(1).unwrap().split("</table>").next().unwrap();
    let processes = end["memory"].as_array().unwrap();
    assert_eq!(processes.len(), 6);
    for process in processes {
        let row =
            memory.split(&format!("<th scope=\"row\">{}</th>", process["process"].as_str().unwrap())).nth(1);
        let row = row.unwrap().split("</tr>").next().unwrap();
        // A whole number of MiB has no decimal; one that rounds to it does.
        let peak = process["peak_bytes"].as_u64().unwrap();
        let peak = match peak % 1048576 {
            0 => (peak / 1048576).to_string(),
            _ => format!("{:.1}", peak as f64 / 1048576.0),
        };
        assert!(row.matches("<td>").count() == 5 && row.contains(&format!("<td>{peak} MiB</td>")), "{row}");
    }
    // The speed has a figure where a stretch of the run was mostly training, which a busy machine decides.
    for title in ["What each stage did", "Loss of batches", "Accuracy by epoch", "Hit rate"] {
        assert!(page.contains(&format!("-t\">{title}")), "{title}");
    }
    assert!(page.matches("-t\">Edges a batch").count() == 2, "one for each layer");
    // The same file gives the same page, and the umask determines who may read it.
    let again = self::page(temp.path(), &["run.jsonl"]);
    assert!(page == again, "another page of the same file");
    let plain = temp.path().join("plain");
    fs::write(&plain, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&temp.path().join("report.html")), mode(&plain));
}

#[test]
fn several_runs_are_compared_before_each_is_shown() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "wide.jsonl", "--epochs 2").run().succeeds();
    train(temp.path(), "slow.jsonl", "--epochs 3 --lr 0.0001").run().succeeds();
    fs::create_dir(temp.path().join("other")).unwrap();
    fs::copy(temp.path().join("slow.jsonl"), temp.path().join("other/slow.jsonl")).unwrap();
    let page = page(temp.path(), &["wide.jsonl", "slow.jsonl", "other/slow.jsonl"]);
    // Runs with the same file name are distinguished by their folders.
    shows(&page, &["3 runs compared", "wide, slow.jsonl, other/slow.jsonl", "Options in which they differ"]);
    let table = page.split("<caption>Options in which").nth(1).unwrap().split("</table>").next().unwrap();
    let row = |name: &str, values: [&str; 3]| {
        let cells: String = values.iter().map(|value| format!("<td>{value}</td>")).collect();
        format!("<tr><th scope=\"row\">{name}</th>{cells}</tr>")
    };
    assert!(table.contains(&row("epochs", ["2", "3", "3"])), "{table}");
    assert!(table.contains(&row("lr", ["0.003", "0.0001", "0.0001"])), "{table}");
    assert_eq!(table.matches("<tr>").count(), 3, "the heading and two options: {table}");
    let loss = page.find("id=\"all-loss-t\"").unwrap();
    assert!(loss < page.find("<section id=\"run1\"").unwrap(), "compared first");
    let picture = &page[loss..loss + page[loss..].find("</figure>").unwrap()];
    let lines = picture.split('<').filter(|part| part.starts_with("polyline") && !part.contains(RULE));
    assert_eq!(lines.count(), 3, "a line for each run");
    assert_eq!(
        (picture.matches("<li>").count(), colours(picture).len()),
        (3, 4),
        "three colours and the axes'"
    );
}

#[test]
fn runs_of_regression_show_their_errors_in_place_of_accuracies() {
    let temp = directory();
    let epoch = |epoch: u64, mse: f64| {
        json!({ "event": "epoch", "epoch": epoch, "train_loss": 2.5, "regression": true, "valid_mse": mse,
            "valid_mae": mse / 2.0, "seconds": 0.5 })
    };
    let lines = [vec![start()], (0..200).map(batch).collect(), vec![epoch(0, 4.5), epoch(1, 3.25)]].concat();
    write_lines(&temp.path().join("run.jsonl"), &lines);
    let one = page(temp.path(), &["run.jsonl"]);
    shows(&one, &["Validation MSE by epoch", "validation MSE: 3.250 in the last epoch", "4.5000", "1.6250"]);
    assert!(!one.contains("ccuracy"), "there is none");
    assert!(one.contains("-t\">Batches a second"), "the consumer worked all the time");
    let two = page(temp.path(), &["run.jsonl", "run.jsonl"]);
    let picture = two.split("id=\"all-validation-t\"").nth(1).unwrap().split("</figure>").next().unwrap();
    assert!(picture.contains("Validation MSE by epoch") && picture.matches("<li>").count() == 2, "{picture}");
}

#[test]
fn names_from_a_file_are_shown_as_plain_text() {
    let temp = directory();
    let hostile = "<script>alert('x')</script>\" onload=\"x\u{0}\u{1b}[31m &amp; ]]> <!-- \u{202e}";
    let mut start = start();
    start["dataset"]["name"] = hostile.into();
    start["version"] = hostile.into();
    start["options"] = json!({ "model": hostile, "</td>": hostile, "loader": { "fanouts": [hostile] } });
    for name in ["device", "sampler", "command", "gather"] {
        start["in_force"][name] = hostile.into();
    }
    start["in_force"]["command"] = json!([hostile, "<b>"]);
    start["in_force"]["caches"] = json!({ "budget_bytes": 7, "policy": hostile });
    let mut lines = vec![start];
    lines.extend((0..20).map(batch));
    let names = ["<i>&\"'.jsonl", "b.jsonl"];
    for name in names {
        write_lines(&temp.path().join(name), &lines);
    }
    for runs in [&names[..1], &names[..]] {
        let page = page(temp.path(), runs);
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;"), "it is shown");
    }
}

#[test]
fn a_running_run_is_shown_as_far_as_its_file_goes() {
    let temp = directory();
    let mut lines = vec![start()];
    let file = temp.path().join("run.jsonl");
    // Only its beginning.
    write_lines(&file, &lines);
    shows(&page(temp.path(), &["run.jsonl"]), &["has no  end", "no training batches in this file yet"]);
    lines.extend((0..50).map(batch));
    write_lines(&file, &lines);
    let whole = page(temp.path(), &["run.jsonl"]);
    shows(&whole, &["has no  end", "50 batches", "as far as this file goes", "--train-threads 2"]);
    assert!(!text(&whole).contains("cut in the middle"));
    // A line that is being written.
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 40]).unwrap();
    shows(&page(temp.path(), &["run.jsonl"]), &["Line 51, the last one, is cut in the middle", "49 batches"]);
    // A line that was continued after the cut.
    fs::write(&file, [&bytes[..bytes.len() - 40], b"\n", format!("{}\n", batch(49)).as_bytes()].concat())
        .unwrap();
    refuses(temp.path(), &["run.jsonl", "--out", "report.html"], &["run.jsonl:51: invalid metrics line"]);
}

#[test]
fn a_resumed_run_is_one_run_whose_later_lines_count() {
    let temp = directory();
    let mut lines = vec![start()];
    lines.extend((0..60).map(batch));
    let mut resumed = start();
    resumed["in_force"]["start"] = json!({ "epoch": 0, "batch": 40 });
    lines.push(resumed);
    lines.extend((40..100).map(batch));
    write_lines(&temp.path().join("run.jsonl"), &lines);
    let page = page(temp.path(), &["run.jsonl"]);
    shows(&page, &["The run was resumed once", "120 batches"]);
    for id in ["run1-stages", "run1-speed"] {
        let figure = page
            .split(&format!("id=\"{id}-t\""))
            .nth(1)
            .and_then(|rest| rest.split("</figure>").next())
            .unwrap();
        let key =
            figure.split("<li>").find(|key| key.contains("</svg>resumed</li>")).expect("it is in the legend");
        let (colour, plot) =
            (colours(key).pop_first().unwrap(), figure.split("class=\"plot\"").nth(1).unwrap());
        assert!(colours(plot).contains(colour), "where it was resumed is marked");
    }
}

#[test]
fn a_custom_command_keeps_its_loss_and_is_named() {
    let temp = directory();
    small_graph(temp.path());
    command::run(temp.path(), "--metrics run.jsonl", None, "attach; take 20; close").run().succeeds();
    let page = page(temp.path(), &["run.jsonl"]);
    shows(&page, &["keeps loss and accuracy to itself", "20 batches", "fed by uvatrain"]);
    assert!(!page.contains("Loss of batches") && !page.contains("Accuracy by epoch"));
    assert!(page.contains("What each stage did") && page.contains("Batches a second"));
}

#[test]
fn what_is_not_a_metrics_file_is_refused_with_file_and_line() {
    let temp = directory();
    let file = |name: &str, text: &[u8]| fs::write(temp.path().join(name), text).unwrap();
    file("empty.jsonl", b"");
    file("notes.txt", b"hello\nworld\n");
    file("other.jsonl", b"{\"event\":\"click\",\"at\":3}\n");
    file("binary", b"\x7fELF\x00\x01\xff\xfe\n\x00");
    file("headless.jsonl", format!("{}\n", batch(0)).as_bytes());
    let mut second = start();
    second["dataset"]["fingerprint"] = "1".into();
    file("two.jsonl", format!("{}\n{}\n{second}\n", start(), batch(0)).as_bytes());
    let mut many = start();
    many["in_force"]["samplers"] = u64::MAX.into();
    file("many.jsonl", format!("{many}\n").as_bytes());
    for (name, parts) in [
        ("empty.jsonl", ["empty.jsonl: it is empty", "--metrics FILE"]),
        ("notes.txt", ["notes.txt:1: invalid metrics line", "--metrics FILE"]),
        ("other.jsonl", ["other.jsonl:1: invalid metrics line", "click"]),
        ("binary", ["binary:1: invalid metrics line", "--metrics FILE"]),
        ("headless.jsonl", ["headless.jsonl:1: metrics begin with an event 'start'", "missing"]),
        ("two.jsonl", ["two.jsonl:3: another run", "a separate file"]),
        ("many.jsonl", ["many.jsonl:1: \"samplers\"", "expected at most"]),
        ("nowhere.jsonl", ["nowhere.jsonl: ", "--metrics FILE"]),
        (".", [".: it is a directory", "--metrics FILE"]),
    ] {
        refuses(temp.path(), &[name, "--out", "report.html"], &parts);
    }
    // Of several files the wrong one is named, and nothing is written.
    file("good.jsonl", format!("{}\n", start()).as_bytes());
    refuses(temp.path(), &["good.jsonl", "notes.txt", "--out", "report.html"], &["notes.txt:1:"]);
}

#[test]
fn a_page_takes_the_place_of_the_last_and_never_of_a_run() {
    let temp = directory();
    let run = temp.path().join("run.jsonl");
    write_lines(&run, &[start(), batch(0)]);
    let before = fs::read(&run).unwrap();
    std::os::unix::fs::symlink("run.jsonl", temp.path().join("link.html")).unwrap();
    for out in ["run.jsonl", "./run.jsonl", "link.html"] {
        refuses(
            temp.path(),
            &["run.jsonl", "--out", out],
            &["--out", "which the command reads", "name another file"],
        );
    }
    assert_eq!(fs::read(&run).unwrap(), before);
    refuses(temp.path(), &["run.jsonl", "--out", "."], &["--out .: it is a folder"]);
    refuses(temp.path(), &["run.jsonl", "--out", "no/report.html"], &["there is no folder no"]);
    refuses(temp.path(), &["run.jsonl"], &["--out"]);
    let many = vec!["run.jsonl"; 25];
    refuses(temp.path(), &[&many[..], &["--out", "report.html"]].concat(), &["25 runs", "at most 24"]);
    fs::write(temp.path().join("report.html"), "what was there").unwrap();
    page(temp.path(), &["run.jsonl"]);
    // A full disk leaves the last page unchanged, and no part of the next.
    fs::write(temp.path().join("report.html"), "what was there").unwrap();
    let args = ["report", "run.jsonl", "--out", "report.html"];
    let outcome = uvatrain_behind(temp.path(), "ulimit -f 4", args).run().refuses(1, &["--out report.html"]);
    assert_eq!(fs::read(temp.path().join("report.html")).unwrap(), b"what was there", "{outcome}");
    let left: Vec<_> = fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("partial")), "{left:?}");
    // An output that is not a regular file is written to directly.
    let outcome = uvatrain(temp.path(), ["report", "run.jsonl", "--out", "/dev/stdout"]).run().succeeds();
    check(&outcome.stdout);
}

#[test]
#[ignore = "7 s of a core: scripts/measure/long_tests.sh"]
fn neither_memory_nor_the_page_grows_with_the_batches() {
    let temp = directory();
    let path = temp.path().join("run.jsonl");
    let mut file = BufWriter::new(File::create(&path).unwrap());
    writeln!(file, "{}", start()).unwrap();
    // A third of a gigabyte of text; numbers of which hardly two are equal.
    let mut line = String::new();
    for number in 0..1_000_000u64 {
        line.clear();
        let at = 1_000_000 + 1000 * number;
        let (epoch, of_epoch) = (number / 100, number % 100);
        let nodes = 100_000 + number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 900_000;
        write!(
            line,
            r#"{{"event":"batch","epoch":{epoch},"batch":{of_epoch},"hash":"0","seeds":9,"input_nodes":{nodes},"#
        )
        .unwrap();
        write!(
            line,
            r#""edges":[{},{}],"loss":{},"sample_at_us":{at},"sample_us":300,"gather_at_us":{},"gather_us":200,"#,
            nodes * 2,
            nodes * 5,
            1.0 + 1.0 / (1 + number) as f64,
            at + 300,
        )
        .unwrap();
        let (trained, took) = (at + 1000, 900 + number % 200);
        writeln!(file, r#"{line}"train_at_us":{trained},"train_us":{took}}}"#).unwrap();
        if of_epoch == 99 {
            let accuracy = 1.0 - 1.0 / (2 + epoch) as f64;
            let text = json!({ "event": "epoch", "epoch": epoch, "train_loss": 1.0, "train_accuracy": accuracy,
                "seconds": 0.1 });
            writeln!(file, "{text}").unwrap();
        }
    }
    file.into_inner().unwrap();
    // Far less than the file; libtorch alone uses a quarter of that.
    let args = ["report", "run.jsonl", "--out", "report.html"];
    uvatrain_behind(temp.path(), "ulimit -d 229376", args).run().succeeds();
    let page = fs::read_to_string(temp.path().join("report.html")).unwrap();
    check(&page);
    assert!(page.len() < 300_000, "{} bytes", page.len());
    shows(&page, &["1,000,000 batches", "16 min 40 s"]);
    // Many runs share the space of a page.
    let mut lines = vec![start()];
    lines.extend((0..2000).map(batch));
    write_lines(&path, &lines);
    assert!(self::page(temp.path(), &["run.jsonl"; 24]).len() > 100_000);
}
