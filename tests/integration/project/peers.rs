//! Tests of `scripts/peers/compare.py` without the peers: a stand-in with a worker's protocol replaces them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{directory, uvatrain};
use serde_json::Value;

/// Answers every request at once with a batch of a hundredth of a second. It is started instead of a Python.
const STAND_IN: &str = r#"#!/usr/bin/env python3
import json, sys
print(json.dumps({"ready": True, "versions": {"stand-in": "1"}}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["operation"] == "check":
        answer = {"error": "a node stands twice"} if "graphbolt" in sys.argv else {"hops": 3, "edges": 9, "input_nodes": 5}
    else:
        answer = {"batches": 10, "seconds": 0.1, "edges": 1000, "input_nodes": 500, "bytes": 4000,
                  "batch_ms": {"min": 10, "median": 10, "max": 10}}
    print(json.dumps(answer), flush=True)
"#;

/// `compare.py ARGS…`, without installed packages.
fn compare(args: &[&str]) -> Output {
    let script: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/peers/compare.py");
    Command::new("python3").args(["-I", "-S", "-B"]).arg(script).args(args).output().unwrap()
}

#[track_caller]
fn succeeds(output: &Output) -> (String, String) {
    let [said, told] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{}: {told}", output.status);
    (said, told)
}

#[test]
fn rounds_alternate_and_a_peer_whose_batch_is_invalid_takes_no_part() {
    let temp = directory();
    uvatrain(
        temp.path(),
        ["generate", "graphs/tiny", "--nodes", "3000", "--feat-dim", "8", "--classes", "3"],
    )
    .run()
    .succeeds();
    let path = |name: &str| temp.path().join(name).to_str().unwrap().to_owned();
    let stand_in = path("stand-in");
    fs::write(&stand_in, STAND_IN).unwrap();
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
    let (graphs, work, out) = (path("graphs"), path("work"), path("out.json"));
    let args = [
        "--uvatrain",
        env!("CARGO_BIN_EXE_uvatrain"),
        "--dgl-python",
        &stand_in,
        "--graphs",
        &graphs,
        "--work",
        &work,
        "--out",
        &out,
        "--graph",
        "tiny",
        "--cores",
        "1",
        "--quick",
        "--seconds",
        "0.01",
        "--batch-size",
        "100",
        "--wait",
        "0",
        "--left-out",
        "pyg=there is none",
    ];
    let (_, told) = succeeds(&compare(&[&args[..], &["--only", "sampling"]].concat()));
    // Rounds of a disturbed contender follow, whose order is not determined.
    let order = |round: &str| -> Vec<String> {
        let lines = told.lines().filter_map(|line| line.trim().strip_prefix(&format!("round {round}  ")));
        lines.map(|line| line.split("   ").next().unwrap().trim().to_owned()).collect()
    };
    assert_eq!(order("0"), ["uvatrain", "DGL, int64", "DGL, int32"], "{told}");
    assert_eq!(order("1"), ["DGL, int32", "DGL, int64", "uvatrain"], "{told}");
    assert!(told.contains("GraphBolt, int32: a node stands twice"), "{told}");

    // Existing results are not measured again.
    let (page, told) = succeeds(&compare(&[&args[..], &["--only", "sampling,loading", "--append"]].concat()));
    assert!(told.contains("loading, tiny") && !told.contains("sampling, tiny"), "{told}");
    let results: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let cells = results["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        // The stand-in's ten batches take 0.1 s: 10 ms each, 100 a second.
        let figure = if cell["section"] == "sampling" { 10.0 } else { 100.0 };
        let contenders = cell["contenders"].as_array().unwrap();
        let of = |name: &str| contenders.iter().find(|one| one["name"] == name).unwrap();
        assert_eq!(of("DGL, int64")["figure"]["median"], figure);
        // Loading has two methods in this project, and the faster is compared with the peers.
        let ours = contenders.iter().filter(|one| one["runtime"] == "uvatrain");
        let medians = ours.map(|one| one["figure"]["median"].as_f64().unwrap());
        let ours = if cell["section"] == "sampling" {
            medians.reduce(f64::min).unwrap()
        } else {
            assert!(contenders.iter().any(|one| one["name"] == "uvatrain, whole batches"), "{contenders:?}");
            medians.reduce(f64::max).unwrap()
        };
        let ratio = if cell["section"] == "sampling" { figure / ours } else { ours / figure };
        let told = cell["beside_the_fastest"]["times_as_fast"].as_f64().unwrap();
        assert!((told / ratio - 1.0).abs() < 1e-9, "{told} instead of {ratio}");
    }
    let names = ["uvatrain", "DGL, int64"];
    let checked = results["checks"].as_array().unwrap();
    assert!(names.iter().all(|name| checked.iter().any(|check| check["name"] == *name)), "{checked:?}");
    assert!(page.contains("pyg is left out, because there is none."), "{page}");

    // The printed page is exactly the rendered file.
    let printed = path("page.md");
    fs::write(&printed, &page).unwrap();
    succeeds(&compare(&["--check", &out, "--page", &printed]));
    fs::write(&printed, page.replace("| DGL | 10", "| DGL | 11")).unwrap();
    let refused = compare(&["--check", &out, "--page", &printed]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("lacks the line | DGL | 10"));
    let spoilt = fs::read_to_string(&out).unwrap().replacen("\"times_as_fast\": ", "\"times_as_fast\": 1", 1);
    fs::write(&out, spoilt).unwrap();
    let refused = compare(&["--check", &out, "--page", &printed]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("sampling, tiny, cores: 1: not what its rounds")
    );
}

#[test]
fn typed_cells_compare_with_each_peer_by_edges_and_by_batches() {
    let temp = directory();
    uvatrain(temp.path(), ["generate", "graphs/mag", "--preset", "mag", "--scale", "0.005"]).run().succeeds();
    uvatrain(temp.path(), ["generate", "graphs/small", "--nodes", "3000", "--feat-dim", "8"])
        .run()
        .succeeds();
    let path = |name: &str| temp.path().join(name).to_str().unwrap().to_owned();
    let stand_in = path("stand-in");
    fs::write(&stand_in, STAND_IN).unwrap();
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
    let (graphs, work, out) = (path("graphs"), path("work"), path("out.json"));
    let pythons = ["--dgl-python", &stand_in, "--pyg-lib-python", &stand_in, "--kumo-python", &stand_in];
    let options = [&pythons[..], &["--graphs", &graphs, "--work", &work]].concat();
    let args = [
        &options[..],
        &["--uvatrain", env!("CARGO_BIN_EXE_uvatrain"), "--out", &out, "--quick", "--rounds", "1"],
    ];
    let more = ["--cores", "1", "--seconds", "0.01", "--batch-size", "100", "--wait", "0"];
    let sections = ["--only", "typed-sampling,typed-loading,formats"];
    let (page, told) = succeeds(&compare(&[&args.concat()[..], &more, &sections].concat()));
    assert!(told.contains("typed-sampling, mag, 10,10, cores: 1"), "{told}");
    let results: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let cell = |section: &str| {
        let cells = results["cells"].as_array().unwrap();
        cells.iter().find(|cell| cell["section"] == section).unwrap()
    };
    let sampling = cell("typed-sampling");
    for peer in ["pyg-lib", "Kumo"] {
        // The stand-in's ten batches have 1000 edges and take 0.1 s.
        let ours =
            sampling["contenders"].as_array().unwrap().iter().find(|one| one["name"] == "uvatrain").unwrap();
        let edges = ours["figure"]["median"].as_f64().unwrap() / 0.01;
        let batches = edges * 100.0 / ours["edges_a_batch"].as_f64().unwrap();
        let told = sampling["ratios"][peer]["times_as_fast"].as_f64().unwrap();
        assert!((told / edges.min(batches) - 1.0).abs() < 1e-9, "{told} instead of {edges} or {batches}");
    }
    // pyg-lib expands new nodes alone, and DGL all: so do the ways of ours that they are compared with.
    for (peer, is_new) in [("pyg-lib", true), ("DGL", false)] {
        let ours = &cell("typed-loading")["ratios"][peer]["ours"];
        assert_eq!(ours.as_str().unwrap().ends_with("new nodes"), is_new, "{peer}: {ours}");
    }
    // Rows of three types were loaded, and both formats sample the same batches.
    for kind in ["paper", "author", "field"] {
        assert!(temp.path().join(format!("work/mag/nodes/{kind}/feat.npy")).exists(), "{kind}");
    }
    let of_formats = cell("formats")["contenders"].as_array().unwrap();
    assert_eq!(of_formats[0]["rounds"][0]["edges"], of_formats[1]["rounds"][0]["edges"]);
    assert!(
        page.contains("| times as fast as format 1 |") && page.contains("| times as fast as Kumo |"),
        "{page}"
    );
    let printed = path("page.md");
    fs::write(&printed, &page).unwrap();
    succeeds(&compare(&["--check", &out, "--page", &printed]));
}

#[test]
fn the_figures_next_to_the_peers_are_those_of_the_raw_results() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    let mut checked = 0;
    for file in fs::read_dir(results).unwrap() {
        let file = file.unwrap().path();
        // One file per machine.
        if file.file_name().unwrap().to_str().is_some_and(|name| name.starts_with("peers")) {
            succeeds(&compare(&["--check", file.to_str().unwrap()]));
            checked += 1;
        }
    }
    assert!(checked > 0);
}
