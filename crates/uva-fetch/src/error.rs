//! Errors: precise ones within the crate, and one that callers see, by what they can do about it.

use object_store::Error as StoreError;
use uva_graph::GraphError;

use crate::answer::{Answer, Kind};

/// Why nothing was fetched. Its display is one line with the URL or the file, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// What was asked for has to change: the URL, a name, or a variable of the environment.
    #[error("{url}: {message}")]
    Refused {
        /// What was to be fetched.
        url: String,
        /// The fault, and its remedy.
        message: String,
    },
    /// The store or the way to it failed, or an object changed meanwhile. A second try may succeed.
    #[error("{url}: {message}")]
    Store {
        /// What was to be fetched.
        url: String,
        /// What happened, and what to do.
        message: String,
    },
    /// The local directory cannot be written, exists already, or is larger than the room on its disk.
    #[error(transparent)]
    Local(#[from] GraphError),
}

impl FetchError {
    /// Whether an option, a name or a variable is at fault, not the store or the system: a command line then exits with
    /// code 2.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            FetchError::Refused { .. } => true,
            FetchError::Store { .. } => false,
            FetchError::Local(error) => error.is_bad_input(),
        }
    }
}

/// What went wrong, before it is known which URL it was about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("a URL of an object store is s3://BUCKET/PREFIX or file:///DIRECTORY")]
    Url,
    #[cfg(not(feature = "s3"))]
    #[error("S3 was left out of this program: build it with the feature s3")]
    WithoutS3,
    #[cfg(feature = "s3")]
    #[error("'{bucket}' is no name of a bucket: it has letters, digits, dots, hyphens and underscores only")]
    Bucket { bucket: String },
    #[error("there is no such directory")]
    NoDirectory,
    #[cfg(feature = "s3")]
    #[error("the variables AWS_* describe no store: {source}")]
    Settings { source: StoreError },
    #[error("no object is below this: compare bucket and prefix with a listing of the store")]
    Nothing,
    #[error("nothing is named {only} there; beside the files at the top there is {there}")]
    NoSuchPart { only: String, there: String },
    #[error("{name:?} cannot become a file below a directory: {fault}")]
    Name { name: String, fault: &'static str },
    #[error("{name} is an object and also the directory of others: a disk has room for one of the two")]
    FileAndDirectory { name: String },
    #[error(
        "{source}; an object of this name cannot become a file: rename it in the store, or fetch another prefix"
    )]
    NamesInTheStore { source: object_store::path::Error },
    #[error(
        "{name}: it changed while it was fetched ({what}): fetch again when nobody writes there any more"
    )]
    Changed { name: String, what: String },
    #[error("{name}: {got} bytes came, and {wanted} were listed: fetch again")]
    Length { name: String, got: u64, wanted: u64 },
    #[error("{what}: {answer}; {remedy}", remedy = answer.remedy())]
    Store { what: String, answer: Answer },
    #[error(transparent)]
    Local(#[from] GraphError),
}

impl Problem {
    /// An answer of the store's to a listing of everything.
    pub(crate) fn of_listing(source: StoreError) -> Problem {
        match source {
            StoreError::InvalidPath { source } => Problem::NamesInTheStore { source },
            source => Problem::of_answer("cannot list what there is".to_owned(), &source),
        }
    }

    /// An answer of the store's to a request for an object that was listed.
    pub(crate) fn of_object(name: &str, source: StoreError) -> Problem {
        match source {
            StoreError::Precondition { .. } => {
                Problem::Changed { name: name.to_owned(), what: "it has another tag".to_owned() }
            }
            StoreError::NotFound { .. } => {
                Problem::Changed { name: name.to_owned(), what: "it is gone".to_owned() }
            }
            source => Problem::of_answer(format!("{name}: cannot read it"), &source),
        }
    }

    /// Any other answer; `what` says what could not be done.
    pub(crate) fn of_answer(what: String, source: &StoreError) -> Problem {
        Problem::Store { what, answer: Answer::of(source) }
    }

    /// The error that callers see.
    pub(crate) fn at(self, url: &str) -> FetchError {
        let (url, message) = (url.to_owned(), self.to_string());
        match self {
            Problem::Local(error) => FetchError::Local(error),
            Problem::Changed { .. } | Problem::Length { .. } => FetchError::Store { url, message },
            Problem::Store { answer, .. } if answer.kind == Kind::Failed => {
                FetchError::Store { url, message }
            }
            _ => FetchError::Refused { url, message },
        }
    }
}
