//! Immediate exit of a process.

use std::io::Write;

/// Ends the process with this exit code, without running destructors of static objects and `atexit` hooks: those of a
/// large library take long, and the kernel frees their memory anyway. Buffered stdout is flushed first. Other threads
/// end immediately.
pub fn end_at_once(code: u8) -> ! {
    // A closed stdout is not an error.
    let _ = std::io::stdout().flush();
    // SAFETY: `_exit` may be called at any time. No code of this process runs afterwards that could see undestroyed
    // objects.
    unsafe { libc::_exit(i32::from(code)) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// The process must be a separate one: this test runs its own executable.
    #[test]
    fn a_process_that_ends_at_once_has_written_its_output_and_exit_code() {
        const MARK: &str = "UVA_MEM_ENDS_AT_ONCE";
        if std::env::var_os(MARK).is_some() {
            print!("no end of a line");
            super::end_at_once(43);
        }
        let name = "process::end::tests::a_process_that_ends_at_once_has_written_its_output_and_exit_code";
        let program = std::env::current_exe().expect("the path of this executable");
        let output = Command::new(program)
            .args(["--exact", name, "--nocapture"])
            .env(MARK, "1")
            .output()
            .expect("this executable runs");
        assert_eq!(output.status.code(), Some(43));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.ends_with("no end of a line"), "{said}");
    }
}
