//! The exchange between ranks of one machine, through shared memory.
//!
//! There is a [slot ring](uva_mem::ring) from each rank to each other: a mailbox of a few pieces. A message is divided
//! into pieces, so it may have any size. In addition, a [page](page) of words records which ranks have joined and are
//! alive, and the first failure.
//!
//! # Freedom from deadlock
//! In step `k` of a call, rank `r` sends to rank `r + k` and receives from rank `r - k`. For each piece it first puts
//! one, then takes one. So a rank's position is (step, piece, put or take), and every rank's position only grows. Take
//! the rank with the smallest position. If it waits to put a piece, its peer has yet to take an earlier piece of the
//! same step: a smaller position. If it waits to take a piece, its peer has yet to put that piece: again a smaller
//! position. So it does not wait.

mod bucket;
mod group;
mod message;
mod page;
mod process;
mod settings;
mod watch;

use std::ops::Range;
use std::time::Instant;

use uva_mem::ring::{LIVENESS_INTERVAL, Reader, RingError, Writer};

pub use group::Group;
pub use settings::{Link, MOST_RANKS, Settings};

use crate::error::{Cause, ExchangeError};
use crate::exchange::{Canceller, Exchange, OwnMemory, Splits, check_counts};
use bucket::TokenBucket;
use group::Memory;
use message::{HEADER, Message, MessageKind, Pieces};
use page::GroupFailure;
use process::Process;
use watch::{PeerWatch, WaitEnd};

/// A rank of a group on one machine: a thread, or a process. Created by [`SharedMemory::join`].
#[derive(Debug)]
pub struct SharedMemory {
    memory: Memory,
    settings: Settings,
    rank: usize,
    /// The state of each other rank, by rank; `None` for this one.
    peers: Vec<Option<Peer>>,
    bucket: Option<TokenBucket>,
    calls: u64,
    ended: Option<ExchangeError>,
    own: OwnMemory,
}

/// A rank's state for a peer.
#[derive(Debug)]
struct Peer {
    writer: Writer,
    /// The number of pieces put so far.
    put: u64,
    reader: Reader,
    /// The number of pieces taken so far.
    taken: u64,
    process: Process,
}

/// Why a call cannot continue.
enum Stop {
    /// Some rank ended the exchange.
    Told(GroupFailure),
    /// This rank detected the failure of a peer, with details for users.
    Found(usize, Cause, String),
}

impl SharedMemory {
    /// Joins a group as `rank`. No rank waits for the others here.
    ///
    /// # Errors
    /// [`ExchangeError::Setting`] for a rank that the group does not have, [`ExchangeError::Taken`] for a rank that has
    /// joined already.
    pub fn join(group: &Group, rank: usize) -> Result<Self, ExchangeError> {
        let (memory, settings) = (group.memory().clone(), group.settings().clone());
        let ranks = settings.ranks;
        if rank >= ranks {
            let needed = format!("ranks of this group are 0 to {}", ranks - 1);
            return Err(ExchangeError::Setting { setting: "rank", value: rank as u64, needed });
        }
        memory
            .page()
            .join(rank, std::process::id())
            .map_err(|process| ExchangeError::Taken { rank, process })?;
        // Ranks that already wait for it start to count its silence here.
        memory.page().beat(rank);
        let peer = |peer: usize| {
            (peer != rank).then(|| Peer {
                writer: memory.ring(rank, peer).writer(),
                put: 0,
                reader: memory.ring(peer, rank).reader(),
                taken: 0,
                process: Process::default(),
            })
        };
        let peers = (0..ranks).map(peer).collect();
        let bucket = settings.link.map(TokenBucket::new);
        let own = OwnMemory::default();
        Ok(Self { memory, settings, rank, peers, bucket, calls: 0, ended: None, own })
    }

    /// Creates all ranks of a new group, for threads of this process.
    ///
    /// # Errors
    /// As [`Group::create`].
    pub fn threads(settings: &Settings) -> Result<Vec<Self>, ExchangeError> {
        let group = Group::create(settings)?;
        (0..settings.ranks).map(|rank| Self::join(&group, rank)).collect()
    }

