//! Modules, functions and launches.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use uva_kernels::EntryPoint;

use crate::device_memory::held_kernels;
use crate::execution::kernels::{self, Parameters};
use crate::execution::stream;
use crate::machine::codes::{Code, Outcome};
use crate::machine::context::{self, Context, must_be_current};
use crate::machine::device::{
    BLOCKS_PER_MULTIPROCESSOR, SHARED_MEMORY_PER_BLOCK, SHARED_MEMORY_PER_BLOCK_OPTIN,
    SHARED_MEMORY_PER_MULTIPROCESSOR, THREADS_PER_MULTIPROCESSOR, configured,
};
use crate::machine::registry::{Registry, give, number, pointer};

/// The text that stands for a module of every kernel there is.
const TEXT_IMAGE: &[u8] = b"uva-kernel-sim";

const MAX_THREADS_PER_BLOCK: u32 = 1024;

struct Module {
    context: Arc<Context>,
    /// The functions of the module; `None` for all.
    names: Option<Vec<String>>,
}

struct Function {
    module: u64,
    context: Arc<Context>,
    entry: EntryPoint,
    max_dynamic_shared: AtomicI32,
}

static MODULES: Registry<Module> = Registry::new();
static FUNCTIONS: Registry<Function> = Registry::new();

/// Removes the modules of a context that is being destroyed.
pub fn end_all_of(context: &Arc<Context>) {
    MODULES.retain(|module| !context::same(&module.context, context));
    FUNCTIONS.retain(|function| !context::same(&function.context, context));
}

/// Reads an image's function names.
///
/// # Safety
/// `image` is a complete cubin, or a text with a closing zero.
unsafe fn read_image(image: *const u8) -> Result<Option<Vec<String>>, Code> {
    let starts_with = |text: &[u8]| {
        // Byte by byte, and no further than the first that differs: a text may end early.
        // SAFETY: all bytes before were equal, none of them a zero, so this one still belongs to the image.
        text.iter().enumerate().all(|(index, &byte)| unsafe { image.add(index).read() } == byte)
    };
    if starts_with(TEXT_IMAGE) {
        return Ok(None);
    }
    if !starts_with(b"\x7fELF\x02\x01") {
        return Err(Code::INVALID_IMAGE);
    }
    // SAFETY: an ELF file begins with a header of 64 bytes, and the caller promises a complete one.
    let header = unsafe { std::slice::from_raw_parts(image, 64) };
    let bytes = elf_bytes(header).ok_or(Code::INVALID_IMAGE)?;
    // SAFETY: a complete file with that header has this length.
    let file = unsafe { std::slice::from_raw_parts(image, bytes) };
    let (major, minor) = configured()?.capability;
    match elf_architecture(header) {
        // One cubin runs on its own major version, and on the same or a later minor one.
        Some((built_major, built_minor)) if built_major != major || built_minor > minor => {
            Err(Code::NO_BINARY_FOR_GPU)
        }
        _ => elf_functions(file).map(Some).ok_or(Code::INVALID_IMAGE),
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?).into())
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?)).ok()
}

/// Length of the file, from its header: compilers put one of its two tables last.
fn elf_bytes(header: &[u8]) -> Option<usize> {
    // EM_CUDA.
    if half(header, 18)? != 190 {
        return None;
    }
    let programs = long(header, 32)?.checked_add(half(header, 54)? * half(header, 56)?)?;
    let sections = long(header, 40)?.checked_add(half(header, 58)? * half(header, 60)?)?;
    Some(programs.max(sections)).filter(|&bytes| bytes < 1 << 30)
}

/// The compute capability in the header's flags: in bits 8 to 15 since CUDA 13's ABI (8), in the low byte before.
fn elf_architecture(header: &[u8]) -> Option<(i32, i32)> {
    let flags = word(header, 48)?;
    let number = (if header[8] >= 8 { flags >> 8 } else { flags } & 0xff) as i32;
    (number >= 50).then_some((number / 10, number % 10))
}

/// The names of the functions in the symbol table.
fn elf_functions(file: &[u8]) -> Option<Vec<String>> {
    let (sections, entry, count) = (long(file, 40)?, half(file, 58)?, half(file, 60)?);
    let section = |index: usize| file.get(sections.checked_add(index.checked_mul(entry)?)?..);
    let contents = |section: &[u8]| {
        let (at, bytes) = (long(section, 24)?, long(section, 32)?);
        file.get(at..at.checked_add(bytes)?)
    };
    let mut names = Vec::new();
    for index in 0..count {
        let table = section(index)?;
        // SHT_SYMTAB.
        if word(table, 4)? != 2 {
            continue;
        }
        let strings = contents(section(word(table, 40)? as usize)?)?;
        for symbol in contents(table)?.chunks_exact(24) {
            // STT_FUNC.
            if symbol[4] & 0xf == 2 {
                let name = strings.get(word(symbol, 0)? as usize..)?;
                names.push(CStr::from_bytes_until_nul(name).ok()?.to_str().ok()?.to_owned());
            }
        }
    }
    Some(names)
}

/// # Safety
/// `module` is null or writable; `image` is null or a complete image.
pub unsafe fn load(module: *mut *mut c_void, image: *const c_void) -> Outcome {
    if module.is_null() || image.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let context = context::current()?;
    // SAFETY: the caller's promise.
    let names = unsafe { read_image(image.cast::<u8>()) }?;
    let handle = MODULES.insert(Arc::new(Module { context, names }));
    // SAFETY: the caller's promise.
    unsafe { give(module, pointer(handle)) }
}

