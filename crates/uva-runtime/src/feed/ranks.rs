//! The other ranks of a run whose feature table is divided among ranks, and its lists of neighbours if that is wanted: how the
//! roles of this one reach them.

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

/// The exchanges with them, of which the producer takes one and the sampler the other, and word of a rank that has left.
pub struct RankExchanges {
    rows: RankExchange,
    /// Where the lists are divided too.
    lists: Option<RankExchange>,
    /// Bytes for copies of rows of others.
    cache_bytes: u64,
    /// The ids of these, once they are chosen.
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

    /// The exchange, for one taker.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] for a second one: roles that start anew cannot join the group again.
    pub fn take(&self) -> Result<Box<dyn Exchange>, RuntimeError> {
        lock(&self.exchange)
            .take()
            .ok_or_else(|| RuntimeError::failed("the exchange with other ranks is taken: make a new loader"))
    }

    /// Gives it back, for the next taker.
    pub fn put_back(&self, exchange: Box<dyn Exchange>) {
        *lock(&self.exchange) = Some(exchange);
    }

    /// Ends it on all ranks, since this one has failed: without this the others would find that it has left.
    pub fn cancel(&self) {
        self.canceller.cancel();
    }

    /// Notes which rank has left, in words. From then on no batch comes that needs this exchange.
    pub fn note_left(&self, said: String) {
        // The first is the cause of all others.
        let _ = self.left.set(said);
    }

    /// What was noted.
    pub fn left(&self) -> Option<&str> {
        self.left.get().map(String::as_str)
    }
}

impl RankExchanges {
    /// Over this exchange of rows.
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

    /// The same with so many bytes for copies of those rows of others that batches read most, map included. Every rank of a
    /// group has such a cache, or none has.
    #[must_use]
    pub fn with_cache(self, bytes: u64) -> Self {
        Self { cache_bytes: bytes, ..self }
    }

    /// The same where each rank draws from the lists of its own nodes alone, for itself and, over this exchange, for the
    /// others. Every rank of a group does so, or none does.
    #[must_use]
    pub fn with_lists(self, exchange: Box<dyn Exchange>) -> Self {
        Self { lists: Some(RankExchange::over(exchange)), ..self }
    }

    /// Where rows came from so far, and what that took.
    pub fn counts(&self) -> RemoteCounts {
        *lock(&self.row_counts)
    }

    /// Who drew from lists so far, and what that took. `None` where each rank draws from all lists.
    pub fn list_counts(&self) -> Option<ListCounts> {
        self.lists.as_ref().map(|_| *lock(&self.list_counts))
    }

    /// The stage that the others wait for, where the roles took these times: "exchange" in place of a role that spent more
    /// than half of its working time in calls of an exchange. The link is slow then, or another rank is.
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

    /// The exchange of rows.
    pub(crate) fn rows(&self) -> &RankExchange {
        &self.rows
    }

    /// The exchange of picks from lists; `None` where each rank draws from all lists.
    pub(crate) fn lists(&self) -> Option<&RankExchange> {
        self.lists.as_ref()
    }

    /// The lists of `dataset` that the ranks hold between them, over `exchange`, which is that of lists.
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

    /// Whether each rank draws from the lists of its own nodes alone.
    pub(crate) fn divide_lists(&self) -> bool {
        self.lists.is_some()
    }

    /// Refuses what reads lists of all nodes, where each rank reads those of its own.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] with an alternative.
    pub(crate) fn check_lists(&self, options: &LoaderOptions) -> Result<(), RuntimeError> {
        let refused = |option: &str, value: &dyn fmt::Display, reason: &str| {
            let reason = format!("with `graph=divided`, {reason}, or leave out `graph`");
            Err(OptionError::new(option, value, reason).into())
        };
        if self.lists.is_none() {
            return Ok(());
        }
        if options.samplers > 1 {
            return refused(
                "samplers",
                &options.samplers,
                "one sampler asks the other ranks for picks: give 1",
            );
        }
        if options.seed_order != AskedOrder::Shuffle && options.order_file.is_none() {
            let reason = "no rank reads the whole graph, by which seeds are ordered: give `order_file`, or leave it out";
            return refused("seed_order", &options.seed_order, reason);
        }
        if options.pad != Pad::Off {
            let reason = "sizes are not found by sampling beforehand: leave it out";
            return refused("pad", &options.pad, reason);
        }
        Ok(())
    }

    /// Which rank has left, in words, so that a batch did not come.
    pub(crate) fn left(&self) -> Option<String> {
        let rows = self.rows.left().map(|said| format!("rows of other ranks: {said}"));
        rows.or_else(|| Some(format!("picks of other ranks: {}", self.lists.as_ref()?.left()?)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is replaced whole, so a thread that panicked with it left nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for RankExchanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RankExchanges").field("left", &self.left()).finish_non_exhaustive()
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
            "the feature table is divided among ranks: uvatrain.Loader(path, part=\"rank\") reads it, in a process for each \
             part (docs/guide/scaling.md)",
        ));
    };
    if options.part.of as usize != own.parts() || options.part.index as usize != own.part() {
        let (rank, ranks) = (options.part.index, options.part.of);
        let reason = format!(
            "rank {rank} of {ranks} has part {} of {}: each rank has a part",
            own.part(),
            own.parts()
        );
        return Err(OptionError::of("part", reason).into());
    }
    if let Some(cuda) = backend.device_slots().filter(|cuda| cuda.gather != GatherChoice::Dma) {
        return refused(
            "gather",
            &cuda.gather,
            "rows of other ranks come to host memory, from which copies bring them to a GPU: give `gather=dma`",
        );
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
    if ranks.lists.is_some() && backend.gpu_sampler().is_some() {
        let reason = "with `graph=divided` the CPU draws from lists for other ranks: leave it out";
        return Err(OptionError::new("sampler", "gpu", reason).into());
    }
    ranks.check_lists(options)
}
