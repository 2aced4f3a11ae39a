//! The check that a waiting side makes when nothing happens: does the peer still exist?

/// Why waiting is pointless: the peer died, or somebody asked for the end of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerGone {
    /// For people, for example "the producer (process 4711) has ended".
    pub reason: String,
}

impl PeerGone {
    /// With a reason for people.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// Called whenever a wait has lasted for a while, at most [`LIVENESS_INTERVAL`](super::LIVENESS_INTERVAL) apart. A
/// stopped peer is alive; a zombie is not.
///
/// Closures `Fn() -> Result<(), Gone>` implement it, and so does [`PidFd`](crate::PidFd).
pub trait Liveness {
    /// `Ok` to go on waiting.
    ///
    /// # Errors
    /// [`PeerGone`] ends the wait, unless the awaited event has happened meanwhile.
    fn check(&self) -> Result<(), PeerGone>;
}

impl<F: Fn() -> Result<(), PeerGone>> Liveness for F {
    fn check(&self) -> Result<(), PeerGone> {
        self()
    }
}

/// Waits forever: for tests and for threads that cannot die alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAlive;

impl Liveness for AlwaysAlive {
    fn check(&self) -> Result<(), PeerGone> {
        Ok(())
    }
}
