//! The gather kernels, loaded and launched under the simulator. uva-rows tests their conformance over all sizes; these
//! tests are about launches.

use crate::common;
use std::process::Stdio;
use std::sync::Arc;

use uva_cuda::kernels::gather::{
    BadId, GatherArguments, GatherKernels, GatherReport, GridBound, IdWidth, Kernel,
};
use uva_cuda::memory::{DeviceBuffer, PinnedBuffer, device_to_host, fill, host_to_device};
use uva_cuda::nvrtc::Nvrtc;
use uva_cuda::{
    CacheKind, CodeOrigin, Context, CudaError, CudaStream, Driver, ErrorKind, Module, ModuleOptions,
    carry_kernels,
};

use crate::common::{kernels, simulated, told};

const ROWS: usize = 100;

struct Bench {
    context: Arc<Context>,
    stream: CudaStream,
    kernels: GatherKernels,
}

impl Bench {
    fn new() -> Self {
        let context = Context::primary(0).unwrap();
        let stream = CudaStream::new(&context).unwrap();
        let kernels = kernels(&context);
        Self { context, stream, kernels }
    }

    fn device(&self, bytes: &[u8]) -> DeviceBuffer {
        let mut staging = PinnedBuffer::new(&self.context, bytes.len(), "a test").unwrap();
        staging.as_mut_slice().copy_from_slice(bytes);
        let buffer = DeviceBuffer::new(&self.context, bytes.len(), "a test").unwrap();
        // SAFETY: both have this many bytes, and live until the stream has been waited for.
        unsafe { host_to_device(&self.stream, staging.as_slice(), buffer.address()) }.unwrap();
        self.stream.synchronize().unwrap();
        buffer
    }

    fn host(&self, buffer: &DeviceBuffer) -> Vec<u8> {
        let mut bytes = vec![0; buffer.bytes()];
        // SAFETY: both have this many bytes, and live until the stream has been waited for.
        unsafe { device_to_host(&self.stream, buffer.address(), &mut bytes) }.unwrap();
        self.stream.synchronize().unwrap();
        bytes
    }
}

fn table(row_bytes: usize) -> Vec<u8> {
    (0..ROWS * row_bytes).map(|byte| (byte * 31 + byte / 251) as u8).collect()
}

fn ids_of(width: IdWidth, ids: &[i64]) -> Vec<u8> {
    match width {
        IdWidth::I32 => ids.iter().flat_map(|id| (*id as i32).to_ne_bytes()).collect(),
        IdWidth::I64 => ids.iter().flat_map(|id| id.to_ne_bytes()).collect(),
    }
}

/// Gathers, and returns output and report. Output that is not written is 0xee. `slots`: a map, and the cache's rows.
fn gather(
    bench: &Bench,
    (kernel, width): (Kernel, IdWidth),
    (row_bytes, offset): (usize, usize),
    ids: &[i64],
    slots: Option<(&[i32], &[u8])>,
    bound: GridBound,
) -> (Vec<u8>, GatherReport) {
    let rows = table(row_bytes);
    let mut pinned = PinnedBuffer::new(&bench.context, offset + rows.len() + 64, "the table").unwrap();
    pinned.as_mut_slice()[offset..][..rows.len()].copy_from_slice(&rows);
    let device_ids = bench.device(&ids_of(width, ids));
    let out = DeviceBuffer::new(&bench.context, ids.len() * row_bytes, "the output").unwrap();
    let report = DeviceBuffer::new(&bench.context, GatherReport::BYTES, "the report").unwrap();
    let cached = slots.map(|(map, cache)| {
        let map: Vec<u8> = map.iter().flat_map(|slot| slot.to_ne_bytes()).collect();
        (bench.device(&map), bench.device(cache))
    });
    let arguments = GatherArguments {
        table: pinned.address() + offset as u64,
        rows: ROWS as u64,
        row_bytes: row_bytes as u64,
        ids: device_ids.address(),
        count: ids.len() as u64,
        out: out.address(),
        report: report.address(),
        slot_map: cached.as_ref().map_or(0, |(map, _)| map.address()),
        cache: cached.as_ref().map_or(0, |(_, cache)| cache.address()),
        order: 0,
    };
    // SAFETY: the output has this many bytes and lives until the stream has been waited for, below.
    unsafe { fill(&bench.stream, out.address(), 0xee, out.bytes()) }.unwrap();
    // SAFETY: every buffer has the size that the arguments say, lives until `host` has waited for the stream, and
    // nothing else uses it.
    unsafe { bench.kernels.enqueue(&bench.stream, kernel, width, &arguments, 42, bound) }.unwrap();
    let report = GatherReport::from_bytes(&bench.host(&report).try_into().unwrap());
    (bench.host(&out), report)
}