    fn call(
        &mut self,
        kind: MessageKind,
        send: &[u8],
        recv: &mut [u8],
        splits: Splits<'_>,
    ) -> Result<(), ExchangeError> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        self.calls += 1;
        self.exchange(kind, send, recv, splits).map_err(|stop| {
            let error = self.end(stop);
            self.ended = Some(error.clone());
            error
        })
    }

    fn exchange(
        &mut self,
        kind: MessageKind,
        send: &[u8],
        recv: &mut [u8],
        splits: Splits<'_>,
    ) -> Result<(), Stop> {
        let (rank, ranks, piece_bytes) = (self.rank, self.settings.ranks, self.settings.piece_bytes);
        let (given, got) = (ranges(splits.send), ranges(splits.recv));
        self.go_on()?;
        recv[got[rank].clone()].copy_from_slice(&send[given[rank].clone()]);
        for step in 1..ranks {
            let (to, from) = ((rank + step) % ranks, (rank + ranks - step) % ranks);
            let (given, got) = (&send[given[to].clone()], &mut recv[got[from].clone()]);
            let (puts, takes) = (Pieces::new(given.len(), piece_bytes), Pieces::new(got.len(), piece_bytes));
            for piece in 0..puts.count().max(takes.count()) {
                if piece < puts.count() {
                    self.put(to, kind, given, puts, piece)?;
                }
                if piece < takes.count() {
                    self.take(from, kind, got, takes, piece)?;
                }
            }
        }
        Ok(())
    }

    /// Gives a sign of life, and fails if the exchange ended before this call could complete.
    fn go_on(&self) -> Result<(), Stop> {
        self.memory.page().beat(self.rank);
        self.memory.page().failure(self.calls).map_or(Ok(()), |failure| Err(Stop::Told(failure)))
    }

    /// Puts a piece of a message into the mailbox of rank `to`.
    fn put(
        &mut self,
        to: usize,
        kind: MessageKind,
        bytes: &[u8],
        pieces: Pieces,
        piece: usize,
    ) -> Result<(), Stop> {
        let range = pieces.range(piece);
        let head = if piece == 0 { HEADER } else { 0 };
        let length = head + range.len();
        self.wait_for_the_link(length)?;
        self.go_on()?;
        let Some(peer) = &mut self.peers[to] else { unreachable!("no step leads to the rank itself") };
        let (page, timeout) = (self.memory.page(), self.settings.timeout);
        let watch = PeerWatch::new(page, (self.rank, to), self.calls, &peer.process, timeout);
        let stop = |error: RingError| stopped(&watch, to, &error);
        let mut slot = peer.writer.acquire(peer.put, &watch).map_err(stop)?;
        let payload = slot.payload_mut();
        if piece == 0 {
            Message { call: self.calls, kind, bytes: bytes.len() as u64 }.write(&mut payload[..HEADER]);
        }
        payload[head..length].copy_from_slice(&bytes[range]);
        slot.publish(length as u64).map_err(stop)?;
        peer.put += 1;
        Ok(())
    }

    /// Takes a piece of a message out of the mailbox from rank `from`.
    fn take(
        &mut self,
        from: usize,
        kind: MessageKind,
        bytes: &mut [u8],
        pieces: Pieces,
        piece: usize,
    ) -> Result<(), Stop> {
        self.go_on()?;
        let Some(peer) = &mut self.peers[from] else { unreachable!("no step leads to the rank itself") };
        let (page, timeout) = (self.memory.page(), self.settings.timeout);
        let watch = PeerWatch::new(page, (self.rank, from), self.calls, &peer.process, timeout);
        let stop = |error: RingError| stopped(&watch, from, &error);
        // A peer that left before this rank waits would not wake it. Pieces that it put before leaving are available.
        let left = watch.peer_has_left();
        let slot = match peer.reader.acquire_if_ready(peer.taken).map_err(stop)? {
            Some(slot) => slot,
            None if left => return Err(Stop::Found(from, Cause::Left, String::new())),
            None => peer.reader.acquire(peer.taken, &watch).map_err(stop)?,
        };
        let (payload, range) = (slot.payload(), pieces.range(piece));
        let mut head = 0;
        if piece == 0 {
            head = HEADER;
            let expected = Message { call: self.calls, kind, bytes: bytes.len() as u64 };
            let found = payload.get(..HEADER).and_then(Message::read);
            let damaged = || Stop::Found(from, Cause::Damaged, ": it has no header".to_owned());
            let found = found.ok_or_else(damaged)?;
            if let Some(difference) = found.differs_from(expected) {
                return Err(Stop::Found(from, Cause::Disagreed, difference));
            }
        }
        if payload.len() != head + range.len() {
            let (found, expected) = (payload.len(), head + range.len());
            let detail = format!(": piece {piece} has {found} bytes instead of {expected}");
            return Err(Stop::Found(from, Cause::Damaged, detail));
        }
        bytes[range].copy_from_slice(&payload[head..]);
        slot.release().map_err(stop)?;
        peer.taken += 1;
        Ok(())
    }

    /// Waits until the slow link, if any, lets `bytes` bytes pass.
    fn wait_for_the_link(&mut self, bytes: usize) -> Result<(), Stop> {
        let now = Instant::now();
        let Some(bucket) = &mut self.bucket else { return Ok(()) };
        let until = now + bucket.take(bytes, now);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.go_on()?;
            // In short sleeps, so that a cancelled rank does not wait for the link, and peers see signs of life.
            std::thread::sleep(left.min(LIVENESS_INTERVAL));
        }
    }

    /// Converts the reason for a stop to an error, and notifies the other ranks if needed.
    fn end(&self, stop: Stop) -> ExchangeError {
        let (rank, call) = (self.rank, self.calls);
        let page = self.memory.page();
        let failure = match stop {
            Stop::Told(failure) => failure,
            Stop::Found(peer, cause, detail) => {
                let mine = GroupFailure { by: rank, peer, cause };
                let first = page.fail(mine, call);
                self.memory.wake();
                if first == mine {
                    let detail = if detail.is_empty() { self.detail(peer, cause) } else { detail };
                    return ExchangeError::Peer { rank, call, peer, cause, detail };
                }
                // Another rank was first. The failure detected by this rank may be only a consequence, for example if
                // the other rank has left.
                first
            }
        };
        let GroupFailure { by, peer, cause } = failure;
        let detail = self.detail(peer, cause);
        if by == peer || by == rank {
            return ExchangeError::Peer { rank, call, peer, cause, detail };
        }
        ExchangeError::Told { rank, call, by, peer, cause, detail }
    }

    /// The details of a message after the cause.
    fn detail(&self, peer: usize, cause: Cause) -> String {
        let timeout = self.settings.timeout.as_secs_f64();
        match cause {
            Cause::Absent => format!(" within {timeout} s"),
            Cause::Silent => format!(" for {timeout} s"),
            Cause::Ended => {
                let process = self.memory.page().member(peer).process();
                process.map_or_else(String::new, |process| format!(" (process {process})"))
            }
            _ => String::new(),
        }
    }
}

