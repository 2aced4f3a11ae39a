//! The other ranks of a run whose feature table is divided among ranks: how the roles of this one reach them.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use uva_exchange::Exchange;
use uva_graph::Dataset;
use uva_options::OptionError;
use uva_rows::RemoteCounts;

use crate::RuntimeError;
use crate::cache::Caches;
use crate::options::{LoaderOptions, Prepare};
use crate::rows_from::Features;

/// The exchange with them, which the producer takes, and word of a rank that has left.
pub struct Ranks {
    exchange: Mutex<Option<Box<dyn Exchange>>>,
    /// Bytes for copies of rows of others.
    cache_bytes: u64,
    /// The ids of these, once they are chosen.
    kept: OnceLock<Vec<i64>>,
    counts: Arc<Mutex<RemoteCounts>>,
    left: OnceLock<String>,
}

impl Ranks {
    /// Over this exchange.
    pub fn new(exchange: Box<dyn Exchange>) -> Self {
        Self {
            exchange: Mutex::new(Some(exchange)),
            cache_bytes: 0,
            kept: OnceLock::new(),
            counts: Arc::default(),
            left: OnceLock::new(),
        }
    }

    /// The same with so many bytes for copies of those rows of others that batches read most, map included. Every rank of a
    /// group has such a cache, or none has.
    #[must_use]
    pub fn with_cache(self, bytes: u64) -> Self {
        Self { cache_bytes: bytes, ..self }
    }

    /// Where rows came from so far, and what that took.
    pub fn counts(&self) -> RemoteCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn shared_counts(&self) -> Arc<Mutex<RemoteCounts>> {
        Arc::clone(&self.counts)
    }

    /// Bytes for copies of rows of others.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.cache_bytes
    }

    /// Notes the rows of others to copy. Once; a second call changes nothing.
    pub(crate) fn keep(&self, ids: Vec<i64>) {
        let _ = self.kept.set(ids);
    }

    /// The rows of others to copy; `None` without a cache.
    pub(crate) fn kept(&self) -> Option<&[i64]> {
        self.kept.get().map(Vec::as_slice)
    }

    /// The exchange, for one taker.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] for a second one: roles that start anew cannot join the group again.
    pub(crate) fn take(&self) -> Result<Box<dyn Exchange>, RuntimeError> {
        let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        exchange.take().ok_or_else(|| {
            RuntimeError::Failed(
                "the exchange of rows with other ranks is taken: make a new loader".to_owned(),
            )
        })
    }

    /// Notes which rank has left, in words. From then on no batch comes that needs rows of others.
    pub(crate) fn note_left(&self, said: String) {
        // The first is the cause of all others.
        let _ = self.left.set(said);
    }

    /// What was noted.
    pub(crate) fn left(&self) -> Option<&str> {
        self.left.get().map(String::as_str)
    }
}

impl fmt::Debug for Ranks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ranks").field("left", &self.left).finish_non_exhaustive()
    }
}

/// Refuses what does not work over a divided table.
///
/// # Errors
/// [`RuntimeError::Option`] with an alternative; [`RuntimeError::Usage`] where there is no exchange, or one of other ranks.
pub(crate) fn check_divided(
    dataset: &Dataset,
    options: &LoaderOptions,
    caches: &Caches,
    on_gpu: bool,
    ranks: bool,
) -> Result<(), RuntimeError> {
    let Some(own) = dataset.own_rows() else { return Ok(()) };
    let refused = |option: &str, value: &dyn fmt::Display, reason: &str| {
        Err(OptionError::new(
            option,
            value,
            format!("the feature table is divided among ranks, and {reason}"),
        )
        .into())
    };
    if !ranks {
        return Err(RuntimeError::Usage(
            "the feature table is divided among ranks: uvatrain.Loader(path, part=\"rank\") reads it, in a process for each \
             part (docs/distributed.md)"
                .to_owned(),
        ));
    }
    if options.part.of as usize != own.parts() || options.part.index as usize != own.part() {
        let (rank, ranks) = (options.part.index, options.part.of);
        let reason = format!(
            "rank {rank} of {ranks} has part {} of {}: each rank has a part",
            own.part(),
            own.parts()
        );
        return Err(OptionError::of("part", reason).into());
    }
    if on_gpu {
        return refused("device", &"cuda", "its rows come to host memory: give `device=cpu`");
    }
    if options.prepare == Prepare::Whole {
        return refused(
            "prepare",
            &options.prepare,
            "one producer asks the others for rows: leave `prepare` out",
        );
    }
    if options.features == Features::Disk {
        return refused(
            "features",
            &options.features,
            "its parts are read from memory: leave `features` out",
        );
    }
    if options.edge_attr {
        return refused("edge_attr", &true, "rows of edges are not exchanged: leave it out");
    }
    if caches.rows > 0 || caches.dynamic.is_some() {
        return refused("gpu_cache", &caches.rows, "such a cache is of a whole table: leave it out");
    }
    Ok(())
}
