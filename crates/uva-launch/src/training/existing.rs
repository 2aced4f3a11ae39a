//! Rejects, before any process starts, the replacement of an existing checkpoint.

use std::path::Path;
use std::time::{Duration, SystemTime};

use uva_model::checkpoint::{self, CheckpointFacts, FoundContent};

use super::state::TrainingState;
use uva_runtime::RuntimeError;

/// Rejects a directory with a checkpoint; the message describes the checkpoint and the remedies.
///
/// # Errors
/// [`RuntimeError::Usage`].
pub(super) fn refuse(directory: &Path) -> Result<(), RuntimeError> {
    let Some(found) = checkpoint::look(directory) else { return Ok(()) };
    let problem = format!(
        "the directory contains {}. Give `resume` to continue from it, or `overwrite_checkpoint` to replace it",
        described(&found, SystemTime::now())
    );
    Err(RuntimeError::usage(problem)
        .with_path_option("checkpoint", directory)
        .with_remedy("or use another directory"))
}

fn described(found: &CheckpointFacts, now: SystemTime) -> String {
    let age = found.written.and_then(|written| now.duration_since(written).ok());
    let when = age.map_or_else(String::new, |age| format!(", written {} ago", rounded(age)));
    match &found.content {
        None => format!("a checkpoint.json that cannot be read{when}"),
        Some(FoundContent { model, state }) => {
            let trained = serde_json::from_value::<TrainingState>(state.clone()).map(|state| {
                let epochs = counted(state.cursor.epoch, "epoch", "epochs");
                let batches = counted(state.cursor.batch, "batch", "batches");
                match (state.cursor.epoch, state.cursor.batch) {
                    (_, 0) => format!(" after {epochs}"),
                    (0, _) => format!(" after {batches}"),
                    _ => format!(" after {epochs} and {batches}"),
                }
            });
            format!("a checkpoint of a {model} model{}{when}", trained.unwrap_or_default())
        }
    }
}

fn counted(number: u32, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// In the largest unit that gives at least one.
fn rounded(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_existing_checkpoint_is_shown_with_its_model_batches_and_age() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let found = |epoch: u32, batch: u32, age: u64| CheckpointFacts {
            written: Some(now - Duration::from_secs(age)),
            content: Some(FoundContent {
                model: "sage".to_owned(),
                state: serde_json::to_value(TrainingState {
                    cursor: uva_runtime::options::Cursor { epoch, batch },
                    ..TrainingState::default()
                })
                .unwrap(),
            }),
        };
        for (found, told) in [
            (found(3, 0, 7), "a checkpoint of a sage model after 3 epochs, written 7 s ago"),
            (found(0, 1, 120), "a checkpoint of a sage model after 1 batch, written 2 min ago"),
            (
                found(1, 12, 7200),
                "a checkpoint of a sage model after 1 epoch and 12 batches, written 2 h ago",
            ),
            (
                CheckpointFacts { written: Some(now - Duration::from_secs(200_000)), content: None },
                "a checkpoint.json that cannot be read, written 2 days ago",
            ),
            // The age is unknown if the clock was set back.
            (
                CheckpointFacts {
                    written: Some(now + Duration::from_secs(9)),
                    content: Some(FoundContent { model: "gcn".to_owned(), state: json!(null) }),
                },
                "a checkpoint of a gcn model",
            ),
        ] {
            assert_eq!(described(&found, now), told);
        }
    }
}