#[test]
fn every_kernel_gathers_what_a_plain_loop_does() {
    if !cuda_sim::in_process("gather::every_kernel_gathers_what_a_plain_loop_does") {
        return;
    }
    let bench = Bench::new();
    let ids: Vec<i64> = (0..333).map(|index| index * 37 % ROWS as i64).collect();
    for kernel in Kernel::ALL {
        for width in IdWidth::ALL {
            for (row_bytes, offset) in [(1, 0), (16, 4), (480, 0), (516, 3), (1028, 64)] {
                let rows = table(row_bytes);
                let expected: Vec<u8> = ids
                    .iter()
                    .flat_map(|id| &rows[*id as usize * row_bytes..][..row_bytes])
                    .copied()
                    .collect();
                for bound in [GridBound::Device, GridBound::Multiprocessors(2), GridBound::Blocks(1)] {
                    let (out, report) =
                        gather(&bench, (kernel, width), (row_bytes, offset), &ids, None, bound);
                    assert!(out == expected, "{kernel:?} {width:?} {row_bytes} {offset} {bound:?}");
                    assert_eq!(report.stamp, 42);
                    assert_eq!(report.bad(), None);
                    assert!(report.ended_ns >= report.began_ns);
                }
            }
        }
    }
}

#[test]
fn rows_with_a_slot_come_from_the_cache() {
    if !cuda_sim::in_process("gather::rows_with_a_slot_come_from_the_cache") {
        return;
    }
    let bench = Bench::new();
    let ids: Vec<i64> = (0..ROWS as i64).chain([5, 6, 5]).collect();
    let row_bytes = 60;
    // Every fifth row has a slot, in reverse; cached rows differ from the table's, so that the source of each row is
    // visible.
    let mut map = vec![-1; ROWS];
    let cached = ROWS / 5;
    for slot in 0..cached {
        map[(cached - 1 - slot) * 5] = slot as i32;
    }
    let cache = vec![0xcc; cached * row_bytes];
    for kernel in Kernel::ALL {
        for width in IdWidth::ALL {
            let slots = Some((map.as_slice(), cache.as_slice()));
            let (out, report) =
                gather(&bench, (kernel, width), (row_bytes, 0), &ids, slots, GridBound::Device);
            let rows = table(row_bytes);
            for (id, row) in ids.iter().zip(out.chunks(row_bytes)) {
                let id = *id as usize;
                if map[id] >= 0 {
                    assert_eq!(row, &cache[..row_bytes], "{kernel:?} {width:?} row {id}");
                } else {
                    assert_eq!(row, &rows[id * row_bytes..][..row_bytes], "{kernel:?} {width:?} row {id}");
                }
            }
            assert_eq!(report.hits as usize, ids.iter().filter(|id| map[**id as usize] >= 0).count());
        }
    }
}

