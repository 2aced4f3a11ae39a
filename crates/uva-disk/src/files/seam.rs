//! Where tests put other answers in the place of the system's.

use rustix::io::Errno;

/// What a read answered: bytes, or why not.
pub(crate) type ReadResult = Result<usize, Errno>;

#[cfg(test)]
type Inject = std::sync::Arc<dyn Fn(u64, ReadResult) -> ReadResult + Send + Sync>;

/// Every answer of the system passes through it. Outside of tests it changes nothing.
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
    /// Answers by this function of a read's offset and the true answer.
    #[cfg(test)]
    pub fn injecting(inject: impl Fn(u64, ReadResult) -> ReadResult + Send + Sync + 'static) -> Self {
        Self { inject: Some(std::sync::Arc::new(inject)), ..Self::default() }
    }

    /// Answers as a file system without `O_DIRECT` does.
    #[cfg(test)]
    pub fn refusing_direct() -> Self {
        Self { refuses_direct: true, ..Self::default() }
    }

    /// Answers as a file system that takes `O_DIRECT` and refuses reads with it.
    #[cfg(test)]
    pub fn refusing_direct_reads() -> Self {
        Self { refuses_direct_reads: true, ..Self::default() }
    }

    /// The seam of a file that is open without `O_DIRECT`.
    #[cfg(not(test))]
    pub fn past_direct(self) -> Self {
        self
    }

    /// The seam of a file that is open without `O_DIRECT`.
    #[cfg(test)]
    pub fn past_direct(self) -> Self {
        Self { refuses_direct_reads: false, ..self }
    }

    /// The answer to the wish for `O_DIRECT`.
    #[cfg(not(test))]
    pub fn pass_direct(&self, answer: Result<(), Errno>) -> Result<(), Errno> {
        answer
    }

    /// The answer to the wish for `O_DIRECT`.
    #[cfg(test)]
    pub fn pass_direct(&self, answer: Result<(), Errno>) -> Result<(), Errno> {
        if self.refuses_direct { Err(Errno::INVAL) } else { answer }
    }

    /// The answer to a read at `offset` into `bytes`.
    #[cfg(not(test))]
    pub fn pass(&self, _offset: u64, answer: ReadResult, _bytes: &mut [u8]) -> ReadResult {
        answer
    }

    /// The answer to a read at `offset` into `bytes`. What it says was not read is spoilt, so that nobody can use it.
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
