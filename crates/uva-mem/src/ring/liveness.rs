//! What a waiting side asks when nothing happens: is there still anybody to wait for?

/// Why waiting is pointless: the peer died, or somebody asked for the end of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// For people, such as "the producer (process 4711) has ended".
    pub reason: String,
}

impl Gone {
    /// With a reason for people.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// Asked whenever a wait has gone on for a while (at most [`LIVENESS_INTERVAL`](super::LIVENESS_INTERVAL) between
/// two questions). A stopped peer is alive; a zombie is not.
///
/// Closures `Fn() -> Result<(), Gone>` are one, and so is a [`PidFd`](crate::PidFd).
pub trait Liveness {
    /// `Ok` to go on waiting.
    ///
    /// # Errors
    /// [`Gone`] ends the wait, unless what was waited for has happened meanwhile.
    fn check(&self) -> Result<(), Gone>;
}

impl<F: Fn() -> Result<(), Gone>> Liveness for F {
    fn check(&self) -> Result<(), Gone> {
        self()
    }
}

/// Waits for ever: for tests and for threads that cannot die alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAlive;

impl Liveness for AlwaysAlive {
    fn check(&self) -> Result<(), Gone> {
        Ok(())
    }
}
