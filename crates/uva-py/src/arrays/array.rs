//! `Array`: an array in memory outside of Python that torch, numpy and others can view.

use std::sync::Arc;

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arrays::dlpack::{ArrayShape, DlpackDevice, DlpackType, LentArray, MemoryOwner};
use crate::process::fork::OwnProcess;

/// An array that torch, numpy and every other library with DLPack can view without a copy:
/// `torch.from_dlpack(array)`, `numpy.from_dlpack(array)`.
///
/// It keeps its memory alive, and so does every tensor made from it.
#[pyclass(frozen, module = "uvatrain._core")]
pub struct Array {
    pointer: *mut u8,
    shape: ArrayShape,
    element: DlpackType,
    device: DlpackDevice,
    read_only: bool,
    /// The stream that the memory is ordered on, as CUDA numbers it, if it is on a GPU.
    stream: Option<u64>,
    /// The only process that can access the memory, if it belongs to a slot.
    process: Option<OwnProcess>,
    owner: MemoryOwner,
}

// SAFETY: the pointer is only passed on, and read through only to copy. `owner` keeps its memory alive, and any thread
// may use `owner`.
unsafe impl Send for Array {}
// SAFETY: as above; the value itself never changes.
unsafe impl Sync for Array {}

impl Array {
    /// An array that begins at `pointer`: `rows` elements, or rows of `columns` elements.
    ///
    /// # Safety
    /// As long as `owner` lives, the memory does not move, is as long as shape and element say, and holds values of
    /// that type. Unless it is made [read-only](Array::read_only), its recipients may write to it.
    pub unsafe fn new(
        pointer: *mut u8,
        rows: usize,
        columns: Option<usize>,
        element: DlpackType,
        device: DlpackDevice,
        owner: MemoryOwner,
    ) -> Self {
        let shape = ArrayShape::new(rows, columns);
        Self { pointer, shape, element, device, read_only: false, stream: None, process: None, owner }
    }

    /// Marks the array as read-only.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Orders the array on this stream of a GPU: work on this stream finds it complete, work on others does not.
    pub fn ordered_on(mut self, stream: u64) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Marks the array as part of a slot of this process: forks cannot access the memory.
    pub fn in_slot_of(mut self, process: OwnProcess) -> Self {
        self.process = Some(process);
        self
    }

    /// Whether the CPU can read the array.
    pub fn is_on_host(&self) -> bool {
        self.device.is_host()
    }

    fn bytes(&self) -> usize {
        self.shape.elements() * self.element.bytes()
    }

    /// A capsule from which every library with DLPack can take the array.
    pub fn legacy_capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.lent()?.legacy(py)
    }

    fn lent(&self) -> PyResult<LentArray> {
        if let Some(process) = self.process {
            process.check_slot(|| "this array of a batch".to_owned())?;
        }
        Ok(LentArray {
            pointer: self.pointer,
            shape: self.shape,
            element: self.element,
            device: self.device,
            read_only: self.read_only,
            copied: false,
            owner: Arc::clone(&self.owner),
        })
    }

    fn copied(&self) -> PyResult<LentArray> {
        let lent = self.lent()?;
        if !self.device.is_host() {
            return Err(PyBufferError::new_err(
                "copy=True: not supported for an array on a GPU; copy it with the library that views it (torch: .clone())",
            ));
        }
        // Words, so that a copy is aligned for every element.
        let mut copy = vec![0_u64; self.bytes().div_ceil(8)].into_boxed_slice();
        let pointer = copy.as_mut_ptr().cast::<u8>();
        // SAFETY: the source has `bytes()` bytes for as long as the owner lives (see `new`). The target was just
        // allocated with that length, and no other code has its address.
        unsafe { std::ptr::copy_nonoverlapping(self.pointer, pointer, self.bytes()) };
        Ok(LentArray { pointer, read_only: false, copied: true, owner: Arc::new(OwnedCopy(copy)), ..lent })
    }

    /// Whether work that a consumer enqueues on this stream finds the array complete. CUDA has three names for its
    /// default stream: 0, and in DLPack 1; 2 is the one of each thread.
    fn check_stream(&self, stream: Option<i64>) -> PyResult<()> {
        let Some(own) = self.stream else {
            return match stream {
                Some(stream) if self.device.is_host() => Err(PyBufferError::new_err(format!(
                    "stream={stream}: this array is in host memory, which has no streams"
                ))),
                _ => Ok(()),
            };
        };
        // None is the default stream; -1 means that the consumer handles the order itself.
        let theirs = match stream {
            Some(-1) => return Ok(()),
            None | Some(0 | 1) => 0,
            Some(other) => other as u64,
        };
        if theirs == if own == 1 { 0 } else { own } {
            return Ok(());
        }
        Err(PyBufferError::new_err(format!(
            "the batch is ordered on stream {own:#x}, which was current when it was requested, but the consumer uses \
             stream {theirs:#x}: take the tensor before changing the stream and let the new stream wait \
             (torch: stream.wait_stream), or change the stream before requesting the batch"
        )))
    }
}

/// Memory of a copy. A separate type, because a boxed slice cannot become an owner's `dyn`.
struct OwnedCopy(#[expect(dead_code, reason = "it keeps the memory")] Box<[u64]>);

#[pymethods]
impl Array {
    /// Lends the memory: DLPack's protocol, as torch.from_dlpack and numpy.from_dlpack call it.
    ///
    /// stream: for memory on a GPU, the stream that the consumer will use, as DLPack numbers it.
    /// max_version: the newest version of DLPack that the consumer supports; by default, a capsule of versions before 1.0.
    /// dl_device: the device that the consumer requires; BufferError if it is another one.
    /// copy: True makes a copy of memory on the host; BufferError for memory on a GPU.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(wanted) = dl_device
            && wanted != self.device.pair()
        {
            return Err(PyBufferError::new_err(format!(
                "dl_device={wanted:?}: this array is on device {:?}; move the tensor that views it instead (torch: .to)",
                self.device.pair()
            )));
        }
        self.check_stream(stream)?;
        let lent = if copy == Some(true) { self.copied()? } else { self.lent()? };
        match max_version {
            Some((major, _)) if major >= 1 => lent.versioned(py),
            _ if lent.read_only => Err(PyBufferError::new_err(
                "this array is read-only, which only DLPack 1.0 and later supports: use a newer library, or pass \
                 copy=True",
            )),
            _ => lent.legacy(py),
        }
    }

    /// Where the memory is, as in DLPack: (1, 0) for the host, (2, i) for GPU i.
    fn __dlpack_device__(&self) -> (i32, i32) {
        self.device.pair()
    }

    /// Each dimension's length.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape.sizes())
    }

    /// The element's name: float32, float16, bfloat16, float8_e4m3fn, uint8, int8, int32 or int64.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.element.name()
    }

    /// Bytes in memory.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes()
    }

    fn __len__(&self) -> usize {
        self.shape.sizes()[0] as usize
    }

    fn __repr__(&self) -> String {
        let (kind, id) = self.device.pair();
        let place =
            if self.device.is_host() { "the host".to_owned() } else { format!("device ({kind}, {id})") };
        format!("<uvatrain.Array {} {:?} on {place}>", self.element.name(), self.shape.sizes())
    }
}
