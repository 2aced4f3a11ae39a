//! Back-pressure from the consumer on the producer's threads: PaGraph's feedback (Lin et al., SoCC'20, §3.4.2), driven
//! by the length of the queue to the consumer.
//!
//! A producer that is ahead takes cores and memory bandwidth from the training without a benefit. While the queue is
//! full it therefore releases one thread per batch. An empty queue means that the consumer waits; the producer then
//! doubles its threads, up to all. Only the time changes, never a batch.

/// The number of threads that the producer uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackPressure {
    /// Threads in use, 1 to `most`.
    now: u32,
    most: u32,
    /// The queue's length when it is full.
    full: u64,
}

impl BackPressure {
    /// Creates the state for a producer with this many threads (at least 1) and feature slots. It starts with all
    /// threads, since at first the consumer waits.
    pub fn new(threads: usize, slots: usize) -> Self {
        let most = u32::try_from(threads).unwrap_or(u32::MAX).max(1);
        // The consumer holds one slot while the others wait for it. With a single slot no batch ever waits.
        Self { now: most, most, full: (slots as u64).saturating_sub(1).max(1) }
    }

    /// Threads for the next batch, while `queue` batches wait for the consumer.
    pub fn follow(&mut self, queue: u64) -> u32 {
        if queue >= self.full {
            self.now = (self.now - 1).max(1);
        } else if queue == 0 {
            self.now = self.now.saturating_mul(2).min(self.most);
        }
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_slows_down_by_a_thread_a_batch_and_an_empty_one_doubles() {
        let mut pace = BackPressure::new(8, 3);
        assert_eq!((0..9).map(|_| pace.follow(2)).collect::<Vec<_>>(), [7, 6, 5, 4, 3, 2, 1, 1, 1]);
        assert_eq!((0..4).map(|_| pace.follow(0)).collect::<Vec<_>>(), [2, 4, 8, 8]);
    }

    #[test]
    fn in_between_it_stays() {
        let mut pace = BackPressure::new(8, 4);
        pace.follow(3);
        assert_eq!([pace.follow(1), pace.follow(2)], [7, 7]);
    }

    #[test]
    fn one_thread_or_one_slot_leave_nothing_to_change() {
        let mut one = BackPressure::new(1, 2);
        assert_eq!([one.follow(1), one.follow(0)], [1, 1]);
        let mut alone = BackPressure::new(4, 1);
        assert_eq!([alone.follow(0), alone.follow(0)], [4, 4]);
    }
}
