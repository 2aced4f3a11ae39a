//! Tests of `scripts/gpu/suite.sh`, `carry.sh` and `peers.py` without a GPU: the steps that drive the binary, under the
//! stand-ins for NVIDIA's driver and for the control program of MPS.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::directory;
use crate::support::runs::wait_until;
use serde_json::Value;

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").canonicalize().unwrap()
}

/// `python3 scripts/SCRIPT ARGS…`, without installed packages, such as a PyTorch that sees a GPU.
fn script(script: &str, args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("python3");
    command.args(["-I", "-S", "-B"]).arg(scripts().join(script)).args(args);
    command.env_remove("GPU_SUITE_TORCH").env_remove("UVATRAIN_KERNELS");
    command.envs(variables.iter().copied()).output().unwrap()
}

#[track_caller]
fn ends(output: &Output, code: i32, part: &str) {
    let said = [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes)).concat();
    assert!(output.status.code() == Some(code) && said.contains(part), "{}: {said}", output.status);
}

/// A carried folder, the folder of results, and the state that one call keeps for the next.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// The folder that `scripts/gpu/carry.sh` makes, from cargo's outputs for these tests.
    fn new() -> Self {
        let place = Self { folder: directory() };
        let bin = place.bin();
        std::fs::create_dir(&bin).unwrap();
        symlink(env!("CARGO_BIN_EXE_uvatrain"), bin.join("uvatrain")).unwrap();
        symlink(env!("CARGO_BIN_EXE_uvatrain-consumer"), bin.join("uvatrain-consumer")).unwrap();
        symlink(cuda_sim::library_folder().join("libcuda.so"), bin.join("libcuda_sim.so")).unwrap();
        let control = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda-sim/nvidia-cuda-mps-control");
        symlink(control.canonicalize().unwrap(), bin.join("nvidia-cuda-mps-control")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn bin(&self) -> PathBuf {
        self.path("bin")
    }

    /// A program of the carried folder that is these lines of bash.
    fn program(&self, name: &str, lines: &str) {
        let path = self.bin().join(name);
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, format!("#!/bin/bash\n{lines}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Test programs that pass, and record the folders of kernels that they receive.
    fn passing_tests(&self) {
        let noted = self.path("noted");
        for name in ["test-uva-cuda", "test-uva-rows", "test-uva-sample"] {
            let line = format!(
                "echo \"{name} $UVATRAIN_TEST_KERNELS $UVATRAIN_KERNELS $XDG_CACHE_HOME\" >>{}\n\
                 echo 'test result: ok. 1 passed; 0 failed'",
                noted.display()
            );
            self.program(name, &line);
        }
    }

    fn suite_with(&self, args: &str, variables: &[(&str, &str)]) -> Output {
        let [out, bin, state] = ["out", "bin", "state"].map(|name| self.path(name).display().to_string());
        let mut all = vec![out.as_str(), "--bin", &bin, "--state", &state];
        all.extend(args.split_whitespace());
        script("gpu/suite", &all, variables)
    }

    fn suite(&self, args: &str) -> Output {
        self.suite_with(args, &[])
    }

    fn summary(&self) -> Value {
        json(&self.path("out/summary.json"))
    }

    #[track_caller]
    fn has(&self, step: &str, status: &str) {
        let summary = self.summary();
        assert_eq!(summary["steps"][step]["status"], status, "{step}: {summary:#}");
    }
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn peers_need_a_gpu_and_say_what_they_cannot_understand() {
    let program = env!("CARGO_BIN_EXE_uvatrain");
    let peers = |args: &[&str]| script("gpu/peers.py", &[&["--uvatrain", program], args].concat(), &[]);
    ends(&peers(&[]), 3, "PyTorch");
    ends(&peers(&["--row-bytes", "7"]), 2, "multiples of 4");
    ends(&peers(&["--table-size", "4G"]), 2, "4GiB");
    ends(&peers(&["--rounds", "0"]), 2, "from 1");
    ends(&script("gpu/peers.py", &["--uvatrain", "/nonexistent/uvatrain"], &[]), 2, "not found");
    ends(&script("gpu/loaders.py", &["nothing"], &[]), 3, "gpu-loaders: ");
    ends(&script("gpu/loaders.py", &[], &[]), 2, "DATA");
}

#[test]
fn the_suite_says_what_it_lacks_and_what_it_cannot_understand() {
    let place = Place::new();
    ends(&place.suite("--only speed"), 2, "no step speed");
    ends(&place.suite("--profile fast"), 2, "smoke");
    ends(&place.suite("--bin /nonexistent"), 2, "carry.sh");
    assert!(!place.path("out").exists() && !place.path("state").exists());
    // Another user with write permission could redirect the results.
    symlink(place.path("elsewhere"), place.path("link")).unwrap();
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    ends(
        &place.suite(&format!("--state {}", place.path("link").display())),
        2,
        "not a folder of this user's",
    );
}

#[test]
fn each_profile_ends_within_500_seconds_and_none_kills_roles() {
    let output = script("gpu/suite", &["--list"], &[]);
    ends(&output, 0, "smoke");
    let profiles: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (name, steps) in profiles.as_object().unwrap() {
        let steps = steps.as_object().unwrap();
        let seconds: u64 = steps.values().map(|seconds| seconds.as_u64().unwrap()).sum();
        assert!(seconds <= 500, "{name}: {seconds} s");
        assert!(!steps.contains_key("faults"), "{name}");
    }
    let mut names: Vec<&String> = profiles.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["correct", "measure", "peers", "smoke"]);
}

#[test]
fn without_a_gpu_the_suite_does_nothing_and_says_so() {
    let place = Place::new();
    // No device for the driver, should there be one.
    ends(&place.suite_with("", &[("CUDA_VISIBLE_DEVICES", "")]), 3, "no GPU");
    place.has("machine", "failed");
    place.has("pcie", "left out");
}

#[test]
fn a_smoke_run_passes_and_leaves_two_files() {
    let place = Place::new();
    place.passing_tests();
    ends(&place.suite("--simulate --profile smoke"), 0, "SIMULATED");
    let summary = place.summary();
    assert_eq!((&summary["failed"], &summary["unfinished"]), (&Value::from([""; 0]), &Value::from([""; 0])));
    for step in ["machine", "link", "startup", "wide", "partitions", "mps"] {
        place.has(step, "passed");
    }
    place.has("warm", "skipped");
    let smoke = json(&place.path("state/smoke.json"));
    let ways = smoke["partitions"]["ways"].as_object().unwrap();
    let sharing =
        ["descriptors and events", "descriptors and stamps", "handles and events", "handles and stamps"];
    let sharing = sharing.map(|way| format!("none, {way}"));
    let expected = ["none", "green", "grid"].into_iter().chain(sharing.iter().map(String::as_str));
    assert!(ways.keys().map(String::as_str).eq(expected), "{:?}", ways.keys());
    for (name, way) in ways {
        assert_eq!(way["fell_back"], serde_json::json!([]), "{name}: {way}");
    }
    // The measurements of a first start, under a clock that means nothing.
    let startup = &smoke["startup"];
    let cases = startup["measured"][0]["cases"].as_array().unwrap();
    assert!(cases[0]["gather"] == "zero-copy" && cases[0]["gb_per_second"].as_f64() > Some(0.0), "{startup}");
    assert!(startup["doctor"][0].as_str().unwrap().contains("gather "), "{startup}");
    let mut files: Vec<_> =
        std::fs::read_dir(place.path("out")).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["results.tar.gz", "summary.json"]);
    let archive = Command::new("tar").arg("-tzf").arg(place.path("out/results.tar.gz")).output().unwrap();
    let names = String::from_utf8(archive.stdout).unwrap();
    for name in ["results/log.txt", "results/machine.json", "results/smoke.json", "results/summary.json"] {
        assert!(names.lines().any(|line| line == name), "{name} is missing in {names}");
    }
}

/// Two calls, with the results emptied between them: the results of the first are there after the second. Dropout is
/// drawn as on a device, so losses are equal because there is none.
#[test]
#[ignore = "a minute of processor time: scripts/measure/long_tests.sh"]
fn correct_and_measure_pass_in_two_calls_that_share_their_state() {
    let place = Place::new();
    place.passing_tests();
    std::fs::create_dir(place.bin().join("kernels")).unwrap();
    ends(&place.suite("--simulate --profile correct"), 0, "SIMULATED");
    std::fs::remove_dir_all(place.path("out")).unwrap();
    ends(&place.suite("--simulate --profile measure"), 0, "SIMULATED");
    let summary = place.summary();
    for (name, step) in summary["steps"].as_object().unwrap() {
        let expected = match name.as_str() {
            // Neither PyTorch nor a device for it, no machine code, no module, no GPU.
            "warm" | "models" | "sanitizer" | "python" | "peers" => "skipped",
            _ => "passed",
        };
        assert_eq!(step["status"], expected, "{name}: {step}");
    }
    assert_eq!(summary["profiles"], Value::from(["correct", "measure"]));
    let correctness = json(&place.path("state/correctness.json"));
    let ways = correctness["training"]["ways"].as_object().unwrap();
    // Trained as on a device: sums that differ from the CPU's by rounding.
    let close = |way: &Value| way["farthest_loss"].as_f64().is_some_and(|farthest| farthest < 1e-3);
    assert!(ways.len() == 21 && ways.contains_key("none, float8") && ways.values().all(close), "{ways:?}");
    let pcie = &json(&place.path("state/pcie.json"))["pcie"];
    assert_eq!(pcie["simulator"], true);
    for (name, value) in
        [("pages", "base"), ("pages", "hostalloc"), ("kernel", "wide-plain"), ("kernel", "wide-evict-first")]
    {
        let cells = pcie["cells"].as_array().unwrap();
        assert!(cells.iter().any(|cell| cell[name] == value), "no cell with {name} {value}");
    }
    let shares = json(&place.path("state/training.json"))["mps-sweep"]["shares"].clone();
    let multiprocessors: Vec<u64> =
        shares.as_array().unwrap().iter().map(|share| share["multiprocessors"].as_u64().unwrap()).collect();
    assert_eq!(multiprocessors, [9, 13, 26, 66, 132]);
    // One folder of compiled kernels for all test programs and the program itself, and one of carried ones.
    let cache = place.path("state/cache").display().to_string();
    let given = format!("{cache}/uvatrain/kernels {} {cache}", place.bin().join("kernels").display());
    let noted = std::fs::read_to_string(place.path("noted")).unwrap();
    assert!(noted.lines().count() >= 5, "{noted}");
    for line in noted.lines() {
        assert_eq!(line.split_once(' ').unwrap().1, given, "{line}");
    }
}

/// The suite's command without its `--dropout 0`: for one seed the stand-in then draws other numbers than the CPU, as a
/// GPU does, and the comparison of losses fails.
#[test]
#[ignore = "12 s of a core: scripts/measure/long_tests.sh"]
fn losses_are_compared_without_dropout_since_a_device_draws_it_otherwise() {
    let place = Place::new();
    let lines = format!(
        "args=(); while (($#)); do if [[ $1 == --dropout ]]; then shift; else args+=(\"$1\"); fi; shift; done\n\
         exec {} \"${{args[@]}}\"",
        env!("CARGO_BIN_EXE_uvatrain")
    );
    place.program("uvatrain", &lines);
    ends(&place.suite("--simulate --only partitions"), 1, "from that of the CPU");
    // It is the draws that differ, and nothing else.
    ends(&place.suite_with("--simulate --only partitions", &[("CUDA_SIM_DROPOUT", "host")]), 0, "SIMULATED");
}

/// The command handles SIGINT, like a launcher that takes its roles off MPS; its leftover processes are ended as well.
#[test]
fn a_step_that_runs_out_of_time_is_ended_in_order_and_does_not_fail() {
    let place = Place::new();
    let (answered, left) = (place.path("answered"), place.path("left"));
    let lines = format!(
        "[[ $1 == bench ]] || exec {} \"$@\"\n\
         trap 'echo INT >>{answered}; exit 130' INT\ntrap 'echo TERM >>{answered}' TERM\n\
         sleep 1000 &\necho $! >{left}\nwait",
        env!("CARGO_BIN_EXE_uvatrain"),
        answered = answered.display(),
        left = left.display()
    );
    place.program("uvatrain", &lines);
    ends(&place.suite("--simulate --only link,python --step-seconds 3"), 0, "UNFINISHED");
    place.has("link", "unfinished");
    // The next one is tried, and reports what it lacks.
    place.has("python", "skipped");
    assert_eq!(place.summary()["unfinished"], Value::from(["link"]));
    assert_eq!(std::fs::read_to_string(answered).unwrap(), "INT\n");
    let pid = std::fs::read_to_string(left).unwrap();
    let gone = || match std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Ok(stat) => stat.rsplit(')').next().unwrap().trim_start().starts_with(['Z', 'X']),
        Err(_) => true,
    };
    wait_until("what the command left behind has ended", gone);
}

#[test]
fn where_correctness_fails_nothing_is_measured() {
    let place = Place::new();
    let fault = [("CUDA_SIM_FAIL", "producer:cuLaunchKernel:50=719")];
    ends(&place.suite_with("--simulate --only training,pcie", &fault), 1, "CUDA_ERROR_LAUNCH_FAILED");
    // Neither in the same run nor in one that continues it, wherever its results are written.
    for _ in 0..2 {
        place.has("pcie", "left out");
        std::fs::remove_dir_all(place.path("out")).unwrap();
        ends(&place.suite("--simulate --only pcie"), 1, "correctness comes first");
    }
    assert!(!place.path("state/pcie.json").exists());
}

#[test]
#[ignore = "16 s of a core: scripts/measure/long_tests.sh"]
fn roles_are_killed_only_on_request_and_after_all_other_steps() {
    let place = Place::new();
    let output = place.suite("--simulate --only python --with-faults");
    ends(&output, 0, "SIMULATED");
    let said = String::from_utf8(output.stdout).unwrap();
    let steps: Vec<_> = said.lines().filter_map(|line| line.split_whitespace().next()).take(2).collect();
    assert_eq!(steps, ["python", "faults"], "{said}");
    place.has("faults", "passed");
    let killed = json(&place.path("state/correctness.json"))["faults"].as_object().unwrap().len();
    assert_eq!(killed, 4, "two roles, with MPS and without");
}

#[test]
fn torchs_libraries_are_read_first() {
    let place = Place::new();
    let torch = place.path("site-packages/torch");
    std::fs::create_dir_all(torch.join("lib")).unwrap();
    std::fs::write(torch.join("lib/libtorch_cpu.so"), [1; 5000]).unwrap();
    let variables = [("GPU_SUITE_TORCH", torch.to_str().unwrap())];
    ends(&place.suite_with("--simulate --only warm", &variables), 0, "SIMULATED");
    assert_eq!(json(&place.path("state/machine.json"))["warm"]["bytes"], 5000);
}

/// A checkout with `scripts/gpu/carry.sh` in it, whose first step towards a build ends with code 7.
fn checkout() -> tempfile::TempDir {
    let folder = directory();
    let copies = folder.path().join("scripts");
    std::fs::create_dir_all(copies.join("gpu")).unwrap();
    std::fs::create_dir(copies.join("setup")).unwrap();
    std::fs::copy(scripts().join("gpu/carry.sh"), copies.join("gpu/carry.sh")).unwrap();
    let libtorch = copies.join("setup/libtorch.sh");
    std::fs::write(&libtorch, "#!/bin/bash\nexit 7\n").unwrap();
    std::fs::set_permissions(&libtorch, std::fs::Permissions::from_mode(0o755)).unwrap();
    let made = Command::new("git").args(["init", "-q"]).arg(folder.path()).status().unwrap();
    assert!(made.success());
    folder
}

#[test]
fn carried_files_are_ignored_in_the_checkout_and_count_with_the_others() {
    let checkout = checkout();
    let carry = |to: &Path| {
        Command::new("bash").arg(checkout.path().join("scripts/gpu/carry.sh")).arg(to).output().unwrap()
    };
    let outside = directory();
    ends(&carry(&outside.path().join("carry")), 2, "not inside");
    let inside = checkout.path().join(".carry");
    ends(&carry(&inside), 7, "");
    let exclude = checkout.path().join(".git/info/exclude");
    let named = || {
        let text = std::fs::read_to_string(&exclude).unwrap();
        text.lines().filter(|line| *line == "/.carry/").count()
    };
    assert_eq!(named(), 1);
    // Named once, even if it occurs several times.
    ends(&carry(&inside), 7, "");
    assert_eq!(named(), 1);
    // A file that git does not ignore is copied as well. It has no bytes on the disk.
    let large = std::fs::File::create(checkout.path().join("large")).unwrap();
    large.set_len(64 << 20).unwrap();
    ends(&carry(&inside), 1, "64.0 MiB may travel");
    // A folder that another program made must not be replaced.
    std::fs::create_dir(checkout.path().join("data")).unwrap();
    ends(&carry(&checkout.path().join("data")), 2, "none that this script made");
}
