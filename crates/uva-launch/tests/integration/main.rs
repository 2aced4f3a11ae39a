//! MPS as used by a launcher. `gpu_processes` is a separate program: its executable also runs as its roles.

mod mps;
