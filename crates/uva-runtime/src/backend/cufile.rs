//! A trial of cuFile, in a separate process, with reads of these files into the memory of a GPU.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uva_cuda::Context;
use uva_rows::cuda::try_direct_reads;

use super::probe::answer_of;
use crate::machine::own_program;

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CufileReport {
    /// The reason why it does not work; absent if it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The reason why it passes through host memory; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
}

impl CufileReport {
    /// Reads the beginning of each of these files into memory of this GPU, in this process.
    #[must_use]
    pub fn here(ordinal: usize, files: &[PathBuf]) -> Self {
        let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let context = Context::primary(ordinal).map_err(|error| error.to_string());
        match context.and_then(|context| try_direct_reads(&context, &paths)) {
            Ok(compatibility) => Self { refused: None, compatibility },
            Err(refused) => Self { refused: Some(refused), compatibility: None },
        }
    }

    /// Runs the trial in a separate process, in an environment that differs from this one by these variables. A process
    /// without an answer counts as a refusal.
    #[must_use]
    pub fn in_child(environment: &[(String, Option<String>)], ordinal: usize, files: &[PathBuf]) -> Self {
        let mut arguments = vec!["--cufile".into(), ordinal.to_string().into()];
        arguments.extend(files.iter().map(|file| file.as_os_str().to_owned()));
        answer_of(&own_program(), &arguments, environment).unwrap_or_else(|reason| {
            let refused = format!("its trial gave no answer: {reason}");
            Self { refused: Some(refused), compatibility: None }
        })
    }
}
