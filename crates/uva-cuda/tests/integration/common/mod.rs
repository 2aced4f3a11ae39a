//! Shared code of the tests under the simulator.

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use uva_cuda::kernels::gather::GatherKernels;
use uva_cuda::memory::PinnedBuffer;
use uva_cuda::{CacheKind, Context, CudaStream, Module, ModuleOptions};

/// A command that runs one of the ignored tests of this test program.
pub fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command
}

/// As [`again`], under the simulator.
pub fn simulated(test: &str) -> Command {
    let mut command = again(test);
    cuda_sim::environment(&mut command);
    command
}

/// The text that a child printed after `mark`, up to the end of the line.
pub fn told(output: &Output, mark: &str) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    // The test harness may have begun the line.
    let line = text.lines().find_map(|line| Some(line.split_once(mark)?.1.to_owned()));
    line.unwrap_or_else(|| panic!("nothing after {mark:?} in {text}"))
}

/// Compiled kernels are stored in the folder that the harness names, so that successive test programs compile each
/// once; without a folder they are not stored.
pub fn module_options() -> ModuleOptions {
    let cache = cuda_sim::kernel_cache().map_or(CacheKind::Off, CacheKind::Folder);
    ModuleOptions { cache, ..Default::default() }
}

/// The gather kernels.
pub fn kernels(context: &Arc<Context>) -> GatherKernels {
    GatherKernels::new(&Module::gather(context, &module_options()).unwrap()).unwrap()
}

/// Holds a stream until it is released.
pub struct Hold {
    flag: PinnedBuffer,
}

impl Hold {
    pub fn new(context: &Arc<Context>, kernels: &GatherKernels, stream: &CudaStream) -> Self {
        let flag = PinnedBuffer::new(context, 4, "a flag").unwrap();
        // SAFETY: the flag is zero, lives until this value is dropped, which releases the stream first, and is aligned
        // to a page.
        unsafe { kernels.spin_until(stream, flag.address()) }.unwrap();
        Self { flag }
    }

    pub fn let_go(&self) {
        // SAFETY: 4 aligned bytes that live; there is no reference to them, and the kernel only reads them.
        unsafe { AtomicU32::from_ptr(self.flag.as_ptr().cast_mut().cast()) }.store(1, Ordering::Release);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.let_go();
    }
}
