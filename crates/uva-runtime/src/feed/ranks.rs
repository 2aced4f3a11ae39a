//! Access to the other ranks of a run whose feature table, and optionally lists of neighbours, are divided among ranks.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use uva_exchange::{Book, Canceller, Exchange};
use uva_graph::Dataset;
use uva_options::OptionError;
use uva_rows::RemoteCounts;
use uva_sample::{Divided, ListCounts};

use crate::RuntimeError;
use crate::backend::{Backend, GatherChoice};
use crate::control::role_times::Roles;
use crate::options::reader::Features;
use crate::options::seed_order::AskedOrder;
use crate::options::{LoaderOptions, Pad, Prepare};
use crate::sampler::cache::Caches;

/// The exchanges with the other ranks, one for the producer and one for the sampler, and a record of a rank that has
/// left.
pub struct RankExchanges {
    rows: RankExchange,
    /// The exchange of picks, if the lists are divided too.
    lists: Option<RankExchange>,
    /// Bytes for copies of other ranks' rows.
    cache_bytes: u64,
    /// The ids of the copied rows, once they are chosen.
    kept: OnceLock<Vec<i64>>,
    row_counts: Arc<Mutex<RemoteCounts>>,
    list_counts: Arc<Mutex<ListCounts>>,
}

/// One exchange, for a role of this rank.
pub(crate) struct RankExchange {
    exchange: Mutex<Option<Box<dyn Exchange>>>,
    canceller: Canceller,
    left: OnceLock<String>,
}

impl RankExchange {
    fn over(exchange: Box<dyn Exchange>) -> Self {
        let canceller = exchange.canceller();
        Self { exchange: Mutex::new(Some(exchange)), canceller, left: OnceLock::new() }
    }

    /// Takes the exchange, which only one role may have.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] on a second call: roles that start again cannot join the group again.
    pub fn take(&self) -> Result<Box<dyn Exchange>, RuntimeError> {
        lock(&self.exchange).take().ok_or_else(|| {
            RuntimeError::failed("the exchange with other ranks is already in use: make a new loader")
        })
    }

    /// Returns the exchange, for the next taker.
    pub fn put_back(&self, exchange: Box<dyn Exchange>) {
        *lock(&self.exchange) = Some(exchange);
    }

    /// Ends the exchange on all ranks after a failure of this one. Otherwise the others would report that this rank has
    /// left.
    pub fn cancel(&self) {
        self.canceller.cancel();
    }

    /// Records the rank that has left, in words. Batches that need this exchange are not made from then on.
    pub fn note_left(&self, said: String) {
        // The first record is the cause of all others.
        let _ = self.left.set(said);
    }

    /// The record of the rank that has left.
    pub fn left(&self) -> Option<&str> {
        self.left.get().map(String::as_str)
    }
}

impl RankExchanges {
    /// Creates the exchanges with this exchange of rows.
    pub fn new(exchange: Box<dyn Exchange>) -> Self {
        Self {
            rows: RankExchange::over(exchange),
            lists: None,
            cache_bytes: 0,
            kept: OnceLock::new(),
            row_counts: Arc::default(),
            list_counts: Arc::default(),
        }
    }

    /// Adds `bytes` bytes for copies of the other ranks' rows that batches read most, map included. Either all ranks of
    /// a group have such a cache, or no rank has.
    #[must_use]
    pub fn with_cache(self, bytes: u64) -> Self {
        Self { cache_bytes: bytes, ..self }
    }

    /// Adds an exchange of picks: each rank draws only from the lists of its own nodes, for itself and for the others.
    /// Either all ranks of a group do so, or no rank does.
    #[must_use]
    pub fn with_lists(self, exchange: Box<dyn Exchange>) -> Self {
        Self { lists: Some(RankExchange::over(exchange)), ..self }
    }

    /// Counts of rows by origin so far, and of the exchange.
    pub fn counts(&self) -> RemoteCounts {
        *lock(&self.row_counts)
    }

    /// Counts of draws from lists by rank so far, and of the exchange; `None` if each rank draws from all lists.
    pub fn list_counts(&self) -> Option<ListCounts> {
        self.lists.as_ref().map(|_| *lock(&self.list_counts))
    }

