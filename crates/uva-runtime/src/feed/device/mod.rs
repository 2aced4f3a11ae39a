//! Feature slots on a GPU: one buffer shared by producer and consumer, and two signals per slot.
//!
//! The ring of the feature slots is the same as on the host ([`uva_mem::ring`]). Its states give the owner of a slot,
//! and its payload is the batch's header. The arrays and rows are on the device, and are handed over *while work is
//! still in flight*. A side enqueues its last work on a slot, records a signal after that, and releases the slot at
//! once.
//!
//! | signal | recorded by | the other side |
//! |---|---|---|
//! | `ready` of a slot | producer, after gather and report | waits for it on its stream, after the acquire of `ready` |
//! | `free` of a slot | consumer, after its last use | waits for it on its stream, after the acquire of `free` |
//!
//! A signal is an event or a stamp, which is a word after the slots that one stream writes and another waits for.
//! `link` chooses between them.
//!
//! The producer works on two streams: uploads wait for `free`, gathers for their upload. Batches of a sampler on the
//! GPU need no upload of their columns where sampler and producer share a process (`batches`).
//!
//! A batch that does not fit its slot ([`RunPlan::fits_slot`](crate::plan::RunPlan::fits_slot)) follows the header in
//! the ring's payload, in the form of the slot. The producer then uses neither the device's slot nor `ready`. The
//! consumer copies the batch to separate memory, and signals `free` as usual: the next batch of the slot waits for
//! that.
//!
//! Invariants:
//! - A wait for an event covers only records before the wait was enqueued. The ring's state is stored (release) after
//!   the record has returned, and the wait is enqueued after that state was seen (acquire). The wait therefore always
//!   refers to the right record. A stamp is the sequence number plus one, and a wait specifies it; a word has one
//!   writer and only grows. A consumer therefore stamps slots as free that it passes over, too.
//! - In a slot's first generation `free` has not been recorded, and the producer does not wait for it.
//! - An event is made in the context of the streams that record it: a green one if the producer has separate
//!   multiprocessors (`Lane::events_in`).
//! - After a peer's death its signals are meaningless. Every wait then ends: `release` ends waits for stamps, and the
//!   launcher ends processes. The report that a gather writes after its rows carries a report stamp: the sequence
//!   number plus one. A consumer waits for its own work and then checks the stamp. If it differs, the consumer has
//!   computed on an unfinished batch, and discards the result ([`Receipt::confirm`]). A consumer that runs ahead of its
//!   GPU has the GPU compare ([`uva_batch::Proof`]), keeps the receipt, and confirms the batch later.
//! - The producer outlives the consumer's last wait: it ends when the consumer has returned the slot of the end. The
//!   consumer's memory of the slots outlives the producer too: the consumer has its own mapping, or an opened handle.

mod batches;
mod consumer;
mod direct;
mod errors;
mod host_work;
mod link;
mod open;
mod pinning;
mod producer;
mod release;
mod slots;
mod sources;

pub(crate) use batches::{DeviceBatches, bytes_on_gpu, stays_on_gpu};
pub(crate) use consumer::Loan;
pub use consumer::{DeviceSlots, Receipt};
pub(crate) use link::{SlotLink, consumer_side, one_process, producer_side};
pub(crate) use open::open_device;
pub(crate) use producer::{DeviceGather, DeviceSetup};
pub(crate) use sources::{cache_on_gpu, zero_copy};
