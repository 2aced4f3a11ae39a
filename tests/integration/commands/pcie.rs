//! `uvatrain bench pcie`: the real binary under the stand-in for NVIDIA's driver. The tests only check that figures
//! exist.

use std::path::Path;

use crate::support::{Uvatrain, directory, uvatrain};
use serde_json::Value;

/// A sweep of every axis small enough for a driver that runs kernels on the CPU.
const SMALL: &str = "bench pcie --table-size 1MiB,512KiB --row-bytes 128,188,512 --multiprocessors 1,8,all \
                     --sample-bytes 32KiB --samples 3 --threads 2";

fn bench(folder: &Path, args: &str) -> Uvatrain {
    uvatrain(folder, args.split_whitespace()).simulated()
}

fn list<'v>(value: &'v Value, name: &str) -> &'v Vec<Value> {
    value[name].as_array().unwrap_or_else(|| panic!("no list {name} in {value}"))
}

#[test]
fn every_axis_is_measured_verified_and_plotted() {
    let folder = directory();
    let report = bench(folder.path(), &format!("{SMALL} --json --svg plot.svg")).run().succeeds().json();
    assert_eq!(report["simulator"], true);
    assert!(list(&report, "reach").is_empty(), "under the simulator nothing is judged");
    let positive = |value: &Value, name: &str| {
        assert!(value[name].as_f64().is_some_and(|number| number > 0.0), "{name} of {value}");
    };
    positive(&report, "zero_copy_ceiling");
    positive(&report["copy_engine"], "peak_gb_per_second");
    let cells = list(&report, "cells");
    for cell in cells {
        positive(cell, "gb_per_second");
        positive(cell, "share_of_copy_engine");
        assert_eq!(list(cell, "samples").len(), 3, "{cell}");
        // Draws of so few rows are compared whole.
        assert!(cell["verified_rows"] == cell["rows"] && cell["rows"].as_u64() > Some(0), "{cell}");
        #[cfg(feature = "request-model")]
        positive(cell, "share_of_model");
    }
    let has = |name: &str, value: &str| {
        assert!(cells.iter().any(|cell| cell[name] == value), "no cell with {name} {value}");
    };
    for kernel in ["naive", "shift", "wide"] {
        has("kernel", kernel);
    }
    for ids in ["random", "sorted", "by-region", "trace"] {
        has("ids", ids);
    }
    for partition in ["grid", "green"] {
        has("partition", partition);
    }
    let sizes: Vec<_> = cells.iter().map(|cell| cell["table_bytes"].as_u64().unwrap()).collect();
    assert!(sizes.contains(&(1 << 20)) && sizes.contains(&(1 << 19)));
    let ways: Vec<_> = list(&report, "ways").iter().map(|way| way["way"].as_str().unwrap()).collect();
    assert_eq!(ways, ["cpu-gather-dma", "split", "together"]);
    for way in list(&report, "ways") {
        assert_eq!(way["verified_rows"], way["rows"], "{way}");
    }
    // Reserved huge pages may exist or not; the report shows which.
    let told = |list: &[Value]| list.iter().any(|cell| cell["pages"] == "hugetlb");
    assert!(told(cells) || told(list(&report, "skipped")));
    let svg = std::fs::read_to_string(folder.path().join("plot.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("polyline") && svg.contains("SIMULATED"), "{svg}");
}

#[test]
fn the_terminal_says_that_a_simulated_figure_means_nothing() {
    let folder = directory();
    let outcome = bench(folder.path(), &format!("{SMALL} --kernels wide")).run().succeeds();
    for part in ["SIMULATED", "copy engine", "row bytes", "cpu-gather-dma", "green 8"] {
        assert!(outcome.stdout.contains(part), "`{part}` is missing in:\n{}", outcome.stdout);
    }
}

#[test]
fn one_cell_can_be_run_alone_and_gives_the_ids_that_it_always_gives() {
    let folder = directory();
    let args = "bench pcie --kernels wide --row-bytes 64 --multiprocessors all --pages base --ids random \
                --table-size 1MiB --sample-bytes 4KiB --samples 3 --zero-copy-only --json";
    let report = bench(folder.path(), args).run().succeeds().json();
    let cells = list(&report, "cells");
    // And a cell of whole lines, for the ceiling.
    assert_eq!((cells.len(), list(&report, "ways").len()), (2, 0));
    assert_eq!((&cells[1]["row_bytes"], &cells[1]["axis"]), (&1024.into(), &"ceiling".into()));
    // Recomputed from the documentation of `ids`. The number of rows depends on the measured time of a first gather, so
    // two runs may differ in it, and their check sums are not compared.
    let mix = |x: u64| {
        let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    let rows = (1_u128 << 20) / 64;
    let check = (0..cells[0]["rows"].as_u64().unwrap()).fold(0_u64, |sum, i| {
        let id = ((u128::from(mix((1 << 32) + i)) * rows) >> 64) as u64;
        sum.wrapping_add((id + 1).wrapping_mul(i + 1))
    });
    assert_eq!(cells[0]["ids_check"].as_u64(), Some(check));
}

#[test]
fn an_unavailable_table_is_skipped_with_the_reason() {
    let folder = directory();
    let args = "bench pcie --kernels wide --row-bytes 512 --multiprocessors all --ids random --zero-copy-only \
                --pages base --table-size 1MiB,900TiB --sample-bytes 4KiB --samples 3 --json";
    let report = bench(folder.path(), args).run().succeeds().json();
    assert_eq!(list(&report, "cells").len(), 1);
    let why = list(&report, "skipped")[0]["why"].as_str().unwrap();
    assert!(why.contains("memory"), "{why}");
}

#[test]
fn what_the_time_does_not_suffice_for_is_reported() {
    let folder = directory();
    let args = "bench pcie --full --samples 100 --sample-bytes 1MiB --table-size 4MiB --threads 2 --seconds 1 --json";
    let report = bench(folder.path(), args).run().succeeds().json();
    let skipped = list(&report, "skipped");
    assert!(skipped.iter().any(|cell| cell["why"].as_str().unwrap().contains("allowed time")), "{skipped:?}");
}

#[test]
fn a_failing_driver_ends_it_with_the_call_that_failed() {
    let folder = directory();
    for (fault, call, code) in [
        ("cuLaunchKernel:7=719", "cuLaunchKernel", 1),
        ("cuMemcpyDtoHAsync:2=700", "cuMemcpyDtoHAsync", 1),
        ("cuEventElapsedTime_v2:1=999", "cuEventElapsedTime", 1),
        ("cuMemAlloc:1=2", "--sample-bytes", 1),
        ("cuInit:1=999", "cuInit", 3),
    ] {
        bench(folder.path(), SMALL).env("CUDA_SIM_FAIL", fault).run().refuses(code, &[call]);
    }
}

#[test]
fn measurements_that_need_green_contexts_are_omitted_without_them() {
    let folder = directory();
    let lacks =
        bench(folder.path(), &format!("{SMALL} --kernels wide --json")).env("CUDA_SIM_LACKS", "green");
    let refuses = bench(folder.path(), &format!("{SMALL} --kernels wide --json"))
        .env("CUDA_SIM_FAIL", "cuGreenCtxStreamCreate:*=400");
    for report in [lacks, refuses].map(|bench| bench.run().succeeds().json()) {
        let skipped: Vec<_> =
            list(&report, "skipped").iter().filter(|cell| cell["partition"] == "green").collect();
        assert!(skipped.len() >= 3, "{skipped:?}");
        assert!(list(&report, "cells").iter().all(|cell| cell["partition"] == "grid"));
    }
}

#[test]
fn without_a_gpu_it_says_what_is_missing_and_what_to_do() {
    let folder = directory();
    let nothing = bench(folder.path(), "bench pcie").env("CUDA_SIM_DEVICES", "0").run();
    nothing.refuses(3, &["no device", "uvatrain doctor", "bench requests"]);
}

#[test]
fn what_cannot_be_meant_is_bad_usage() {
    let folder = directory();
    for (args, part) in [
        ("--kernels wide,fast", "naive, shift, wide"),
        ("--pages giant", "transparent-huge"),
        ("--ids none", "random"),
        ("--multiprocessors 0", "from 1"),
        ("--row-bytes 0", "row-bytes"),
        ("--samples 2", "samples"),
    ] {
        bench(folder.path(), &format!("bench pcie {args}")).run().refuses(2, &[part]);
    }
}
