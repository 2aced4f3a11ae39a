//! An NVIDIA GPU: its driver and devices, MPS, NVRTC. CUDA is never loaded into this process. A separate process,
//! `uvatrain probe`, queries CUDA; it may fail or hang without harm.

use std::path::{Path, PathBuf};

use uva_cuda::DeviceReport;
use uva_cuda::libtorch::{self, AskPython};
use uva_launch::mps::{self, Environment, MpsError, NotRunning, Running};
use uva_runtime::backend::{BackendOptions, Probe};
use uva_runtime::tune::measurement::MeasurementShape;
use uva_runtime::tune::measurement::stored::{FigureFile, Machine, StoredMeasurement};
use uva_runtime::tune::measurement::verdict::{RunRows, chosen, described};

use super::check::{Check, read};
use uva_runtime::spec::ByteSize;

const NO_GPU: &str = "nothing to do: without a GPU everything runs on the CPU";

/// All checks of this module, given the result of a probe.
pub fn checks(probed: Option<&Probe>) -> Vec<Check> {
    let mut checks = vec![driver(probed), nvrtc(probed)];
    checks.extend(probed.and_then(torch));
    checks
        .extend(probed.iter().flat_map(|probed| probed.cuda.devices.iter().map(|gpu| measured(gpu, probed))));
    checks.extend([mps_program(), mps_daemon()]);
    checks
}

/// Stored gather measurements on this GPU, with the choices based on them.
fn measured(gpu: &DeviceReport, probed: &Probe) -> Check {
    match FigureFile::of_user(Machine::with(gpu, probed.cuda.driver.as_deref())) {
        Some(file) => of_stored(&file),
        None => Check::note(MEASURED, "not kept: neither XDG_CACHE_HOME nor HOME is set", "set HOME"),
    }
}

const MEASURED: &str = "measured gathers";

fn of_stored(file: &FigureFile) -> Check {
    let gpu = &file.machine().gpu;
    match file.read() {
        StoredMeasurement::Nothing => {
            Check::note(MEASURED, format!("none of {gpu}"), "nothing to do: the first run on it measures")
        }
        StoredMeasurement::Stale(why) => Check::note(
            MEASURED,
            format!("{} is ignored: {why}", file.path().display()),
            "nothing to do: the next run measures again",
        ),
        StoredMeasurement::Figures(figures) => {
            let options = BackendOptions::default();
            let lines: Vec<String> = figures
                .iter()
                .map(|figures| {
                    let chosen = chosen(&options, figures, RunRows::OneTable);
                    let MeasurementShape { row_bytes, kernel, gather_threads, up_to_bytes } = figures.shape;
                    let table = ByteSize::from_bytes(up_to_bytes);
                    let source =
                        format!("{kernel}, {gather_threads} gather threads, in {:.1} s", figures.seconds);
                    format!(
                        "rows of {row_bytes} bytes in tables of up to {table}: {}",
                        described(&chosen, &options, figures, RunRows::OneTable, &source)
                    )
                })
                .collect();
            Check::ok(MEASURED, format!("{gpu}, {}: {}", file.path().display(), lines.join(" | ")))
        }
    }
}

/// Whether `train --device cuda:0` can run.
pub fn trains(probed: Option<&Probe>) -> bool {
    probed.is_some_and(|probe| {
        let kernels = probe.cuda.simulator || probe.nvrtc.as_ref().is_some_and(|nvrtc| nvrtc.found.is_some());
        !probe.cuda.devices.is_empty() && probe.torch.is_none() && kernels
    })
}

/// Whether libtorch can use the GPU, if there is one.
fn torch(probed: &Probe) -> Option<Check> {
    const NAME: &str = "libtorch on the GPU";
    match &probed.torch {
        _ if probed.cuda.devices.is_empty() || probed.cuda.simulator => None,
        None => Some(Check::ok(NAME, "yes")),
        Some(reason) => Some(Check::note(NAME, reason.clone(), "python3 -m pip install torch==2.11.0")),
    }
}

fn describe(device: &DeviceReport) -> String {
    let DeviceReport { name, capability: (major, minor), multiprocessors, total_memory, .. } = device;
    let memory = ByteSize::from_bytes(*total_memory);
    format!("{name} (compute capability {major}.{minor}, {multiprocessors} multiprocessors, {memory})")
}

