//! Messages of a command that runs out of memory: the limits in force, and its options that use less.

use uva_mem::out_of_memory::{self, MemoryLimits, NotedAllocator, OUT_OF_MEMORY};

use crate::exit::Code;
use crate::flags::{BenchCommand, Command};

/// The allocator of both programs, which records a refused allocation for the message.
#[global_allocator]
static ALLOCATOR: NotedAllocator = NotedAllocator;

/// From now on, if this process aborts because memory runs out, it prints a line with the reason and ends as its kind
/// does: a role with a code that its launcher recognises.
pub fn end_with_a_line(command: &Command) {
    let (remedy, code) = match is_role(command) {
        true => ("", OUT_OF_MEMORY),
        false => (remedy(command), Code::Failed as u8),
    };
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

fn is_role(command: &Command) -> bool {
    matches!(
        command,
        Command::Sampler(_)
            | Command::Producer(_)
            | Command::Worker(_)
            | Command::Consumer(_)
            | Command::Planner(_)
            | Command::Janitor(_)
            | Command::Probe(_)
    )
}

/// The options of a command that lower its memory, as the end of a message.
pub fn remedy(command: &Command) -> &'static str {
    match command {
        Command::Train(_) => {
            "; smaller --batch-size, --fanouts and --hidden, fewer --slots, --samplers and --train-threads, and --eval \
             sampled take less"
        }
        Command::Run(_) => "; smaller --batch-size and --fanouts, and fewer --slots and --samplers take less",
        Command::Predict(_) | Command::Evaluate(_) => {
            "; --eval sampled, a smaller --batch-size with it, and fewer --threads take less"
        }
        Command::Plan(_) => "; smaller --batch-size and --fanouts, and fewer --samplers take less",
        Command::Propagate(_) | Command::Partition(_) | Command::Import(_) => {
            "; a smaller --memory takes less"
        }
        Command::Generate(_) => {
            "; fewer --nodes, a smaller --avg-degree or --feat-dim, and fewer --threads take less"
        }
        Command::Bench(BenchCommand::Sample(_)) => {
            "; smaller --batch-size and --fanouts, and fewer --threads take less"
        }
        Command::Bench(BenchCommand::Pipeline(_) | BenchCommand::Cache(_) | BenchCommand::Partition(_)) => {
            "; smaller --batch-size and --fanouts take less"
        }
        Command::Bench(BenchCommand::Gather(_)) => "; a smaller table and fewer --threads take less",
        _ => "",
    }
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