#[test]
fn an_id_out_of_range_is_reported_and_its_row_is_unchanged() {
    if !cuda_sim::in_process("gather::an_id_out_of_range_is_reported_and_its_row_is_unchanged") {
        return;
    }
    let bench = Bench::new();
    for kernel in Kernel::ALL {
        for width in IdWidth::ALL {
            for bad in [-1, ROWS as i64, i64::from(i32::MIN)] {
                let mut ids: Vec<i64> = (0..50).collect();
                ids[17] = bad;
                ids[40] = ROWS as i64 + 1;
                let (out, report) = gather(&bench, (kernel, width), (24, 0), &ids, None, GridBound::Device);
                assert_eq!(
                    report.bad(),
                    Some(BadId { table: 0, position: 17, id: bad }),
                    "{kernel:?} {width:?}"
                );
                assert_eq!(report.stamp, 42);
                assert!(out[17 * 24..18 * 24].iter().all(|byte| *byte == 0xee));
                assert_eq!(out[16 * 24..17 * 24], table(24)[16 * 24..17 * 24]);
            }
        }
    }
}

#[test]
fn no_ids_are_gathered_too() {
    if !cuda_sim::in_process("gather::no_ids_are_gathered_too") {
        return;
    }
    let (out, report) =
        gather(&Bench::new(), (Kernel::Wide, IdWidth::I64), (8, 0), &[], None, GridBound::Device);
    assert!(out.is_empty());
    assert_eq!((report.stamp, report.bad()), (42, None));
}

#[test]
fn kernels_are_compiled_once_and_then_come_from_the_cache() {
    if !cuda_sim::in_process("gather::kernels_are_compiled_once_and_then_come_from_the_cache") {
        return;
    }
    let nvrtc = match Nvrtc::find(None) {
        Ok(nvrtc) => nvrtc.found().to_owned(),
        Err(error) => {
            assert!(std::env::var_os("UVATRAIN_REQUIRE_NVRTC").is_none(), "{error}");
            eprintln!("skipped: {error}");
            return;
        }
    };
    let context = Context::primary(0).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = ModuleOptions { nvrtc: None, cache: CacheKind::Folder(folder.path().join("kernels")) };
    let load = || {
        let module = Module::gather(&context, &options).unwrap();
        GatherKernels::new(&module).unwrap();
        module.report().clone()
    };
    let first = load();
    assert_eq!((first.origin, first.target.as_deref()), (CodeOrigin::Compiled, Some("sm_90")), "{first:?}");
    assert_eq!(first.note, None);
    assert_eq!(load().origin, CodeOrigin::Cache);
    // One file, whose loss or damage costs only a compilation.
    let file = std::fs::read_dir(folder.path().join("kernels")).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(load().origin, CodeOrigin::Compiled);
    assert_eq!(std::fs::read(&file).unwrap().len(), whole.len());
    assert_eq!(load().origin, CodeOrigin::Cache);
    // Two processes that find the folder empty at once.
    let shared = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = simulated("gather::runs_every_step_and_prints_the_error");
        // NVRTC may be found in the cache folder as well, and this one has none.
        command.env("UVATRAIN_NVRTC", &nvrtc);
        command.env("UVATRAIN_CACHE", shared.path()).stdout(Stdio::piped()).spawn().unwrap()
    };
    for child in [start(), start()] {
        assert_eq!(told(&child.wait_with_output().unwrap(), "OUTCOME "), "fine");
    }
    assert_eq!(std::fs::read_dir(shared.path().join("kernels")).unwrap().count(), 1);
    // A folder that cannot be written is reported and otherwise ignored.
    let nowhere = ModuleOptions { cache: CacheKind::Folder(file.join("below a file")), ..Default::default() };
    let report = Module::gather(&context, &nowhere).unwrap().report().clone();
    assert_eq!(report.origin, CodeOrigin::Compiled);
    assert!(report.note.unwrap().contains("below a file"));
}

/// NVRTC, if this machine has it; CI must have it.
fn nvrtc() -> Option<Nvrtc> {
    match Nvrtc::find(None) {
        Ok(nvrtc) => Some(nvrtc),
        Err(error) => {
            assert!(std::env::var_os("UVATRAIN_REQUIRE_NVRTC").is_none(), "{error}");
            eprintln!("not run: {error}");
            None
        }
    }
}