fn driver(probed: Option<&Probe>) -> Check {
    const NAME: &str = "NVIDIA GPU";
    let module =
        read("/sys/module/nvidia/version").map_or_else(String::new, |version| format!("driver {version}, "));
    if let Some(probed) = probed {
        match (&probed.cuda.unavailable, &probed.cuda.driver) {
            (None, Some(cuda)) if !probed.cuda.devices.is_empty() => {
                let devices: Vec<String> = probed.cuda.devices.iter().map(describe).collect();
                return Check::ok(NAME, format!("{}; {module}CUDA {cuda}", devices.join("; ")));
            }
            // A reason beyond a missing GPU: the device files checked below add no information.
            (Some(reason), _) if Path::new("/dev/nvidiactl").exists() => {
                return Check::note(
                    NAME,
                    format!("{module}not usable: {reason}"),
                    "see the reason, then nvidia-smi",
                );
            }
            _ => {}
        }
    }
    let device = Path::new("/dev/nvidiactl").exists();
    let library = find_library("libcuda.so.1");
    let models = models(Path::new("/proc/driver/nvidia/gpus"));
    match (device, library) {
        (true, Some(library)) => {
            let models = if models.is_empty() { "no GPU listed".to_owned() } else { models.join(", ") };
            let library = library.display();
            Check::note(
                NAME,
                format!("{models}; {module}{library}; what CUDA says of it is not known"),
                "nvidia-smi",
            )
        }
        (true, None) => Check::note(
            NAME,
            "/dev/nvidiactl is there, but libcuda.so.1 is not: a container without the driver's libraries",
            "start the container with --gpus all (nvidia-container-toolkit)",
        ),
        (false, Some(library)) => Check::note(
            NAME,
            format!(
                "{} is there, but /dev/nvidiactl is not: no GPU, or its driver is not loaded",
                library.display()
            ),
            "sudo modprobe nvidia, on a machine that has a GPU",
        ),
        (false, None) => Check::note(NAME, "none: no /dev/nvidiactl, no libcuda.so.1", NO_GPU),
    }
}

/// Whether NVRTC, which compiles the kernels and is not part of a driver, is installed.
fn nvrtc(probed: Option<&Probe>) -> Check {
    const NAME: &str = "NVRTC";
    const REMEDY: &str = "python3 -m pip install nvidia-cuda-nvrtc==13.0.88 (needed with a GPU only)";
    if let Some(nvrtc) = probed.and_then(|probed| probed.nvrtc.as_ref()) {
        if let Some(found) = &nvrtc.found {
            let version = nvrtc.version.as_ref().map_or_else(String::new, |version| format!("{version}, "));
            return Check::ok(NAME, format!("{version}{found}"));
        }
        if let Some(reason) = &nvrtc.missing {
            return Check::note(NAME, reason.clone(), REMEDY);
        }
    }
    match find_nvrtc() {
        Some(path) => Check::ok(NAME, path.display().to_string()),
        None => Check::note(
            NAME,
            "not found next to libtorch, in a CUDA toolkit, or by the dynamic loader",
            REMEDY,
        ),
    }
}

fn mps_program() -> Check {
    const NAME: &str = "CUDA MPS";
    match mps::control_program(&Environment::of_process()) {
        Ok(path) => match mps::file_limit_advice() {
            Some(advice) => Check::note(NAME, format!("{}; {advice}", path.display()), "ulimit -n 16384"),
            None => Check::ok(NAME, path.display().to_string()),
        },
        Err(_) => Check::note(
            NAME,
            "no nvidia-cuda-mps-control in PATH; through it processes share a GPU",
            "sudo apt install nvidia-compute-utils-580 (Ubuntu; the number is the driver's); nothing without a GPU",
        ),
    }
}

fn mps_daemon() -> Check {
    const NAME: &str = "MPS daemon";
    const NOTHING: &str =
        "nothing to do: `uvatrain train` starts one for itself; `uvatrain mps start` starts one that stays";
    let found = Running::find(&Environment::of_process());
    match found.and_then(|running| running.status()) {
        Ok(status) => {
            let owner = status.owner.map_or_else(|| "an unknown user".to_owned(), |owner| owner.to_string());
            let clients: usize = status.servers.iter().map(|server| server.clients.len()).sum();
            let directory = status.pipe_directory.display();
            Check::ok(NAME, format!("{} of {owner} in {directory}, {clients} clients", status.pid))
        }
        Err(MpsError::NotRunning(NotRunning::Nothing { .. })) => Check::note(NAME, "none runs", NOTHING),
        Err(MpsError::NotRunning(reason @ (NotRunning::Stale { .. } | NotRunning::Dead { .. }))) => {
            Check::note(NAME, reason.to_string(), "remove that directory")
        }
        Err(MpsError::NotRunning(reason)) => Check::note(
            NAME,
            reason.to_string(),
            "--mps off, or a daemon of your own: CUDA_MPS_PIPE_DIRECTORY",
        ),
        Err(error) => {
            Check::note(NAME, error.to_string(), "end the daemon, and start another: uvatrain mps start")
        }
    }
}

/// The model name of each GPU, from the driver's files.
fn models(gpus: &Path) -> Vec<String> {
    let Ok(folders) = std::fs::read_dir(gpus) else { return Vec::new() };
    let mut models: Vec<String> = folders
        .filter_map(|folder| uva_mem::files::read_kernel_text(folder.ok()?.path().join("information")).ok())
        .filter_map(|text| Some(text.lines().find_map(|l| l.strip_prefix("Model:"))?.trim().to_owned()))
        .collect();
    models.sort();
    models
}

