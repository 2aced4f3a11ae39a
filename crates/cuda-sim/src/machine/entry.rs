//! The common part of every entry point: counting, fault injection, checks, and no unwinding into C.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use crate::machine::codes::{Code, Outcome};
use crate::machine::functions::Exported;
use crate::machine::registry::lock;
use crate::machine::settings::{role, settings};
use crate::machine::{context, device};

/// The preconditions of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// No precondition, not even `cuInit`.
    Nothing,
    /// `cuInit`.
    Init,
    /// A context current on this thread, which must be valid.
    Context,
    /// A context current on this thread. If it is lost, the work is done anyway (it frees an object) and the context's
    /// error is returned, as in the driver.
    Release,
}

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body` as the work of the function at `place` of the table, and returns the CUresult.
pub fn call(
    functions: &'static [Exported],
    place: usize,
    needs: Needs,
    body: impl FnOnce() -> Outcome,
) -> u32 {
    // Unwinding through C frames is undefined. State is consistent after a panic: see `registry::lock`.
    let outcome = catch_unwind(AssertUnwindSafe(|| attempt(functions, place, needs, body)));
    match outcome {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code.0,
        Err(_) => {
            eprintln!("cuda-sim: {} panicked", functions[place].name);
            Code::UNKNOWN.0
        }
    }
}

fn attempt(
    functions: &'static [Exported],
    place: usize,
    needs: Needs,
    body: impl FnOnce() -> Outcome,
) -> Outcome {
    let nth = functions[place].calls.fetch_add(1, Ordering::Relaxed) + 1;
    let Ok(settings) = settings(functions) else {
        // `cuInit` reports errors of the environment.
        return if needs == Needs::Nothing { body() } else { Err(Code::NOT_INITIALIZED) };
    };
    if let Some(folder) = &settings.counts {
        write_count(folder, &functions[place]);
    }
    if let Some(code) = settings.fault(place, nth) {
        if code.is_sticky()
            && let Ok(current) = context::current()
        {
            current.poison(code);
        }
        return Err(code);
    }
    if needs == Needs::Nothing {
        return body();
    }
    if IN_HOST_FUNCTION.get() {
        return Err(Code::NOT_PERMITTED);
    }
    if !device::is_initialised() {
        return Err(Code::NOT_INITIALIZED);
    }
    match needs {
        Needs::Nothing | Needs::Init => body(),
        Needs::Context => {
            context::current()?.check()?;
            body()
        }
        Needs::Release => {
            let current = context::current()?;
            let outcome = body();
            current.check()?;
            outcome
        }
    }
}

/// Runs a host function of a stream, in which no call into the driver is allowed.
pub fn in_host_function(function: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    function();
    IN_HOST_FUNCTION.set(false);
}

/// The file of counts: a line of fixed length for each function called, in the order of their first calls.
struct CountsFile {
    file: Option<File>,
    lines: Vec<&'static str>,
}

/// Length of a line: the name, a space, the digits and the line feed.
const LINE: usize = 64;

/// Updates the count of one function. The file is always current, even for a killed process.
fn write_count(folder: &Path, function: &'static Exported) {
    static FILE: Mutex<CountsFile> = Mutex::new(CountsFile { file: None, lines: Vec::new() });
    let mut counts = lock(&FILE);
    if counts.file.is_none() {
        let role: String =
            role().chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
        let role = if role.is_empty() { "process" } else { &role };
        let path = folder.join(format!("{role}-{}.counts", std::process::id()));
        match File::create(&path) {
            Ok(file) => counts.file = Some(file),
            Err(error) => panic!("CUDA_SIM_COUNTS: {}: {error}", path.display()),
        }
    }
    let name = function.name;
    let line = counts.lines.iter().position(|&known| known == name).unwrap_or_else(|| {
        counts.lines.push(name);
        counts.lines.len() - 1
    });
    let digits = LINE - name.len() - 2;
    // Read under the lock, so that a later line never has a smaller count.
    let text = format!("{name} {:0digits$}\n", function.calls.load(Ordering::Relaxed));
    if let Some(file) = &counts.file
        && let Err(error) = file.write_all_at(text.as_bytes(), (line * LINE) as u64)
    {
        panic!("CUDA_SIM_COUNTS: {error}");
    }
}
