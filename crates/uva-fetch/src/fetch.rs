//! The whole of it: list, look for room, download, flush, rename.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::runtime;
use uva_graph::progress::Progress;
use uva_graph::staged::{self, StagedDirectory};
use uva_graph::{GraphError, disk_space};
use uva_mem::files::write_new;

use crate::error::{FetchError, Problem};
use crate::listing::{Listing, Object};
use crate::location::Location;
use crate::piece::pieces_of;

/// What to fetch, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchOptions {
    /// Subdirectories, and files in them, that are fetched beside the files at the top: `part-3`, `graph`. If it is empty,
    /// everything is.
    pub only: Vec<String>,
    /// Requests in flight, each for at most 16 MiB; 0 counts as 1. A directory (`file://`) takes up to that much memory
    /// for each, a store of objects a fraction.
    pub at_once: usize,
    /// For how long a failed request is repeated before it is an error.
    pub retry_for: Duration,
}

impl Default for FetchOptions {
    fn default() -> FetchOptions {
        FetchOptions { only: Vec::new(), at_once: 16, retry_for: Duration::from_secs(120) }
    }
}

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fetched {
    /// Number of files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Seconds from the first request until everything was on the disk.
    pub seconds: f64,
}

/// Copies what is below `url` to the directory `to`, which must not exist and appears complete or not at all.
///
/// `url` is `s3://BUCKET/PREFIX`, whose keys, region and endpoint come from the variables `AWS_*` that the AWS command
/// line reads too, or `file:///DIRECTORY`. `progress` hears bytes, on this thread. The files and directories of `to` have
/// the usual permissions.
///
/// # Errors
/// [`FetchError::Refused`] if the URL, a name in `only` or a variable is wrong, nothing is there, the store refuses the
/// request, or an object's name cannot be a file's. [`FetchError::Store`] if the store does not answer, or an object
/// changes between the listing and the end. [`FetchError::Local`] if `to` exists, the disk has no room, or the system
/// refuses to write.
///
/// # Panics
/// If it is called from within a runtime of tokio's: it waits for one of its own.
pub fn fetch(
    url: &str,
    to: &Path,
    options: &FetchOptions,
    progress: &dyn Fn(Progress),
) -> Result<Fetched, FetchError> {
    let work = || {
        staged::refuse_existing(to)?;
        let location = Location::of(url, options.retry_for)?;
        // The connections' work (decryption above all) is done by these threads, writing by the caller's.
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| cannot_start(to, &error))?;
        runtime.block_on(fetch_from(&location, to, options, progress))
    };
    work().map_err(|problem: Problem| problem.at(url))
}

fn cannot_start(to: &Path, error: &io::Error) -> GraphError {
    let message = format!("the threads that fetch it could not be started: {error}");
    GraphError::Lacking { path: to.to_owned(), message }
}

async fn fetch_from(
    location: &Location,
    to: &Path,
    options: &FetchOptions,
    progress: &dyn Fn(Progress),
) -> Result<Fetched, Problem> {
    let start = Instant::now();
    let listing = Listing::of(location, &options.only).await?;
    let total = listing.bytes;
    disk_space::check(to, total, format_args!("the files take {}", disk_space::BytesOnDisk(total)))?;
    let staged = StagedDirectory::new(to)?;
    for name in &listing.directories {
        let path = staged.path().join(name);
        fs::create_dir(&path).map_err(GraphError::io(&path, "create"))?;
    }
    for Object { name, .. } in &listing.objects {
        let path = staged.path().join(name);
        write_new(&path, &[]).map_err(GraphError::io(&path, "create"))?;
    }
    let report = |done| progress(Progress { stage: "fetching", done, total });
    report(0);
    let pieces = listing.objects.iter().flat_map(|object| pieces_of(object, staged.path()));
    let store = location.store.as_ref();
    let running = stream::iter(pieces).map(|piece| piece.fetch(store));
    let mut running = running.buffer_unordered(options.at_once.max(1));
    let mut done = 0;
    while let Some(bytes) = running.try_next().await? {
        done += bytes;
        report(done);
    }
    drop(running);
    compare(&listing, staged.path())?;
    for name in &listing.directories {
        staged::flush(&staged.path().join(name))?;
    }
    staged.commit()?;
    let files = listing.objects.len() as u64;
    Ok(Fetched { files, bytes: total, seconds: start.elapsed().as_secs_f64() })
}

/// Compares the files' sizes with what was listed.
fn compare(listing: &Listing, directory: &Path) -> Result<(), Problem> {
    for object in &listing.objects {
        let path = directory.join(&object.name);
        let got = fs::metadata(&path).map_err(GraphError::io(&path, "examine"))?.len();
        if got != object.meta.size {
            return Err(Problem::Length { name: object.name.clone(), got, wanted: object.meta.size });
        }
    }
    Ok(())
}
