//! The other ranks of a run whose feature table is divided among ranks: how the roles of this one reach them.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use uva_exchange::Exchange;
use uva_graph::Dataset;
use uva_options::OptionError;
use uva_plan::{count, rank_rows};
use uva_rows::RemoteCounts;
use uva_rows::cache::map_bytes;

use crate::RuntimeError;
use crate::cache::Caches;
use crate::options::{LoaderOptions, Prepare};
use crate::planning::workload;
use crate::rows_from::Features;

/// The exchange with them, which the producer takes, and word of a rank that has left.
pub struct Ranks {
    exchange: Mutex<Option<Box<dyn Exchange>>>,
    /// Bytes for copies of rows of others.
    cache_bytes: u64,
    counts: Arc<Mutex<RemoteCounts>>,
    left: OnceLock<String>,
}

impl Ranks {
    /// Over this exchange.
    pub fn new(exchange: Box<dyn Exchange>) -> Self {
        Self {
            exchange: Mutex::new(Some(exchange)),
            cache_bytes: 0,
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

    /// The rows of others to keep: those that most batches of the first training epoch read, of any rank. Since an epoch's
    /// seeds are shuffled, they are those that its own batches will read most. `None` without a cache.
    ///
    /// # Errors
    /// As sampling the epoch.
    pub(crate) fn cached_rows(
        &self,
        dataset: &Dataset,
        options: &LoaderOptions,
    ) -> Result<Option<Vec<i64>>, RuntimeError> {
        let Some(own) = dataset.own_rows().filter(|_| self.cache_bytes > 0) else { return Ok(None) };
        let row_bytes = dataset.features().row_bytes() as u64;
        let room = self.cache_bytes.saturating_sub(map_bytes(dataset.nodes())) / row_bytes.max(1);
        let hotness = count(&workload(dataset, options)?, 0..1)?;
        let range = own.nodes();
        let others = rank_rows(&hotness).into_iter().filter(|&node| !range.contains(&u64::from(node)));
        Ok(Some(others.take(room as usize).map(i64::from).collect()))
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