/// The path of NVRTC, searched by its file name where the program looks for it, without opening it.
fn find_nvrtc() -> Option<PathBuf> {
    let named =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(named) = named("UVATRAIN_NVRTC") {
        return named.is_file().then(|| named.clone()).or_else(|| nvrtc_within(&named));
    }
    // Next to libtorch: …/site-packages/torch and …/site-packages/nvidia are siblings.
    let torch = libtorch::find(None, AskPython::No).ok();
    let beside_torch = torch.and_then(|torch| Some(torch.root().parent()?.to_owned()));
    [beside_torch, named("CUDA_HOME"), named("CUDA_PATH"), Some("/usr/local/cuda".into())]
        .into_iter()
        .flatten()
        .find_map(|folder| nvrtc_within(&folder))
        .or_else(|| NVRTC_NAMES.iter().find_map(|name| find_library(name)))
}

const NVRTC_NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

fn nvrtc_within(folder: &Path) -> Option<PathBuf> {
    let places = [".", "lib64", "lib", "nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];
    places
        .iter()
        .flat_map(|place| NVRTC_NAMES.map(|name| folder.join(place).join(name)))
        .find(|file| file.is_file())
}

/// The path at which the dynamic linker would find a library. The search is reimplemented here, so that the library's
/// code does not run.
fn find_library(name: &str) -> Option<PathBuf> {
    let wanted = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let usual = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/lib/wsl/lib",
        "/usr/local/nvidia/lib64",
    ];
    std::env::split_paths(&wanted)
        .chain(usual.into_iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use uva_runtime::backend::NvrtcReport;

    use super::*;
    use crate::commands::machine::doctor::check::CheckStatus;

    #[test]
    fn gpu_models_come_from_the_drivers_files() {
        let folder = tempfile::tempdir().unwrap();
        let gpu = folder.path().join("0000:01:00.0");
        std::fs::create_dir(&gpu).unwrap();
        std::fs::write(gpu.join("information"), "Model: \t\t Some GPU\nIRQ: 5\n").unwrap();
        assert_eq!(models(folder.path()), ["Some GPU"]);
        assert!(models(&folder.path().join("absent")).is_empty());
    }

    #[test]
    fn what_the_probe_finds_is_reported() {
        let probed: Probe = serde_json::from_str(
            r#"{"driver": "13.0", "simulator": false, "unavailable": null,
                "devices": [{"ordinal": 0, "name": "Some GPU", "capability": [9, 0], "multiprocessors": 132,
                             "total_memory": 1073741824, "pci_bus_id": "0000:01:00.0", "uuid": "GPU-1",
                             "mps_enabled": false,
                             "supports": {"shared_by_fd": true, "shared_by_handle": true,
                                          "interprocess_events": true, "host_register": true,
                                          "read_only_host_register": true, "green_contexts": true}}],
                "nvrtc": {"found": "/x/libnvrtc.so.13", "version": "13.0", "missing": null}}"#,
        )
        .unwrap();
        let check = driver(Some(&probed));
        assert_eq!(check.status, CheckStatus::Ok, "{check:?}");
        for part in ["Some GPU (compute capability 9.0, 132 multiprocessors, 1 GiB)", "CUDA 13.0"] {
            assert!(check.finding.contains(part), "{part}: {}", check.finding);
        }
        assert_eq!(nvrtc(Some(&probed)).finding, "13.0, /x/libnvrtc.so.13");
        assert!(trains(Some(&probed)));
        let lacking = Probe { torch: Some("this libtorch is for the CPU".into()), ..probed };
        assert!(
            !trains(Some(&lacking))
                && checks(Some(&lacking)).iter().any(|c| c.finding.contains("for the CPU"))
        );
    }

    #[test]
    fn a_probe_without_a_device_or_with_missing_lines_is_a_failure() {
        let probed: Probe = serde_json::from_str(
            r#"{"driver": null, "simulator": false, "devices": [], "unavailable": "no libcuda.so.1"}"#,
        )
        .unwrap();
        assert_ne!(driver(Some(&probed)).status, CheckStatus::Ok);
        assert_ne!(driver(None).status, CheckStatus::Ok);
        assert!(!trains(Some(&probed)) && !trains(None));
        let missing = NvrtcReport { missing: Some("nowhere".to_owned()), ..NvrtcReport::default() };
        let missing = Probe { nvrtc: Some(missing), ..probed };
        assert_eq!(nvrtc(Some(&missing)).finding, "nowhere");
    }

    #[test]
    fn nvrtc_is_found_in_a_wheel_and_in_a_toolkit() {
        for place in ["nvidia/cu13/lib", "lib64", "."] {
            let folder = tempfile::tempdir().unwrap();
            assert_eq!(nvrtc_within(folder.path()), None);
            let library = folder.path().join(place).join("libnvrtc.so.13");
            std::fs::create_dir_all(library.parent().unwrap()).unwrap();
            std::fs::write(&library, "").unwrap();
            assert_eq!(nvrtc_within(folder.path()), Some(library));
        }
    }
}