pub fn unload(module: *mut c_void) -> Outcome {
    let handle = number(module);
    MODULES.remove(handle)?;
    FUNCTIONS.retain(|function| function.module != handle);
    Ok(())
}

/// # Safety
/// `function` is null or writable; `name` is null or a C string.
pub unsafe fn function(function: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> Outcome {
    if function.is_null() || name.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let of = MODULES.get(number(module))?;
    must_be_current(&of.context)?;
    // SAFETY: not null, and a C string by the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| Code::NOT_FOUND)?;
    if of.names.as_ref().is_some_and(|names| !names.iter().any(|known| known == name)) {
        return Err(Code::NOT_FOUND);
    }
    let Some(entry) = kernels::find(name) else {
        eprintln!("cuda-sim: the image has a function {name}, the kernels compiled for the host have none");
        return Err(Code::NOT_FOUND);
    };
    let handle = FUNCTIONS.insert(Arc::new(Function {
        module: number(module),
        context: of.context.clone(),
        entry,
        max_dynamic_shared: AtomicI32::new(SHARED_MEMORY_PER_BLOCK as i32),
    }));
    // SAFETY: the caller's promise.
    unsafe { give(function, pointer(handle)) }
}

/// # Safety
/// `value` is null or writable.
pub unsafe fn attribute(value: *mut c_int, attribute: c_uint, function: *mut c_void) -> Outcome {
    let function = FUNCTIONS.get(number(function))?;
    let (major, minor) = configured()?.capability;
    let known = match attribute {
        0 => MAX_THREADS_PER_BLOCK as c_int,
        // Static shared, constant and local memory; cache mode.
        1..=3 | 7 => 0,
        4 => REGISTERS_PER_THREAD as c_int,
        5 | 6 => major * 10 + minor,
        8 => function.max_dynamic_shared.load(Ordering::Relaxed),
        9 => -1,
        10..=15 => 0,
        _ => return Err(Code::INVALID_VALUE),
    };
    // SAFETY: the caller's promise.
    unsafe { give(value, known) }
}

pub fn set_attribute(function: *mut c_void, attribute: c_uint, value: c_int) -> Outcome {
    let function = FUNCTIONS.get(number(function))?;
    match attribute {
        8 if (0..=SHARED_MEMORY_PER_BLOCK_OPTIN as c_int).contains(&value) => {
            function.max_dynamic_shared.store(value, Ordering::Relaxed);
            Ok(())
        }
        9 if (-1..=100).contains(&value) => Ok(()),
        _ => Err(Code::INVALID_VALUE),
    }
}

/// An assumed register count, since there is no compiler.
const REGISTERS_PER_THREAD: u32 = 32;

/// # Safety
/// `blocks` is null or writable.
pub unsafe fn occupancy(blocks: *mut c_int, function: *mut c_void, threads: c_int, shared: usize) -> Outcome {
    FUNCTIONS.get(number(function))?;
    let threads = u32::try_from(threads).ok().filter(|t| (1..=MAX_THREADS_PER_BLOCK).contains(t));
    let threads = threads.ok_or(Code::INVALID_VALUE)?.next_multiple_of(32);
    let by_threads = (THREADS_PER_MULTIPROCESSOR / threads).min(BLOCKS_PER_MULTIPROCESSOR);
    let by_registers = 65_536 / (REGISTERS_PER_THREAD * threads);
    // The system keeps 1 KiB a block for itself.
    let by_shared = SHARED_MEMORY_PER_MULTIPROCESSOR as usize / (shared + 1024);
    // SAFETY: the caller's promise.
    unsafe { give(blocks, (by_threads.min(by_registers) as usize).min(by_shared) as c_int) }
}

/// # Safety
/// `parameters` is what the function's parameters are, as the driver's documentation says of `kernelParams`.
pub unsafe fn launch(
    function: *mut c_void,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: *mut c_void,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Outcome {
    let function = FUNCTIONS.get(number(function))?;
    must_be_current(&function.context)?;
    let queue = stream::queue(stream)?;
    // The other way of passing parameters is not used by this project.
    if !extra.is_null() {
        return Err(Code::NOT_SUPPORTED);
    }
    if grid.contains(&0)
        || block.contains(&0)
        || grid[1] > 65_535
        || grid[2] > 65_535
        || grid[0] > i32::MAX as u32
    {
        return Err(Code::INVALID_VALUE);
    }
    let threads = block.iter().map(|&n| u64::from(n)).product::<u64>();
    let shared_limit = function.max_dynamic_shared.load(Ordering::Relaxed);
    if threads > MAX_THREADS_PER_BLOCK.into()
        || block[2] > 64
        || i64::from(shared_bytes) > shared_limit.into()
    {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let mut copied = unsafe { Parameters::copy(parameters, function.entry.takes.sizes()) }?;
    let held = kernels::waits_for(function.entry.takes, &copied).map(held_kernels::Launch::of);
    queue.enqueue(move |_| {
        let _held = held;
        kernels::run(function.entry, grid, block, shared_bytes, &mut copied)
    });
    Ok(())
}
