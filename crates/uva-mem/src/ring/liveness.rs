//! Liveness checks of the peer during a wait.

/// Why a wait ended early: the peer died, or the end of the run was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerGone {
    /// Text for users, for example "the producer (process 4711) has ended".
    pub reason: String,
}

impl PeerGone {
    /// Creates a value with a reason for users.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// A check whether the peer of a wait is alive, called at least every [`LIVENESS_INTERVAL`](super::LIVENESS_INTERVAL)
/// of the wait. A stopped peer is alive; a zombie is not.
///
/// Closures `Fn() -> Result<(), Gone>` implement it, and so does [`PidFd`](crate::PidFd).
pub trait Liveness {
    /// Returns `Ok` to continue waiting.
    ///
    /// # Errors
    /// [`PeerGone`] ends the wait, unless the awaited event has happened in the meantime.
    fn check(&self) -> Result<(), PeerGone>;
}

impl<F: Fn() -> Result<(), PeerGone>> Liveness for F {
    fn check(&self) -> Result<(), PeerGone> {
        self()
    }
}

/// A check that never fails, for tests and for threads that cannot die independently.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAlive;

impl Liveness for AlwaysAlive {
    fn check(&self) -> Result<(), PeerGone> {
        Ok(())
    }
}
