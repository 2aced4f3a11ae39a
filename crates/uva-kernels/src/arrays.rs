//! The arrays of a kernel's arguments, which launchers check and simulators resolve.

/// A kernel's access to an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The kernel reads the array.
    Read,
    /// The kernel writes the array, and may read it.
    Write,
}

/// An array of a kernel's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelArray {
    /// Its name in messages.
    pub name: &'static str,
    /// The device address; 0 if absent.
    pub address: u64,
    /// The number of entries.
    pub count: u64,
    /// Bytes of an entry.
    pub entry_bytes: u64,
    /// The alignment of the address.
    pub alignment: u64,
    /// The kernel's access to it.
    pub access: Access,
    /// Whether the array ends after `count` entries. The arguments do not state the ends of other arrays; their `count`
    /// is 1.
    pub bounded: bool,
}

impl KernelArray {
    /// An array that is read, with entries aligned to their size, at most 8 bytes.
    pub(crate) const fn read(name: &'static str, address: u64, count: u64, entry_bytes: u64) -> Self {
        let alignment = if entry_bytes < 8 { entry_bytes } else { 8 };
        Self { name, address, count, entry_bytes, alignment, access: Access::Read, bounded: true }
    }

    /// An array that is written, with entries aligned to their size, at most 8 bytes.
    pub(crate) const fn write(name: &'static str, address: u64, count: u64, entry_bytes: u64) -> Self {
        Self { access: Access::Write, ..Self::read(name, address, count, entry_bytes) }
    }

    /// Rows of any alignment.
    pub(crate) const fn unaligned(self) -> Self {
        Self { alignment: 1, ..self }
    }

    /// An array whose end the arguments do not state.
    pub(crate) const fn unbounded(self) -> Self {
        Self { count: 1, bounded: false, ..self }
    }

    /// The same array, without entries if it has no address.
    pub(crate) const fn if_any(self) -> Self {
        Self { count: if self.address == 0 { 0 } else { self.count }, ..self }
    }

    /// Why no memory can match this array, if so.
    pub(crate) fn refusal(&self) -> Option<String> {
        let Self { name, address, count, entry_bytes, alignment, .. } = *self;
        if count.checked_mul(entry_bytes).and_then(|bytes| address.checked_add(bytes)).is_none() {
            return Some(format!(
                "{name} ({count} times {entry_bytes} bytes at {address:#x}) reaches beyond 64 bits"
            ));
        }
        if count > 0 && address == 0 {
            return Some(format!("{name} is at address 0"));
        }
        (!address.is_multiple_of(alignment))
            .then(|| format!("{name} at {address:#x} is not aligned to {alignment} bytes"))
    }
}