#[test]
#[ignore = "run by other tests, on a machine of their choice"]
fn loads_the_kernels_as_tests_do_and_prints_their_origin() {
    let context = Context::primary(0).unwrap();
    match Module::gather(&context, &common::module_options()) {
        Ok(module) => println!("ORIGIN {:?}", module.report().origin),
        Err(error) => println!("ORIGIN {error}"),
    }
}

/// The origin of a test program's kernels under these variables.
fn origin(variables: &[(&str, &std::path::Path)]) -> String {
    let mut command = simulated("gather::loads_the_kernels_as_tests_do_and_prints_their_origin");
    command.env_remove("UVATRAIN_KERNELS").env_remove("UVATRAIN_TEST_KERNELS");
    told(&command.envs(variables.iter().copied()).output().unwrap(), "ORIGIN ")
}

#[test]
#[ignore = "18 s of a core: scripts/measure/long_tests.sh"]
fn test_programs_that_share_a_folder_compile_each_kernel_once() {
    // In a separate process: an NVRTC that another test has opened would be found by its bare name.
    if !cuda_sim::in_process("gather::test_programs_that_share_a_folder_compile_each_kernel_once") {
        return;
    }
    let Some(nvrtc) = nvrtc() else { return };
    let folder = tempfile::tempdir().unwrap();
    let variables = [("UVATRAIN_NVRTC", nvrtc.found().as_ref()), ("UVATRAIN_TEST_KERNELS", folder.path())];
    assert_eq!([origin(&variables), origin(&variables)], ["Compiled", "Cache"], "{}", nvrtc.found());
    // Without a folder nothing is stored, and no user's cache is written.
    assert_eq!(origin(&variables[..1]), "Compiled");
}

#[test]
#[ignore = "20 s of a core: scripts/measure/long_tests.sh"]
fn matching_carried_kernels_are_used_before_a_compiler() {
    let test = "gather::matching_carried_kernels_are_used_before_a_compiler";
    if !cuda_sim::in_process(test) {
        return;
    }
    let Some(nvrtc) = nvrtc() else { return };
    let folder = tempfile::tempdir().unwrap();
    let files = carry_kernels(&nvrtc, (9, 0), folder.path()).unwrap();
    assert_eq!(files.len(), 3);
    let nowhere = std::path::Path::new("/nowhere/at/all");
    let carried = ("UVATRAIN_KERNELS", folder.path());
    assert_eq!(origin(&[carried, ("UVATRAIN_NVRTC", nowhere)]), "Carried");
    // On a device of another architecture they count as missing; without a compiler the simulator's own are used.
    let other = ("CUDA_SIM_CAPABILITY", "8.0".as_ref());
    assert_eq!(origin(&[carried, other, ("UVATRAIN_NVRTC", nowhere)]), "Simulator");
    // One byte changed, in what was made of `gather.cu`.
    let gather = files.iter().find(|file| file.to_string_lossy().contains("gather-sm_90")).unwrap();
    let mut bytes = std::fs::read(gather).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(gather, bytes).unwrap();
    assert_eq!(origin(&[carried, ("UVATRAIN_NVRTC", nvrtc.found().as_ref())]), "Compiled");
}

#[test]
fn a_named_compiler_that_does_not_exist_is_an_error_even_here() {
    if !cuda_sim::in_process("gather::a_named_compiler_that_does_not_exist_is_an_error_even_here") {
        return;
    }
    let context = Context::primary(0).unwrap();
    let options = ModuleOptions { nvrtc: Some("/nowhere/at/all".into()), cache: CacheKind::Off };
    let error = Module::gather(&context, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Missing);
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}

