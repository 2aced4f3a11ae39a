//! The end of a process.

use std::io::Write;

/// Ends the process with this exit code, without destructors of static objects and hooks of `atexit`: those of a large
/// library take longer than what they free is worth, since the kernel frees it too. What is buffered for stdout is
/// written before. Other threads end where they are.
pub fn end_at_once(code: u8) -> ! {
    // A reader who has left has read enough.
    let _ = std::io::stdout().flush();
    // SAFETY: `_exit` may be called at any time. Nothing of this process is left that could see what was not destroyed.
    unsafe { libc::_exit(i32::from(code)) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// What it takes to end a process is there in one of its own: this test runs itself.
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
