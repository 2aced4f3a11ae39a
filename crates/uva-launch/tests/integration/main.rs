//! MPS as a launcher uses it. `gpu_processes` beside it is alone: its executable is also its roles.

mod mps;
