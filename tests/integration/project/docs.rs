//! Tests of the documentation against this program: examples parse, links are valid, every page is in the book.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{directory, uvatrain};

mod commands;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README.md and the pages of docs/ and its folders, with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut paths = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Further pages, which are not part of the book.
fn pages_beside_the_book() -> Vec<(PathBuf, String)> {
    let names = [
        "CONTRIBUTING.md",
        "SECURITY.md",
        "examples/migration/README.md",
        "mps/README.md",
        "packaging/README.md",
        "packaging/docker/README.md",
    ];
    names.map(|name| root().join(name)).map(|path| (path.clone(), fs::read_to_string(path).unwrap())).into()
}

/// The lines of a page's ```sh blocks that call `uvatrain`, with their place.
fn examples_of(path: &Path, text: &str) -> Vec<(String, String)> {
    let mut examples = Vec::new();
    let mut shell = false;
    for (number, line) in text.lines().enumerate() {
        match line {
            "```sh" => shell = true,
            "```" => shell = false,
            _ if shell && line.starts_with("uvatrain ") => {
                examples.push((format!("{}:{}", path.display(), number + 1), line.to_owned()));
            }
            _ => {}
        }
    }
    examples
}

/// The examples of the commands' own help.
fn examples_of_help() -> Vec<(String, String)> {
    let temp = directory();
    let help = |words: &[&str]| uvatrain(temp.path(), [words, &["--help"]].concat()).run().succeeds().stdout;
    let commands = |help: &str| -> Vec<String> {
        let list =
            help.split("\nCommands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
        let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    };
    let mut examples = Vec::new();
    let mut take = |of: &str, help: &str| {
        let lines = help
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with("uvatrain ") && !line.contains("DATA"));
        examples.extend(lines.map(|line| (format!("uvatrain {of} --help"), line.to_owned())));
    };
    let first = help(&[]);
    take("", &first);
    for command in commands(&first) {
        let text = help(&[&command]);
        take(&command, &text);
        for inner in commands(&text) {
            take(&format!("{command} {inner}"), &help(&[&command, &inner]));
        }
    }
    examples
}

/// The part of the line that belongs to `uvatrain`: up to a comment, a pipe or a redirection. No example quotes one.
fn call(line: &str) -> &str {
    let end = [" #", " |", " >", " 2>", " &&"].into_iter().filter_map(|end| line.find(end)).min();
    line[..end.unwrap_or(line.len())].trim()
}

#[test]
fn every_example_is_understood_by_the_program() {
    let temp = directory();
    let mut examples: Vec<(String, String)> =
        pages().iter().flat_map(|(path, text)| examples_of(path, text)).collect();
    assert!(examples.len() > 10, "{examples:?}");
    let of_help = examples_of_help();
    assert!(of_help.len() > 10, "{of_help:?}");
    examples.extend(of_help);
    for (place, line) in examples {
        let call = call(&line).replacen("uvatrain", "", 1);
        // A build without the model of requests has no such bench.
        if call.starts_with(" bench requests") && cfg!(not(feature = "request-model")) {
            continue;
        }
        // Prints the options in force without doing the work.
        let asked = match call.split_once(" -- ") {
            Some((ours, theirs)) => format!("{ours} --print-config -- {theirs}"),
            None => format!("{call} --print-config"),
        };
        let outcome = Command::new("sh")
            .args(["-c", &format!("\"$0\" {asked}"), env!("CARGO_BIN_EXE_uvatrain")])
            .current_dir(temp.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&outcome.stderr);
        assert!(outcome.status.success(), "{place}: {line}\n{stderr}");
    }
}

/// The anchor that GitHub and mdBook make for a heading: small letters, digits, hyphens.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut code = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        code ^= line.starts_with("```");
        if !code && line.starts_with('#') {
            found.insert(anchor(line.trim_start_matches('#')));
        }
    }
    found
}