/// The range of each rank's bytes.
fn ranges(splits: &[usize]) -> Vec<Range<usize>> {
    let mut end = 0;
    let range = |&split: &usize| {
        let start = end;
        end += split;
        start..end
    };
    splits.iter().map(range).collect()
}

/// Why a wait at a mailbox ended.
fn stopped(watch: &PeerWatch<'_>, peer: usize, error: &RingError) -> Stop {
    match watch.found() {
        Some(WaitEnd::Failure(failure)) => Stop::Told(failure),
        Some(WaitEnd::Peer(cause)) => Stop::Found(peer, cause, String::new()),
        // Only a ring whose words were overwritten has other errors.
        None => Stop::Found(peer, Cause::Damaged, format!(": {error}")),
    }
}

impl Exchange for SharedMemory {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.settings.ranks
    }

    fn counts(&mut self, send: &[u64]) -> Result<Vec<u64>, ExchangeError> {
        check_counts(self.rank, self.settings.ranks, send)?;
        let sent: Vec<u8> = send.iter().flat_map(|count| count.to_le_bytes()).collect();
        let mut received = vec![0; sent.len()];
        let splits = vec![size_of::<u64>(); send.len()];
        self.call(MessageKind::Counts, &sent, &mut received, Splits { send: &splits, recv: &splits })?;
        let (counts, _) = received.as_chunks();
        Ok(counts.iter().map(|&bytes| u64::from_le_bytes(bytes)).collect())
    }

    fn all_to_all(&mut self, send: &[u8], recv: &mut [u8], splits: Splits<'_>) -> Result<(), ExchangeError> {
        splits.check(self.rank, self.settings.ranks, send.len(), recv.len())?;
        self.call(MessageKind::AllToAll, send, recv, splits)
    }

    fn lend(&mut self, bytes: usize) -> Result<&mut [u8], ExchangeError> {
        Ok(self.own.lend(bytes))
    }

    fn exchange_lent(&mut self, splits: Splits<'_>) -> Result<(), ExchangeError> {
        OwnMemory::exchange(self, |exchange| &mut exchange.own, splits)
    }

    fn received(&self) -> &[u8] {
        self.own.received()
    }

    fn canceller(&self) -> Canceller {
        let (memory, rank) = (self.memory.clone(), self.rank);
        Canceller::new(move || {
            memory.page().fail(GroupFailure { by: rank, peer: rank, cause: Cause::Cancelled }, 0);
            memory.wake();
        })
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // All pieces of completed calls were published before, so the other ranks still receive them.
        self.memory.page().leave(self.rank);
        self.memory.wake();
    }
}
