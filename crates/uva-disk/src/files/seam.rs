//! Fault injection: tests replace results of the system.

use rustix::io::Errno;

/// The result of a read: the number of bytes, or an error.
pub(crate) type ReadResult = Result<usize, Errno>;

#[cfg(test)]
type Inject = std::sync::Arc<dyn Fn(u64, ReadResult) -> ReadResult + Send + Sync>;

/// A hook for every result of the system. Has no effect outside of tests.
#[derive(Clone, Default)]
pub(crate) struct Seam {
    #[cfg(test)]
    inject: Option<Inject>,
    #[cfg(test)]
    refuses_direct: bool,
    #[cfg(test)]
    refuses_direct_reads: bool,
}

impl Seam {
    /// Replaces results by this function of a read's offset and the true result.
    #[cfg(test)]
    pub fn injecting(inject: impl Fn(u64, ReadResult) -> ReadResult + Send + Sync + 'static) -> Self {
        Self { inject: Some(std::sync::Arc::new(inject)), ..Self::default() }
    }

    /// Simulates a file system without `O_DIRECT`.
    #[cfg(test)]
    pub fn refusing_direct() -> Self {
        Self { refuses_direct: true, ..Self::default() }
    }

    /// Simulates a file system that accepts `O_DIRECT` but fails reads with it.
    #[cfg(test)]
    pub fn refusing_direct_reads() -> Self {
        Self { refuses_direct_reads: true, ..Self::default() }
    }

    /// Returns the seam of a file that is open without `O_DIRECT`.
    #[cfg(not(test))]
    pub fn past_direct(self) -> Self {
        self
    }

    /// Returns the seam of a file that is open without `O_DIRECT`.
    #[cfg(test)]
    pub fn past_direct(self) -> Self {
        Self { refuses_direct_reads: false, ..self }
    }

    /// The result of a request for `O_DIRECT`.
    #[cfg(not(test))]
    pub fn pass_direct(&self, answer: Result<(), Errno>) -> Result<(), Errno> {
        answer
    }

    /// The result of a request for `O_DIRECT`.
    #[cfg(test)]
    pub fn pass_direct(&self, answer: Result<(), Errno>) -> Result<(), Errno> {
        if self.refuses_direct { Err(Errno::INVAL) } else { answer }
    }

    /// The result of a read at `offset` into `bytes`.
    #[cfg(not(test))]
    pub fn pass(&self, _offset: u64, answer: ReadResult, _bytes: &mut [u8]) -> ReadResult {
        answer
    }

    /// The result of a read at `offset` into `bytes`. Bytes that were not read by this result are overwritten, so that
    /// a use of them is detected.
    #[cfg(test)]
    pub fn pass(&self, offset: u64, answer: ReadResult, bytes: &mut [u8]) -> ReadResult {
        if self.refuses_direct_reads {
            return Err(Errno::INVAL);
        }
        let Some(inject) = &self.inject else { return answer };
        let answer = inject(offset, answer);
        bytes[answer.unwrap_or(0)..].fill(0xEE);
        answer
    }
}
