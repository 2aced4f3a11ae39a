//! Two concurrent sources: kernels over the link, and the CPU with a copy engine.

use std::sync::Arc;

use uva_cuda::{Context, CudaError, CudaEvent};

use super::balance::{Balance, PathWork};
use super::staging::StagingSource;
use crate::cuda::error::FillError;
use crate::cuda::place::{DevicePlace, DeviceSource};
use crate::host::HostSource;
use crate::source::{RowSource, RowsRead, Ticket};

/// Two sources that work at the same time, the first on the first rows of each batch. The share follows the measured
/// rates of both: [`Balance`].
#[derive(Debug)]
pub struct SplitSource<A, B> {
    first: A,
    second: B,
    balance: Balance,
    /// Events around both paths of each lane. Created with a lane's first fill, in the context of its stream.
    times: Vec<Option<Times>>,
    context: Arc<Context>,
}

#[derive(Debug)]
struct Times {
    first: Marks,
    second: Marks,
    /// The fill between the events: rows of the first source, and of both. `None` if one source had all the rows.
    divided: Option<(usize, usize)>,
}

/// Events around the work of a path.
#[derive(Debug)]
struct Marks {
    began: CudaEvent,
    ended: CudaEvent,
}

impl Marks {
    /// Creates events for a stream of this context.
    fn new(made_in: &Arc<Context>) -> Result<Self, CudaError> {
        Ok(Self { began: CudaEvent::timing(made_in)?, ended: CudaEvent::timing(made_in)? })
    }

    fn measured(&self, rows: usize) -> Result<PathWork, CudaError> {
        Ok(PathWork { rows, seconds: f64::from(CudaEvent::elapsed_ms(&self.began, &self.ended)?) / 1e3 })
    }
}

impl<A, B> SplitSource<A, B> {
    /// The share of the rows that the first source reads.
    pub fn share(&self) -> f64 {
        self.balance.share()
    }

    /// Sets the initial share, found by a sweep or an earlier run; it is adjusted from there on.
    pub fn set_share(&mut self, share: f64) {
        self.balance = Balance::new(share);
    }
}

impl<A: DeviceSource, S: HostSource> SplitSource<A, StagingSource<S>> {
    /// Combines two sources of the same rows, each with half of the rows initially.
    ///
    /// # Errors
    /// [`FillError::Layout`] for sources of different shapes.
    pub fn new(first: A, second: StagingSource<S>) -> Result<Self, FillError> {
        let shapes = [(first.rows(), first.row_bytes()), (second.rows(), second.row_bytes())];
        if shapes[0] != shapes[1] {
            return Err(FillError::Layout(format!("two sources of {shapes:?} rows and bytes a row")));
        }
        let context = Arc::clone(second.context());
        Ok(Self { first, second, balance: Balance::default(), times: Vec::new(), context })
    }
}

impl<A: DeviceSource, S: HostSource> RowSource<DevicePlace<'_>> for SplitSource<A, StagingSource<S>> {
    fn rows(&self) -> usize {
        self.first.rows()
    }

    fn row_bytes(&self) -> usize {
        self.first.row_bytes()
    }

    fn reserve(&mut self, lanes: usize, rows: usize) -> Result<(), FillError> {
        self.times.resize_with(lanes.max(self.times.len()), || None);
        self.first.reserve(lanes, rows)?;
        self.second.reserve(lanes, rows)
    }

    fn check(&self, ids: &[i64]) -> Result<(), FillError> {
        self.first.check(ids)?;
        self.second.check(ids)
    }

    fn submit(&mut self, ids: &[i64], place: DevicePlace<'_>) -> Result<Ticket, FillError> {
        let Self { first, second, balance, times, context } = self;
        let times = match times.get_mut(place.lane) {
            Some(Some(times)) => times,
            Some(times) => {
                let (first, second) = (Marks::new(place.stream.made_in())?, Marks::new(context)?);
                times.insert(Times { first, second, divided: None })
            }
            None => {
                return Err(FillError::Layout(format!("fill {} side by side was not reserved", place.lane)));
            }
        };
        let count = balance.first_of(ids.len());
        times.divided = (0 < count && count < ids.len()).then_some((count, ids.len()));
        let (ids, others) = ids.split_at(count);
        if !others.is_empty() {
            if ids.is_empty() {
                place.note_beginning()?;
            }
            times.first.began.record(place.stream)?;
            second.stream.wait(&times.first.began)?;
        }
        // The kernel first: it runs without the host, while the rows to copy are gathered here.
        let mut read = RowsRead::default();
        if !ids.is_empty() {
            read = first.submit(ids, DevicePlace { count, ..place })?.read;
        }
        if !others.is_empty() {
            times.first.ended.record(place.stream)?;
            times.second.began.record(&second.stream)?;
            let to = place.out + (count * second.row_bytes()) as u64;
            // SAFETY: the rows of the place after those of the first source, ordered by the wait above.
            unsafe { second.enqueue(others, to)? };
            times.second.ended.record(&second.stream)?;
            place.stream.wait(&times.second.ended)?;
            read = read.and(second.reads(others.len()));
        }
        Ok(Ticket::of(place.lane, read))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, FillError> {
        if let Some(times) = &mut self.times[ticket.lane]
            && let Some((first, all)) = times.divided.take()
        {
            self.balance.measured(times.first.measured(first)?, times.second.measured(all - first)?);
        }
        Ok(ticket.read)
    }
}
