//! Tests of `uvatrain bench requests`, which does not require libtorch or a GPU.

use crate::support::{directory, uvatrain};

fn json(arguments: &[&str]) -> serde_json::Value {
    let temp = directory();
    let given = ["bench", "requests", "--json"].iter().chain(arguments);
    uvatrain(temp.path(), given).run().succeeds().json()
}

#[test]
fn the_second_row_of_480_bytes_costs_8_reads_naively_and_5_otherwise() {
    for (kernel, reads) in [("naive", 8), ("shift", 5), ("wide", 5)] {
        let report = json(&["--row-bytes", "480", "--kernel", kernel]);
        assert_eq!(report["reads_per_row"][1], reads, "{report}");
        assert_eq!((&report["kernel"], &report["row_bytes"]), (&kernel.into(), &480.into()), "{report}");
        for list in ["reads_per_row", "bytes_per_row"] {
            assert_eq!(report[list].as_array().map(Vec::len), Some(16), "{report}");
        }
    }
}

#[test]
fn rows_and_base_offset_are_taken_and_shown() {
    let report = json(&[
        "--row-bytes",
        "128",
        "--kernel",
        "wide",
        "--base-offset",
        "4",
        "--rows",
        "3",
        "--ids",
        "i32",
    ]);
    let expected = r#"{"kernel":"wide","row_bytes":128,"base_offset":4,"rows":3,"reads_per_row":[2,2,2],"bytes_per_row":[160,160,160],"payload_efficiency":0.8}"#;
    assert_eq!(report.to_string(), expected);
}

#[test]
fn the_table_shows_each_row_and_a_gpu_its_arithmetic() {
    let temp = directory();
    let arguments = ["bench", "requests", "--row-bytes", "480", "--kernel", "naive", "--gpu", "rtx3090"];
    let ran = uvatrain(temp.path(), arguments).run().succeeds();
    for part in ["offset in line", "302…325", "16 of 82 (19.5 %)", "7 of 82 (8.2 %)"] {
        assert!(ran.stdout.contains(part), "{part} is missing\n{ran}");
    }
    assert!(ran.stderr.is_empty(), "{ran}");
    let need = &json(&["--row-bytes", "480", "--gpu", "h200"])["gpu"];
    assert_eq!(need["multiprocessors"], 132, "{need}");
}

#[test]
fn what_cannot_be_answered_is_bad_usage_that_names_the_option() {
    let cases: [(&[&str], &str); 7] = [
        (&[], "--row-bytes"),
        (&["--row-bytes", "0"], "--row-bytes"),
        (&["--row-bytes", "4", "--kernel", "fast"], "naive, shift, wide, wide-plain or wide-evict-first"),
        (&["--row-bytes", "4", "--base-offset", "128"], "--base-offset"),
        (&["--row-bytes", "4", "--rows", "0"], "--rows"),
        (&["--row-bytes", "4", "--gpu", "gtx"], "rtx3090"),
        (&["--row-bytes", "1000000000", "--rows", "9"], "256 MiB"),
    ];
    for (arguments, part) in cases {
        let temp = directory();
        uvatrain(temp.path(), ["bench", "requests"].iter().chain(arguments)).run().refuses(2, &[part]);
    }
}
