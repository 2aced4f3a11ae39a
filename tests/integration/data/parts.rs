//! `uvatrain partition`, and runs on its parts.

use std::fs;
use std::path::Path;

use uva_graph::{Dataset, Split};

use crate::support::arrays::{header, npy};
use crate::support::runs::{Metrics, TRAIN, small_graph};
use crate::support::{Outcome, directory, uvatrain};

fn run(directory: &Path, words: &str) -> Outcome {
    uvatrain(directory, words.split_whitespace()).run()
}

/// Writes the map in which node `v` is in part `of(v)`.
fn write_map(path: &Path, nodes: u64, of: impl Fn(u64) -> u16) {
    let mut bytes = header("<u2", &[nodes], false);
    bytes.extend((0..nodes).flat_map(|node| of(node).to_le_bytes()));
    fs::write(path, bytes).unwrap();
}

/// Epoch, batch, hash and loss of every training batch.
fn trained(directory: &Path, data: &str, options: &str) -> Vec<(u64, u64, String, String)> {
    let words = TRAIN.replace("train graph", &format!("train {data}"));
    run(directory, &format!("{words} --epochs 1 --metrics m.jsonl {options}")).succeeds();
    let batches = Metrics::read(&directory.join("m.jsonl")).trained();
    fs::remove_file(directory.join("m.jsonl")).unwrap();
    batches
}

#[test]
fn a_run_on_a_part_equals_one_on_the_graph_over_the_parts_nodes() {
    let temp = directory();
    let at = temp.path();
    small_graph(at);
    // A small part and a large one.
    write_map(&at.join("map.npy"), 4000, |node| u16::from(node % 3 > 0));
    let said = run(at, "partition graph parts --map map.npy --hops 2 --json").succeeds().json();
    let info = run(at, "info parts/part-0 --json").succeeds().json();
    assert_eq!(said["written"][0]["nodes"], info["nodes"]);
    let (halo, nodes) = (info["part"]["halo"].as_u64().unwrap(), info["nodes"].as_u64().unwrap());
    assert!(0 < halo && halo < nodes && said["copies"].as_f64().unwrap() > 1.0, "{said} {info}");
    let whole = run(at, "info graph --json").succeeds().json();
    assert_eq!(info["part"]["fingerprint"], whole["fingerprint"]);
    let text = run(at, "info parts/part-0").succeeds().stdout;
    for fact in ["0 of 0 to 1, whole within 2 in-hops", "that other parts own", "by given"] {
        assert!(text.contains(fact), "{fact}: {text}");
    }

    let part = Dataset::open(&at.join("parts/part-0")).unwrap();
    assert!(
        (0..part.nodes()).any(|node| part.csc().degree(node) < part.csc().whole_degree(node)),
        "none is cut"
    );
    let original = |node: &i64| part.original_ids().unwrap()[*node as usize];
    let ids: Vec<i64> = part.split(Split::Train).iter().map(original).collect();
    fs::write(at.join("ids.npy"), npy(&[ids.len() as u64], false, &ids)).unwrap();
    // The weights of a graph convolution depend on the in-degrees of nodes whose lists the part does not have.
    let expected = trained(at, "graph", "--model gcn --input-nodes ids.npy");
    assert_eq!(expected.len(), ids.len().div_ceil(100));
    assert_eq!(trained(at, "parts/part-0", "--model gcn --samplers 2 --checkpoint kept"), expected);
    run(at, "predict parts/part-0 --checkpoint kept").refuses(2, &["--nodes", "too near to the border"]);
    run(at, "predict parts/part-0 --checkpoint kept --nodes train").succeeds();
    // Lists in the order of the part's own cache, whose nodes have other positions.
    let cached = "--model gcn --gpu-cache 100KiB --cache-policy degree";
    assert_eq!(trained(at, "parts/part-0", cached), expected);
}

