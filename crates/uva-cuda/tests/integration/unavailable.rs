//! Machines without CUDA, or with less than required: each gives an error with a reason, and never a panic.

use std::os::unix::fs::symlink;
use std::process::Command;

use uva_cuda::{Driver, ProbeReport, Unavailable, probe};

use crate::common::{again, simulated, told};

#[test]
#[ignore = "run by the others, with an environment of theirs"]
fn prints_the_driver_report() {
    println!("REPORT {}", serde_json::to_string(&probe()).unwrap());
    println!("REASON {:?}", Driver::load().map(|_| ()));
}

fn report(command: &mut Command) -> (ProbeReport, String) {
    let output = command.output().unwrap();
    (serde_json::from_str(&told(&output, "REPORT ")).unwrap(), told(&output, "REASON "))
}

#[test]
fn an_old_driver_is_reported_with_the_version_it_serves() {
    let (report, reason) =
        report(simulated("unavailable::prints_the_driver_report").env("CUDA_SIM_DRIVER_VERSION", "12080"));
    assert_eq!(reason, format!("Err({:?})", Unavailable::OldDriver { found: (12, 8) }));
    let text = report.unavailable.unwrap();
    assert!(text.contains("12.8") && text.contains("13.0"), "{text}");
}

#[test]
fn a_driver_without_a_device_says_so() {
    let (report, reason) =
        report(simulated("unavailable::prints_the_driver_report").env("CUDA_SIM_DEVICES", "0"));
    assert_eq!(reason, format!("Err({:?})", Unavailable::NoDevice));
    assert!(report.unavailable.unwrap().contains("no device"));
}

#[test]
fn a_driver_that_does_not_start_is_reported_with_its_code() {
    let (report, _) =
        report(simulated("unavailable::prints_the_driver_report").env("CUDA_SIM_FAIL", "cuInit:1=807"));
    let text = report.unavailable.unwrap();
    assert!(text.contains("cuInit: CUDA_ERROR_MPS_SERVER_NOT_READY (807)"), "{text}");
    assert!(text.contains("mps"), "{text}");
}

#[test]
fn a_device_that_does_not_answer_is_in_the_report() {
    let (report, _) = report(
        simulated("unavailable::prints_the_driver_report").env("CUDA_SIM_FAIL", "cuDeviceGetName:1=999"),
    );
    let text = report.unavailable.unwrap();
    assert!(text.contains("cuDeviceGetName failed while asking the name of device 0"), "{text}");
    assert_eq!(report.driver.as_deref(), Some("13.0"));
}

#[test]
fn a_library_that_lacks_a_function_is_reported_with_the_function() {
    let folder = tempfile::tempdir().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library =
        maps.lines().filter_map(|line| Some(&line[line.find('/')?..])).find(|path| path.contains("/libc.so"));
    symlink(library.unwrap(), folder.path().join("libcuda.so.1")).unwrap();
    let (_, reason) =
        report(again("unavailable::prints_the_driver_report").env("LD_LIBRARY_PATH", folder.path()));
    assert_eq!(reason, format!("Err({:?})", Unavailable::MissingSymbol { symbol: "cuInit" }));
}

/// A driver that is too old for a function: the error names its version, not only the function.
#[test]
fn an_old_driver_that_lacks_a_function_is_reported_with_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("old.cpp");
    std::fs::write(
        &source,
        "extern \"C\" int cuDriverGetVersion(int* version) { return *version = 11040, 0; }",
    )
    .unwrap();
    // The compiler that builds the kernels for the simulator.
    let compiler = std::env::var_os("CXX").unwrap_or("c++".into());
    let mut compile = Command::new(compiler);
    compile.args(["-shared", "-fPIC", "-o"]).arg(folder.path().join("libcuda.so.1")).arg(&source);
    assert!(compile.status().unwrap().success());
    let (_, reason) =
        report(again("unavailable::prints_the_driver_report").env("LD_LIBRARY_PATH", folder.path()));
    assert_eq!(reason, format!("Err({:?})", Unavailable::OldDriver { found: (11, 4) }));
}

#[test]
fn a_library_that_does_not_open_is_reported_with_the_loaders_message() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("libcuda.so.1"),
        "not a library, but long enough that the loader reads its header",
    )
    .unwrap();
    let (report, reason) =
        report(again("unavailable::prints_the_driver_report").env("LD_LIBRARY_PATH", folder.path()));
    assert!(reason.contains("NoDriver"), "{reason}");
    let text = report.unavailable.unwrap();
    assert!(text.contains("libcuda.so.1"), "{text}");
    assert!(text.contains(&folder.path().display().to_string()), "{text}");
}
