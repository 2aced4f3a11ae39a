//! Copies within a device, many by one launch: `kernels/copies.cuh`.

use crate::arrays::KernelArray;
use crate::source::COPIES_CUH;

/// The entry point. It runs with any grid.
pub const COPY_ARRAYS: &str = "copy_arrays";

/// The maximum number of copies of a launch.
pub const COPIES_AT_ONCE: usize = crate::header::constant(COPIES_CUH, "UVA_COPIES_AT_ONCE") as usize;

/// Bytes that a warp copies at a time.
pub const COPY_PIECE: u64 = crate::header::constant(COPIES_CUH, "COPY_PIECE");

shared_struct! {
    in COPIES_CUH;
    /// One copy. Addresses are the device's, of any alignment; the two places do not overlap.
    pub struct DeviceCopy {
        /// The source address.
        pub from: u64,
        /// The destination address.
        pub to: u64,
        /// The number of bytes.
        pub bytes: u64,
    }
}

shared_struct! {
    in COPIES_CUH;
    /// The copies of a launch.
    pub struct CopyArguments {
        /// The number of copies: at most [`COPIES_AT_ONCE`].
        pub count: u64,
        /// The copies; those after `count` are ignored.
        pub copies: [DeviceCopy; COPIES_AT_ONCE],
    }
}

impl CopyArguments {
    /// Creates the arguments of a launch.
    ///
    /// # Panics
    /// If there are more than [`COPIES_AT_ONCE`] copies.
    pub fn new(copies: &[DeviceCopy]) -> Self {
        let mut all = Self { count: copies.len() as u64, ..bytemuck::Zeroable::zeroed() };
        all.copies[..copies.len()].copy_from_slice(copies);
        all
    }

    /// The first `count` copies.
    pub fn copies(&self) -> &[DeviceCopy] {
        &self.copies[..(self.count as usize).min(COPIES_AT_ONCE)]
    }

    /// The arrays of these arguments.
    pub fn arrays(&self) -> impl Iterator<Item = KernelArray> {
        let of = |copy: &DeviceCopy| {
            let from = KernelArray::read("the source of a copy", copy.from, copy.bytes, 1);
            [from, KernelArray::write("the target of a copy", copy.to, copy.bytes, 1)]
        };
        self.copies().iter().flat_map(of)
    }

    /// Warps with work.
    pub fn useful_warps(&self) -> u64 {
        self.copies().iter().map(|copy| copy.bytes.div_ceil(COPY_PIECE)).sum()
    }

    /// Checks the arguments.
    ///
    /// # Errors
    /// The reason why no memory can match these arguments.
    pub fn check(&self) -> Result<(), String> {
        let refusal = self.arrays().find_map(|array| array.refusal());
        refusal.map_or(Ok(()), |what| Err(format!("arrays cannot be copied: {what}")))
    }
}
