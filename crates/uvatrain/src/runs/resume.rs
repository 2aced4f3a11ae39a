//! How to resume an interrupted training run.

use std::ffi::{OsStr, OsString};

use uva_launch::training::TrainingOptions;
use uva_model::checkpoint;

use crate::config;
use crate::ui::shell;

/// The command that resumes this run, or what a run needs to be resumable.
pub fn advice(options: &TrainingOptions) -> String {
    let Some(directory) = &options.checkpoint else {
        return "nothing was kept: with --checkpoint DIR, an interrupted run can be resumed".to_owned();
    };
    if checkpoint::look(directory).is_none() {
        return "no checkpoint has been written yet: the same command starts again".to_owned();
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let is_typed = words.iter().any(|word| word == OVERWRITE);
    let first = match config::file_read() {
        // On the command line it would contradict the file.
        Some(file) if options.overwrite_checkpoint && !is_typed => {
            format!("remove overwrite-checkpoint from {}, then ", file.display())
        }
        _ => String::new(),
    };
    format!("to resume: {first}{}", line(words))
}

const OVERWRITE: &str = "--overwrite-checkpoint";

/// The same command line with `--resume`.
fn line(words: Vec<OsString>) -> String {
    let is_resumed = words.iter().any(|word| word == "--resume");
    let more = (!is_resumed).then(|| OsStr::new("--resume").to_owned());
    let words = words.into_iter().filter(|word| word != OVERWRITE).chain(more);
    words.map(shell::word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_resumes_and_replaces_no_checkpoint() {
        let of = |words: &[&str]| line(words.iter().map(OsString::from).collect());
        assert_eq!(
            of(&["uvatrain", "train", "my data", "--checkpoint", "run1", "--overwrite-checkpoint"]),
            "uvatrain train 'my data' --checkpoint run1 --resume"
        );
        assert_eq!(
            of(&["uvatrain", "train", "d", "--resume", "--checkpoint=k"]),
            "uvatrain train d --resume --checkpoint=k"
        );
    }
}
