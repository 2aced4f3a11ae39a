//! A cache of rows that is divided among the GPUs of one machine: each rank keeps a share in its GPU's memory, and
//! kernels read the other shares over NVLink or PCIe (BGL, Liu et al. 2023, section 3.2; phase 1 of
//! docs/guide/caches.md).
//!
//! Ranks meet once, over an exchange, before their batches begin:
//!
//! 1. Each reports its machine, its GPU and its request.
//! 2. Each allocates its share, and reports the rows that it chose: all must choose the same.
//! 3. On each machine they send each other descriptors of the shares, over sockets. Each maps all of them.
//! 4. Each writes a part of the rows. When all parts are written, the cache is complete and no longer written.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uva_cuda::Context;
use uva_cuda::memory::{JoinedMemory, Share};
use uva_exchange::{Exchange, ExchangeError, Splits};
use uva_graph::Dataset;
use uva_mem::files::{random_word, read_kernel_text};
use uva_mem::handover::Channel;
use uva_options::OptionError;
use uva_rows::cache::map_bytes;
use uva_rows::cuda::fill_joined;

use crate::RuntimeError;

/// Time-out of a message. A message that was sent before all ranks met arrives at once, except on a machine that is out
/// of memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// The other ranks of a group whose GPUs share a cache of rows.
pub struct CacheRanks {
    /// The exchange, until the ranks have met.
    exchange: Mutex<Option<Box<dyn Exchange>>>,
    /// The result, which roles that start again next to the old ones reuse.
    made: OnceLock<SharedRows>,
}

/// Joined rows that live as long as roles use them.
#[derive(Debug)]
struct SharedRows {
    memory: Weak<JoinedMemory>,
    nodes: Vec<i64>,
    gpus: usize,
}

/// Rows that are cached in the memory of several GPUs.
#[derive(Debug)]
pub(crate) struct JoinedRows {
    /// The rows, side by side.
    pub memory: Arc<JoinedMemory>,
    /// Their nodes, in the order of the rows.
    pub nodes: Vec<i64>,
    /// Number of GPUs that hold them.
    pub gpus: usize,
}

/// The request of a rank.
pub(crate) struct JoinRequest<'a> {
    pub context: &'a Arc<Context>,
    pub dataset: &'a Dataset,
    /// Threads that copy rows.
    pub threads: usize,
    /// Bytes of this rank's GPU, map included.
    pub bytes: u64,
    /// The policy that chooses rows.
    pub policy: &'a str,
}

/// The first message of a rank about itself.
#[derive(Serialize, Deserialize)]
struct Greeting {
    /// The machine's identity: ranks with the same identity can share.
    machine: String,
    /// The GPU's UUID.
    device: String,
    terms: Terms,
}

/// Values that must be equal on all ranks.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct Terms {
    dataset: String,
    gpu_cache: u64,
    cache_policy: String,
}

/// The message of a rank that has allocated its share.
#[derive(Serialize, Deserialize)]
struct Offer {
    /// A hash of the chosen nodes.
    hash: u64,
    share_bytes: usize,
    /// The name of the socket that receives descriptors.
    socket: String,
}

impl CacheRanks {
    /// Creates the group over this exchange. All ranks of the group make such a cache, in the same order among their
    /// calls.
    pub fn new(exchange: Box<dyn Exchange>) -> Self {
        Self { exchange: Mutex::new(Some(exchange)), made: OnceLock::new() }
    }

    /// Joins the rows that this machine's ranks share. `choose` returns the nodes of at most that many rows, those that
    /// are read most first, and returns the same on all ranks.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] for ranks that request different caches; [`RuntimeError::Missing`] if a GPU cannot read
    /// another's memory, or has too little memory; [`RuntimeError::PeerGone`] and [`RuntimeError::Failed`] for failures
    /// of other ranks. The other ranks then fail too.
    pub(crate) fn join(
        &self,
        asked: &JoinRequest<'_>,
        choose: &dyn Fn(usize) -> Result<Vec<i64>, RuntimeError>,
    ) -> Result<JoinedRows, RuntimeError> {
        if let Some(SharedRows { memory, nodes, gpus }) = self.made.get() {
            let memory = memory.upgrade().ok_or_else(taken_before)?;
            return Ok(JoinedRows { memory, nodes: nodes.clone(), gpus: *gpus });
        }
        let taken = self.exchange.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut exchange = taken.ok_or_else(taken_before)?;
        let joined = meet(&mut *exchange, asked, choose).inspect_err(|_| exchange.cancel())?;
        let JoinedRows { memory, nodes, gpus } = &joined;
        let _ =
            self.made.set(SharedRows { memory: Arc::downgrade(memory), nodes: nodes.clone(), gpus: *gpus });
        Ok(joined)
    }
}

