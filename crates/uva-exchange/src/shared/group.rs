//! The shared memory of a group.

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use uva_mem::ControlPage;
use uva_mem::ring::{Ring, RingShape};

use super::page::Page;
use super::settings::Settings;
use crate::error::ExchangeError;

const PAGE_NAME: &str = "uva-exchange";
const RINGS_NAME: &str = "exchange";

/// The memory of a group, which its ranks [join](super::SharedMemory::join). A clone is the same group.
///
/// It consists of two memfds without a name in any file system, so it is freed when the last process ends, even if that
/// is killed. One process creates it and sends the [descriptors](Self::fds), and the others [open](Self::open) it. All
/// processes must see each other's process numbers, so they run in one PID namespace.
#[derive(Clone, Debug)]
pub struct Group {
    memory: Memory,
    settings: Settings,
}

/// The group's memory, mapped.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    mapped: Arc<MappedGroup>,
}

#[derive(Debug)]
struct MappedGroup {
    page: Page,
    /// The mailbox from each rank to each other one.
    rings: Vec<Ring>,
    ranks: usize,
}

impl Group {
    /// Creates a group, which no rank has joined yet.
    ///
    /// # Errors
    /// [`ExchangeError::Setting`] for invalid settings, [`ExchangeError::Memory`] if the memory cannot be allocated.
    pub fn create(settings: &Settings) -> Result<Self, ExchangeError> {
        settings.check()?;
        let ranks = settings.ranks;
        let page = ControlPage::create(PAGE_NAME, Page::words(ranks)).map_err(|error| lack(ranks, &error))?;
        let rings = Ring::create_set(RINGS_NAME, shape(settings), mailboxes(ranks));
        Ok(Self::over(settings, page, rings.map_err(|error| lack(ranks, &error))?))
    }

    /// Opens the group that another process created with the same settings. The descriptors are those of its
    /// [`fds`](Self::fds), in that order.
    ///
    /// # Errors
    /// As [`create`](Self::create); [`ExchangeError::Memory`] also for other descriptors.
    pub fn open(settings: &Settings, [page, rings]: [OwnedFd; 2]) -> Result<Self, ExchangeError> {
        settings.check()?;
        let ranks = settings.ranks;
        let page =
            ControlPage::open(PAGE_NAME, page, Page::words(ranks)).map_err(|error| lack(ranks, &error))?;
        let rings = Ring::open_set(RINGS_NAME, rings, shape(settings), mailboxes(ranks));
        Ok(Self::over(settings, page, rings.map_err(|error| lack(ranks, &error))?))
    }

    fn over(settings: &Settings, page: ControlPage, rings: Vec<Ring>) -> Self {
        let mapped = Arc::new(MappedGroup { page: Page::new(page), rings, ranks: settings.ranks });
        Self { memory: Memory { mapped }, settings: settings.clone() }
    }

    /// The descriptors of the page and of the mailboxes, to hand over to other processes.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        let MappedGroup { page, rings, .. } = &*self.memory.mapped;
        [page.control().fd(), rings[0].fd().expect("both constructors make or take one")]
    }

    /// The group's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl Memory {
    pub fn page(&self) -> &Page {
        &self.mapped.page
    }

    /// The mailbox from one rank to another.
    pub fn ring(&self, from: usize, to: usize) -> &Ring {
        let others_before = if to > from { to - 1 } else { to };
        &self.mapped.rings[from * (self.mapped.ranks - 1) + others_before]
    }

    /// Wakes all ranks that wait, so that they check the page now.
    pub fn wake(&self) {
        self.mapped.rings.iter().for_each(Ring::wake_all);
    }
}

/// The number of mailboxes: one from each rank to each other. A group of one rank has one unused mailbox, since a set
/// of rings cannot be empty.
fn mailboxes(ranks: usize) -> usize {
    (ranks * (ranks - 1)).max(1)
}

fn shape(settings: &Settings) -> RingShape {
    RingShape { slots: settings.pieces, payload_bytes: settings.piece_bytes }
}

fn lack(ranks: usize, error: &dyn fmt::Display) -> ExchangeError {
    ExchangeError::Memory { ranks, reason: error.to_string() }
}