/// Targets of `[text](target)`, except those on other sites.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.contains("://") && !target.is_empty()).collect()
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_of_it() {
    let mut broken = Vec::new();
    for (path, text) in pages().into_iter().chain(pages_beside_the_book()) {
        for link in links(&text) {
            let (file, heading) =
                link.split_once('#').map_or((link, None), |(file, rest)| (file, Some(rest)));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            if !target.exists() {
                broken.push(format!("{}: {link} leads nowhere", path.display()));
            } else if let Some(heading) = heading
                && let there = anchors(&fs::read_to_string(&target).unwrap())
                && !there.contains(heading)
            {
                broken.push(format!("{}: {link} is not one of {there:?}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn paths_that_contributing_names_are_there() {
    let page = fs::read_to_string(root().join("docs/internals/contributing.md")).unwrap();
    let quoted = page.split('`').skip(1).step_by(2);
    let is_path = |path: &&str| {
        let first = path.split('/').next().unwrap_or_default();
        ["crates", "scripts", "tests", "docs", "kernels", "examples", "python"].contains(&first)
            && path.contains('/')
            && !path.contains(['{', ' ', '\n', '*'])
            && !path.contains("NAME")
    };
    let missing: Vec<&str> = quoted.filter(is_path).filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn the_example_of_embedding_is_the_one_that_compiles() {
    let page = fs::read_to_string(root().join("docs/guide/embedding.md")).unwrap();
    let shown = page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let example = fs::read_to_string(root().join("crates/uva-runtime/examples/batches.rs")).unwrap();
    assert_eq!(shown, Some(example.as_str()), "docs/guide/embedding.md shows another examples/batches.rs");
}

#[test]
fn models_md_has_a_row_for_each_model_of_the_table() {
    let page = fs::read_to_string(root().join("docs/guide/models.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let told: Vec<&str> = rows.map(|(name, _)| name).collect();
    for model in uva_model::ModelKind::all() {
        assert!(told.contains(&model.name()), "{} is missing", model.name());
    }
}

#[test]
fn the_readme_puts_the_program_into_the_path_before_it_calls_it_by_name() {
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let called = page.find("\nuvatrain ").expect("the README calls the program");
    let install = "cargo install --locked --path crates/uvatrain";
    assert!(page[..called].contains(install), "nothing before the first call says `{install}`");
    let demo = fs::read_to_string(root().join("scripts/demo.sh")).unwrap();
    let last = demo.lines().last().unwrap();
    assert!(last.contains("export PATH="), "the demo's last line is {last}");
}

#[test]
fn figures_of_a_faster_loader_in_the_readme_are_the_measured_ones() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let told = readme.split("**What a faster loader gives on a CPU.**").nth(1).expect("the paragraph");
    let told = told.split("\n\n").next().unwrap().replace('\n', " ");
    let raw = fs::read_to_string(root().join("docs/results/pyg.json")).unwrap();
    let raw: serde_json::Value = serde_json::from_str(&raw).unwrap();
    let seconds = |cell: &str, what: &str| raw["cells"][cell][what].as_f64().expect("a figure");
    let (theirs, ours) = ("NeighborLoader, 1 workers, 2 threads", "uvatrain.Loader, 2 threads");
    let figures = [
        format!("{:.2} s an epoch with `NeighborLoader`", seconds(theirs, "epoch_s")),
        format!("{:.2} s with", seconds(ours, "epoch_s")),
        format!("{:.1} times as fast", seconds(theirs, "epoch_s") / seconds(ours, "epoch_s")),
        format!("waited {:.2} s and {:.2} s", seconds(theirs, "waited_s"), seconds(ours, "waited_s")),
        format!("layers alone take {:.1} s", seconds(theirs, "compute_alone_s")),
        format!("epoch to {:.2} s", seconds("uvatrain.Loader, trimmed, 2 threads", "epoch_s")),
    ];
    for figure in figures {
        assert!(told.contains(&figure), "the README does not say: {figure}\n{told}");
    }
}

#[test]
fn every_page_is_in_the_book() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed: BTreeSet<&str> = links(&summary).into_iter().collect();
    for (path, _) in pages() {
        let name = path.strip_prefix(root().join("docs")).unwrap_or(Path::new("README.md")).to_str().unwrap();
        assert!(listed.contains(name) || name == "SUMMARY.md", "docs/SUMMARY.md does not name {name}");
    }
    assert!(fs::read_to_string(root().join("book.toml")).unwrap().contains("src = \"docs\""));
}