    /// The stage that the others wait for, given the roles' times: "exchange" in place of a role that spent more than
    /// half of its working time in calls of an exchange. Then the link or another rank is slow.
    pub fn bottleneck(&self, roles: &Roles) -> &'static str {
        let busiest = roles.bottleneck();
        let (waited, working_s) = match busiest {
            "producer" => (self.counts().waited(), roles.producer.working_s),
            "sampler" => (lock(&self.list_counts).waited, roles.sampler.working_s),
            _ => return busiest,
        };
        let mostly = working_s > 0.0 && 2.0 * waited.as_secs_f64() > working_s;
        if mostly { "exchange" } else { busiest }
    }

    pub(crate) fn shared_counts(&self) -> Arc<Mutex<RemoteCounts>> {
        Arc::clone(&self.row_counts)
    }

    pub(crate) fn shared_list_counts(&self) -> Arc<Mutex<ListCounts>> {
        Arc::clone(&self.list_counts)
    }

    /// Bytes for copies of other ranks' rows.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.cache_bytes
    }

    /// Records the rows of other ranks to copy. Only the first call has an effect.
    pub(crate) fn keep(&self, ids: Vec<i64>) {
        let _ = self.kept.set(ids);
    }

    /// The rows of other ranks to copy; `None` without a cache.
    pub(crate) fn kept(&self) -> Option<&[i64]> {
        self.kept.get().map(Vec::as_slice)
    }

    /// The exchange of rows.
    pub(crate) fn rows(&self) -> &RankExchange {
        &self.rows
    }

    /// The exchange of picks from lists; `None` where each rank draws from all lists.
    pub(crate) fn lists(&self) -> Option<&RankExchange> {
        self.lists.as_ref()
    }

    /// The lists of `dataset`, divided among the ranks, over `exchange`, the exchange of picks.
    pub(crate) fn divided<'e>(
        dataset: &Dataset,
        exchange: Box<dyn Exchange + 'e>,
    ) -> Result<Divided<'e>, RuntimeError> {
        let own = dataset
            .own_rows()
            .ok_or_else(|| RuntimeError::failed("the dataset has all rows: there is no exchange"))?;
        let book = Book::new(own.boundaries()).map_err(|error| RuntimeError::failed(error.to_string()))?;
        Ok(Divided::new(book, exchange)?)
    }

    /// Whether each rank draws only from the lists of its own nodes.
    pub(crate) fn divide_lists(&self) -> bool {
        self.lists.is_some()
    }

    /// Rejects options that read lists of all nodes, if each rank reads only those of its own nodes.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] with an alternative.
    pub(crate) fn check_lists(&self, options: &LoaderOptions) -> Result<(), RuntimeError> {
        let refused = |option: &str, value: &dyn fmt::Display, reason: &str| {
            let reason = format!("with `graph=divided`, {reason}, or omit `graph`");
            Err(OptionError::new(option, value, reason).into())
        };
        if self.lists.is_none() {
            return Ok(());
        }
        if options.samplers > 1 {
            return refused(
                "samplers",
                &options.samplers,
                "one sampler requests picks from the other ranks: give 1",
            );
        }
        if options.seed_order != AskedOrder::Shuffle && options.order_file.is_none() {
            let reason = "no rank has the whole graph, which an order requires: give `order_file`, or omit `seed_order`";
            return refused("seed_order", &options.seed_order, reason);
        }
        if options.pad != Pad::Off {
            let reason = "sizes cannot be estimated by sampling: omit `pad`";
            return refused("pad", &options.pad, reason);
        }
        Ok(())
    }

    /// The rank that has left, in words, if a batch was not made for that reason.
    pub(crate) fn left(&self) -> Option<String> {
        let rows = self.rows.left().map(|said| format!("rows of other ranks: {said}"));
        rows.or_else(|| Some(format!("picks of other ranks: {}", self.lists.as_ref()?.left()?)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded value is replaced as a whole, so a thread that panicked left no partial state.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for RankExchanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RankExchanges").field("left", &self.left()).finish_non_exhaustive()
    }
}

/// Rejects options that are not supported with a divided table.
///
/// # Errors
/// [`RuntimeError::Option`] with an alternative; [`RuntimeError::Usage`] if there is no exchange, or its ranks differ.
pub(crate) fn check_divided(
    dataset: &Dataset,
    options: &LoaderOptions,
    caches: &Caches,
    backend: &Backend,
    ranks: Option<&RankExchanges>,
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
    let Some(ranks) = ranks else {
        return Err(RuntimeError::usage(
            "the feature table is divided among ranks: use uvatrain.Loader(path, part=\"rank\"), in one process for each part \
             (docs/guide/scaling.md)",
        ));
    };
    if options.part.of as usize != own.parts() || options.part.index as usize != own.part() {
        let (rank, ranks) = (options.part.index, options.part.of);
        let reason = format!(
            "rank {rank} of {ranks} has part {} of {}: expected one part per rank",
            own.part(),
            own.parts()
        );
        return Err(OptionError::of("part", reason).into());
    }
    if let Some(cuda) = backend.device_slots().filter(|cuda| cuda.gather != GatherChoice::Dma) {
        return refused(
            "gather",
            &cuda.gather,
            "rows of other ranks arrive in host memory and are copied to a GPU: give `gather=dma`",
        );
    }
    if options.prepare == Prepare::Whole {
        return refused(
            "prepare",
            &options.prepare,
            "one producer requests rows from the others: omit `prepare`",
        );
    }
    if options.features == Features::Disk {
        return refused("features", &options.features, "its parts are read from memory: omit `features`");
    }
    if options.edge_attr {
        return refused("edge_attr", &true, "rows of edges are not exchanged: omit it");
    }
    if caches.rows > 0 || caches.dynamic.is_some() {
        return refused("gpu_cache", &caches.rows, "such a cache requires a whole table: omit it");
    }
    if ranks.lists.is_some() && backend.gpu_sampler().is_some() {
        let reason = "with `graph=divided` the CPU draws from lists for other ranks: omit it";
        return Err(OptionError::new("sampler", "gpu", reason).into());
    }
    ranks.check_lists(options)
}