fn taken_before() -> RuntimeError {
    RuntimeError::failed("the ranks that share a cache have already joined: make a new loader on all ranks")
}

impl CacheRanks {
    /// Leaves the group if this rank does not use a cache: the others end at once, and need not wait for it.
    pub(crate) fn leave(&self) {
        drop(self.exchange.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl fmt::Debug for CacheRanks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CacheRanks").field("made", &self.made.get()).finish_non_exhaustive()
    }
}

fn meet(
    exchange: &mut dyn Exchange,
    asked: &JoinRequest<'_>,
    choose: &dyn Fn(usize) -> Result<Vec<i64>, RuntimeError>,
) -> Result<JoinedRows, RuntimeError> {
    let (context, dataset) = (asked.context, asked.dataset);
    let (rank, table) = (exchange.rank(), dataset.features());
    let row_bytes = table.row_bytes();
    let terms = Terms {
        dataset: dataset.fingerprint(),
        gpu_cache: asked.bytes,
        cache_policy: asked.policy.to_owned(),
    };
    let greeting = Greeting { machine: machine()?, device: context.device().uuid().to_owned(), terms };
    let greetings = all_tell(exchange, &greeting)?;
    let rows = asked.bytes.saturating_sub(map_bytes(table.rows)) / row_bytes.max(1) as u64;
    let on_machine =
        |machine: &str| (0..greetings.len()).filter(|&rank| greetings[rank].machine == machine).collect();
    let here: Vec<usize> = on_machine(&greeting.machine);
    let mut terms = greetings.iter().enumerate();
    let checked = terms
        .try_for_each(|(other, theirs)| check_terms(rank, &greeting.terms, other, &theirs.terms))
        .and_then(|()| check_room(asked, rows, table.rows))
        .and_then(|()| {
            here.iter().try_for_each(|&other| check_reach(context, other, &greetings[other].device))
        });
    once_heard(exchange, checked)?;
    let rows = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(here.len()).min(table.rows);
    let nodes = dealt(&choose(rows)?, here.len());
    let bytes = (nodes.len() * row_bytes).div_ceil(here.len());
    let own = Share::new(context, bytes, "the cached rows that ranks share")?;
    let (socket, channel) = own_socket()?;
    let mut hasher = DefaultHasher::new();
    nodes.hash(&mut hasher);
    let offer = Offer { hash: hasher.finish(), share_bytes: own.bytes(), socket };
    let offers = all_tell(exchange, &offer)?;
    let checked = here.iter().try_for_each(|&other| check_offer(rank, &offer, other, &offers[other]));
    once_heard(exchange, checked)?;
    let most = greetings.iter().map(|greeting| on_machine(&greeting.machine).len()).max().unwrap_or(1);
    let at = here.iter().position(|&other| other == rank).unwrap_or_default();
    let sockets: Vec<&str> = here.iter().map(|&rank| offers[rank].socket.as_str()).collect();
    let others = hand_over(exchange, &own, (&channel, &sockets), at, most)?;
    let memory = JoinedMemory::new(own, at, others)?;
    let part = nodes.len() * at / here.len()..nodes.len() * (at + 1) / here.len();
    // The parts of the ranks are disjoint, since all have computed the same rows. They are not read before the ranks
    // meet below.
    fill_joined(context, &memory, (table.bytes, row_bytes, asked.threads), &nodes, part)?;
    // After this call all parts are written.
    all_meet(exchange)?;
    Ok(JoinedRows { memory: Arc::new(memory), nodes, gpus: here.len() })
}

/// The identity of this machine: the same boot of the same kernel, and one namespace of sockets. Ranks with the same
/// identity can send each other descriptors.
fn machine() -> Result<String, RuntimeError> {
    let failed = |error| RuntimeError::failed(format!("cannot identify this machine: {error}"));
    let boot = read_kernel_text("/proc/sys/kernel/random/boot_id").map_err(failed)?;
    let sockets = std::fs::read_link("/proc/self/ns/net").map_err(failed)?;
    Ok(format!("{} {}", boot.trim(), sockets.display()))
}

/// Rejects a cache that is too small for a row.
fn check_room(asked: &JoinRequest<'_>, rows: u64, nodes: usize) -> Result<(), RuntimeError> {
    if rows > 0 {
        return Ok(());
    }
    let row_bytes = asked.dataset.table().row_bytes();
    let reason = format!(
        "too small for a row of {row_bytes} bytes and a map of {} bytes: give more",
        map_bytes(nodes)
    );
    Err(OptionError::new("gpu_cache", asked.bytes, reason).into())
}

/// The error with the option that it is about.
fn of_share(error: RuntimeError) -> RuntimeError {
    error.with_option_of("gpu_cache_share")
}

fn check_terms(rank: usize, own: &Terms, other: usize, theirs: &Terms) -> Result<(), RuntimeError> {
    let differs = |what: &str, own: &dyn fmt::Display, theirs: &dyn fmt::Display| {
        Err(of_share(RuntimeError::usage(format!(
            "rank {other} has {what} {theirs}, but rank {rank} has {own}: all ranks need the same"
        ))))
    };
    if own.dataset != theirs.dataset {
        return differs("the dataset", &own.dataset, &theirs.dataset);
    }
    if own.gpu_cache != theirs.gpu_cache {
        return differs("`gpu_cache`", &own.gpu_cache, &theirs.gpu_cache);
    }
    if own.cache_policy != theirs.cache_policy {
        return differs("`cache_policy`", &own.cache_policy, &theirs.cache_policy);
    }
    Ok(())
}

fn check_offer(rank: usize, own: &Offer, other: usize, theirs: &Offer) -> Result<(), RuntimeError> {
    if own.share_bytes != theirs.share_bytes {
        return Err(of_share(RuntimeError::missing(format!(
            "rank {other}'s GPU allocates memory in other sizes ({} bytes for a share) than rank {rank}'s ({}): omit it",
            theirs.share_bytes, own.share_bytes
        ))));
    }
    if own.hash != theirs.hash {
        return Err(of_share(RuntimeError::usage(format!(
            "rank {other} chose other rows to cache than rank {rank}: give all ranks the same seed and options of sampling"
        ))));
    }
    Ok(())
}

/// Rejects a GPU of another rank whose memory this one cannot read.
fn check_reach(context: &Context, other: usize, uuid: &str) -> Result<(), RuntimeError> {
    let here = context.device();
    match here.can_read_memory_of(uuid)? {
        Some(true) => Ok(()),
        Some(false) => Err(of_share(RuntimeError::missing(format!(
            "cuda:{} cannot read the memory of rank {other}'s GPU ({uuid}) over NVLink or PCIe: omit it",
            here.ordinal()
        )))),
        None => Err(of_share(RuntimeError::missing(format!(
            "rank {other} on this machine has GPU {uuid}, which this process does not see: let each rank see all GPUs \
             (CUDA_VISIBLE_DEVICES) and choose by `device`"
        )))),
    }
}

/// Distributes these nodes over `shares` shares in turn, so that frequently read nodes are spread evenly. Returns those
/// of the first share, then those of the second, and so on.
fn dealt(nodes: &[i64], shares: usize) -> Vec<i64> {
    (0..shares).flat_map(|share| nodes.iter().skip(share).step_by(shares)).copied().collect()
}

/// Creates a socket of this process's user for descriptors, and returns its name.
fn own_socket() -> Result<(String, Channel), RuntimeError> {
    let failed = |error: &dyn fmt::Display| of_share(RuntimeError::failed(format!("a socket: {error}")));
    let word = random_word().map_err(|error| failed(&error))?;
    let name = format!("uvatrain-cache-share-{word:016x}");
    let channel = Channel::named(&name).map_err(|error| failed(&error))?;
    channel.refuse_other_users().map_err(|error| failed(&error))?;
    Ok((name, channel))
}

/// Sends a descriptor of this rank's share to the others of the machine, which is at place `at` among them, and returns
/// their descriptors, by place. `most` is the largest number of ranks on a machine: all ranks meet equally often.
fn hand_over(
    exchange: &mut dyn Exchange,
    own: &Share,
    (channel, sockets): (&Channel, &[&str]),
    at: usize,
    most: usize,
) -> Result<Vec<OwnedFd>, RuntimeError> {
    let of = |other: usize, error: &dyn fmt::Display| {
        of_share(RuntimeError::failed(format!("with rank {other} of this machine: {error}")))
    };
    let shares = sockets.len();
    let mut got: Vec<Option<OwnedFd>> = sockets.iter().map(|_| None).collect();
    for step in 1..most {
        let (to, from) = ((at + step) % shares, (at + shares - step % shares) % shares);
        if step < shares {
            let sent = Channel::to_named(sockets[to]).map_err(|error| of(to, &error))?;
            sent.send(&at.to_le_bytes(), &[own.export()?.as_fd()]).map_err(|error| of(to, &error))?;
        }
        // One message then waits at each socket, and there is always space for it.
        all_meet(exchange)?;
        if step < shares {
            let received = channel.recv_within(PATIENCE).map_err(|error| of(from, &error))?;
            if received.payload != from.to_le_bytes() {
                return Err(of(from, &"the message came from another rank"));
            }
            got[from] = received.fds.into_iter().next();
        }
    }
    let missing = (0..shares).find(|&other| other != at && got[other].is_none());
    if let Some(other) = missing {
        return Err(of(other, &"no descriptor came with its message"));
    }
    Ok(got.into_iter().flatten().collect())
}

/// Waits for all ranks.
fn all_meet(exchange: &mut dyn Exchange) -> Result<(), ExchangeError> {
    let zeros = vec![0; exchange.ranks()];
    exchange.counts(&zeros).map(drop)
}

/// Returns the result of a comparison of the ranks' messages. A rank that rejects it first waits for the others' next
/// call: they have then received its message. Its error ends the group, and would otherwise replace their own, more
/// specific errors.
fn once_heard(exchange: &mut dyn Exchange, checked: Result<(), RuntimeError>) -> Result<(), RuntimeError> {
    checked.inspect_err(|_| {
        // The present error is the cause of any error of this call.
        let _ = all_meet(exchange);
    })
}

/// Exchanges a message among all ranks, and returns the messages by rank.
fn all_tell<T: Serialize + DeserializeOwned>(
    exchange: &mut dyn Exchange,
    said: &T,
) -> Result<Vec<T>, RuntimeError> {
    let text = serde_json::to_vec(said).map_err(|error| RuntimeError::failed(error.to_string()))?;
    let ranks = exchange.ranks();
    let lengths = exchange.counts(&vec![text.len() as u64; ranks])?;
    let lengths: Vec<usize> = lengths.into_iter().map(|length| length as usize).collect();
    let mut heard = vec![0; lengths.iter().sum()];
    let splits = Splits { send: &vec![text.len(); ranks], recv: &lengths };
    exchange.all_to_all(&text.repeat(ranks), &mut heard, splits)?;
    let mut left = heard.as_slice();
    let mut told = Vec::with_capacity(ranks);
    for (rank, length) in lengths.into_iter().enumerate() {
        let (text, rest) = left.split_at(length);
        left = rest;
        told.push(serde_json::from_slice(text).map_err(|error| {
            of_share(RuntimeError::usage(format!("rank {rank} runs another version of uvatrain: {error}")))
        })?);
    }
    Ok(told)
}

impl JoinedRows {
    /// A line for people.
    pub fn summary(&self, row_bytes: usize) -> String {
        let mib = (self.nodes.len() * row_bytes) as f64 / f64::from(1 << 20);
        format!("{} rows ({mib:.1} MiB) on {} GPUs", self.nodes.len(), self.gpus)
    }
}