#[test]
fn what_a_part_cannot_give_is_refused_as_is_one_of_another_partition() {
    let temp = directory();
    let at = temp.path();
    run(at, "generate graph --nodes 200 --avg-degree 6 --feat-dim 4 --classes 3").succeeds();
    write_map(&at.join("map.npy"), 200, |node| (node % 2) as u16);
    run(at, "partition graph parts --map map.npy --hops 2").succeeds();
    run(at, "partition graph parts --map map.npy --hops 2").refuses(2, &["parts exists already"]);
    run(at, "partition graph more --map map.npy --memory 1KiB")
        .refuses(2, &["--memory", "1.0 KiB are allowed"]);
    run(at, "partition graph more --map map.npy --hops 0").refuses(2, &["--hops"]);
    run(at, "partition parts/part-0 more --map map.npy").refuses(2, &["map.npy"]);
    run(at, "partition graph more --map parts/part-0/feat.npy").refuses(2, &["feat.npy"]);

    let sample = "bench sample parts/part-1 --batch-size 10 --batches 2";
    run(at, &format!("{sample} --fanouts 3,2 --json")).succeeds();
    run(at, &format!("{sample} --fanouts 3,2,2")).refuses(2, &["--fanouts", "whole within 2 in-hops"]);
    run(at, "train parts/part-1 --sampler-kind fastgcn --fanouts 9,9")
        .refuses(2, &["--sampler-kind", "whole graph"]);
    let walk = "--sampler-kind walk --walk-length 3 --fanouts 3 --batch-size 10";
    run(at, &format!("bench pipeline parts/part-1 {walk}")).refuses(2, &["--walk-length", "reach 3 in-hops"]);
    let part = Dataset::open(&at.join("parts/part-1")).unwrap();
    let is_cut = |node: &usize| part.csc().degree(*node) < part.csc().whole_degree(*node);
    let cut: Vec<i64> = (0..part.nodes()).filter(is_cut).map(|node| node as i64).collect();
    fs::write(at.join("cut.npy"), npy(&[cut.len() as u64], false, &cut)).unwrap();
    run(at, "bench pipeline parts/part-1 --fanouts 3 --batch-size 10 --input-nodes cut.npy")
        .refuses(2, &["--input-nodes", "too near to the border"]);
    run(at, "propagate parts/part-1 hops").refuses(2, &["is a part of a dataset"]);

    let json = at.join("parts/partition.json");
    let text = fs::read_to_string(&json).unwrap();
    fs::write(&json, text.replacen("\"hops\": 2", "\"hops\": 3", 1)).unwrap();
    run(at, "info parts/part-1")
        .refuses(2, &["partition.json", "it is not the partition that part 1 was written with"]);
    assert!(!at.join("more").exists() && !at.join("hops").exists());
}

#[test]
fn one_command_divides_and_cuts_and_the_parts_are_those_of_its_map() {
    let temp = directory();
    let at = temp.path();
    small_graph(at);
    let words = "partition graph made --parts 2 --method pagraph --hops 1 --write-parts --json";
    let said = run(at, words).succeeds().json();
    assert_eq!(said["written"].as_array().unwrap().len(), 2, "{said}");
    // Cut by that map, with as many hops as it says.
    let cut = run(at, "partition graph cut --map made --json").succeeds().json();
    assert_eq!((&cut["hops"], &cut["written"]), (&1.into(), &said["written"]), "{cut}");
    for part in ["part-0", "part-1"] {
        let files: Vec<_> = fs::read_dir(at.join("made").join(part)).unwrap().map(Result::unwrap).collect();
        assert!(files.len() > 8, "{files:?}");
        for file in files.iter().filter(|file| file.path().extension().is_some_and(|kind| kind == "npy")) {
            let other = at.join("cut").join(part).join(file.file_name());
            assert!(fs::read(file.path()).unwrap() == fs::read(&other).unwrap(), "{}", other.display());
        }
    }
    for (words, parts) in [
        ("partition graph no --parts 1 --write-parts", ["--parts 1", "a copy of the dataset"]),
        ("partition graph no --parts 2 --split-eval", ["--split-eval", "--write-parts"]),
        ("partition graph no --map made --method bgl", ["--map", "--method"]),
        ("partition graph no --map made --write-parts", ["--map", "--write-parts"]),
        ("partition made/part-0 no --parts 2", ["made/part-0", "a part itself"]),
    ] {
        run(at, words).refuses(2, &parts);
        assert!(!at.join("no").exists(), "{words}");
    }
    // Without the description that its lists are cut, a part is not a dataset.
    fs::rename(at.join("cut/part-0/meta.json"), at.join("meta.json")).unwrap();
    run(at, "info cut/part-0").refuses(2, &["degree.npy", "meta.json"]);
    let edited = fs::read_to_string(at.join("meta.json")).unwrap().replace("\"hops\": 1", "\"hops\": 99");
    fs::write(at.join("cut/part-0/meta.json"), edited).unwrap();
    run(at, "info cut/part-0").refuses(2, &["meta.json", "\"part\""]);
}