/// Uses each of this crate's objects once, and returns the first error, if there is one.
fn everything() -> Result<(), CudaError> {
    let context = Context::primary(0)?;
    context.memory()?;
    let stream = CudaStream::new(&context)?;
    let (start, end) = (uva_cuda::CudaEvent::timing(&context)?, uva_cuda::CudaEvent::timing(&context)?);
    let shared = uva_cuda::CudaEvent::interprocess(&context)?;
    shared.export()?;
    let module = Module::gather(&context, &ModuleOptions::default())?;
    let kernels = GatherKernels::new(&module)?;
    kernels.resources(Kernel::Wide, IdWidth::I64, false)?;
    let mut host = PinnedBuffer::new(&context, 4096, "the table")?;
    let device = DeviceBuffer::new(&context, 4096, "the slot")?;
    start.record(&stream)?;
    // SAFETY: both have this many bytes and live until the stream has been waited for, or this process ends.
    unsafe { fill(&stream, device.address(), 0, 4096) }?;
    // SAFETY: as above.
    unsafe { host_to_device(&stream, &host.as_slice()[..1024], device.address()) }?;
    let arguments = GatherArguments {
        table: host.address(),
        rows: 8,
        row_bytes: 100,
        ids: device.address(),
        count: 4,
        out: device.address() + 1024,
        report: device.address() + 2048,
        slot_map: 0,
        cache: 0,
        order: 0,
    };
    // SAFETY: the ids are zeros; all lies within the two buffers, without overlap.
    unsafe { kernels.enqueue(&stream, Kernel::Wide, IdWidth::I64, &arguments, 1, GridBound::Device) }?;
    end.record(&stream)?;
    stream.wait(&end)?;
    // SAFETY: as above.
    unsafe { device_to_host(&stream, device.address(), &mut host.as_mut_slice()[2048..]) }?;
    end.query()?;
    stream.query()?;
    end.synchronize()?;
    stream.synchronize()?;
    context.synchronize()?;
    uva_cuda::CudaEvent::elapsed_ms(&start, &end)?;
    Ok(())
}

#[test]
#[ignore = "run by another test, with faults of its choice"]
fn runs_every_step_and_prints_the_error() {
    match everything() {
        Ok(()) => println!("OUTCOME fine"),
        Err(error) => println!("OUTCOME {error}"),
    }
}

/// Functions whose errors cannot be reported, and functions that the objects above do not call.
fn is_told(function: &str) -> bool {
    let silent =
        ["cuDevicePrimaryCtxRelease", "cuStreamDestroy", "cuEventDestroy", "cuMemFree", "cuModuleUnload"];
    !silent.iter().any(|name| function.starts_with(name))
}

#[test]
fn a_fault_in_any_call_names_the_call_and_its_purpose() {
    if !cuda_sim::in_process("gather::a_fault_in_any_call_names_the_call_and_its_purpose") {
        return;
    }
    // One of each class: memory, invalid, unsupported, launch failure, MPS client terminated.
    let codes = [
        (2, "CUDA_ERROR_OUT_OF_MEMORY"),
        (1, "CUDA_ERROR_INVALID_VALUE"),
        (801, "CUDA_ERROR_NOT_SUPPORTED"),
        (719, "CUDA_ERROR_LAUNCH_FAILED"),
        (810, "CUDA_ERROR_MPS_CLIENT_TERMINATED"),
    ];
    // With NVRTC, the kernels are compiled once and not for each fault.
    let cache = tempfile::tempdir().unwrap();
    let outcome_with = |fault: &str| {
        let mut command = simulated("gather::runs_every_step_and_prints_the_error");
        let output =
            command.env("CUDA_SIM_FAIL", fault).env("UVATRAIN_CACHE", cache.path()).output().unwrap();
        told(&output, "OUTCOME ")
    };
    assert_eq!(outcome_with(""), "fine");
    let mut told_of = 0;
    for (index, function) in Driver::functions().iter().enumerate() {
        let (code, name) = codes[index % codes.len()];
        let outcome = outcome_with(&format!("{function}:1={code}"));
        if outcome == "fine" {
            continue;
        }
        assert!(is_told(function), "{function}: {outcome}");
        let documented = function.split("_v").next().unwrap();
        assert!(outcome.contains(documented), "{function}: {outcome}");
        assert!(outcome.contains(name), "{function}: {outcome}");
        told_of += 1;
    }
    // The objects above call at least this many different functions whose errors can be reported.
    assert!(told_of >= 30, "{told_of}");
}
