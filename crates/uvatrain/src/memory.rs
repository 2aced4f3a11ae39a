//! Messages of a command that runs out of memory: the limits in force, and its options that use less.

use uva_mem::out_of_memory::{self, MemoryLimits, NotedAllocator, OUT_OF_MEMORY};

use crate::exit::Code;

/// The allocator of both programs, which records a refused allocation for the message.
#[global_allocator]
static ALLOCATOR: NotedAllocator = NotedAllocator;

/// From now on, if this process aborts because memory runs out, it prints a line with the reason and this remedy, and
/// ends as its kind does: a role with a code that its launcher recognises.
pub fn end_with_a_line(is_role: bool, remedy: &'static str) {
    let code = if is_role { OUT_OF_MEMORY } else { Code::Failed as u8 };
    // If the handler is refused, the process ends by SIGABRT, as it would have.
    let _ = out_of_memory::end_with_a_line(remedy, code);
}

/// Limits and remedy, to follow an error's line that concerns memory; empty for any other error.
pub fn explained(line: &str, remedy: &str) -> String {
    // The wording of each source: the system (ENOMEM), libstdc++, libtorch, and the roles.
    let signs = ["(os error 12)", "bad_alloc", "can't allocate memory", "not enough memory", "out of memory"];
    let is_of_memory = signs.iter().any(|sign| line.contains(sign)) && !line.contains("CUDA");
    if is_of_memory { format!("{}{remedy}", MemoryLimits::now()) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_memory_get_the_remedy_and_others_nothing() {
        for line in [
            "graph/feat.npy: cannot open: Cannot allocate memory (os error 12)",
            "libtorch: DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes",
            "libtorch: std::bad_alloc",
            "the consumer ran out of memory at train batch 1 of epoch 1",
        ] {
            assert!(explained(line, "; take less").ends_with("; take less"), "{line}");
        }
        for line in ["graph/feat.npy: No such file or directory (os error 2)", "libtorch: CUDA out of memory"]
        {
            assert_eq!(explained(line, "; take less"), "", "{line}");
        }
    }
}
