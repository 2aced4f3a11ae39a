//! What a command requires of the machine, and how it takes less memory.

/// The machine's resources that a command needs, checked before it starts, and its options that lower its memory.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// The command starts or searches processes.
    proc: bool,
    /// The command processes whole arrays in parallel.
    threads: bool,
    /// The options that lower the command's memory, as the end of a message.
    pub remedy: &'static str,
}

impl Needs {
    /// Nothing.
    pub const NOTHING: Needs = Needs { proc: false, threads: false, remedy: "" };
    /// Starts or searches processes.
    pub const PROCESSES: Needs = Needs { proc: true, ..Needs::NOTHING };
    /// Processes whole arrays in parallel, or opens datasets of any origin.
    pub const THREADS: Needs = Needs { threads: true, ..Needs::NOTHING };
    /// Both.
    pub const PROCESSES_AND_THREADS: Needs = Needs { proc: true, threads: true, remedy: "" };

    /// The same for a command whose memory these options lower.
    pub const fn with_remedy(self, remedy: &'static str) -> Needs {
        Needs { remedy, ..self }
    }

    /// Checks that the machine has them, and starts the threads.
    pub fn check(self) -> anyhow::Result<()> {
        if self.proc {
            uva_runtime::machine::check_proc()?;
        }
        if self.threads {
            uva_runtime::machine::start_threads()?;
        }
        Ok(())
    }
}
