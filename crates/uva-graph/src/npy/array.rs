//! A mapped `.npy` file, used in place.

use std::marker::PhantomData;
use std::path::Path;

use bytemuck::AnyBitPattern;
use uva_mem::MappedFile;

use super::header::{Header, NpyType};
use crate::GraphError;

/// Faults of an array beyond its header.
#[derive(Debug, thiserror::Error)]
enum ArrayProblem {
    #[error(
        "the header promises {promised} bytes of {kind} {shape:?} from offset {offset}, but the file ends at byte \
         {length}: it is truncated"
    )]
    Truncated { promised: usize, kind: NpyType, shape: Vec<usize>, offset: usize, length: usize },
    #[error(
        "{extra} bytes follow the last element of {kind} {shape:?} at offset {end}: the header and the content disagree"
    )]
    Trailing { extra: usize, kind: NpyType, shape: Vec<usize>, end: usize },
    #[error("the element type is {found}, it has to be {wanted}")]
    Type { found: NpyType, wanted: String },
    #[error("the shape is {found:?}, it has to be {wanted}")]
    Shape { found: Vec<usize>, wanted: String },
    #[error(
        "the elements start at offset {offset}, which is not a multiple of {bytes}: save the array again with numpy"
    )]
    Alignment { offset: usize, bytes: usize },
}

/// A `.npy` file that is mapped, with its length checked against its header.
#[derive(Debug)]
pub struct NpyArray {
    file: MappedFile,
    header: Header,
}

impl NpyArray {
    /// Maps the file and reads its header.
    ///
    /// # Errors
    /// If it cannot be opened, its header is malformed or not supported (see the `header` module), or the file is
    /// shorter or longer than the header says.
    pub fn open(path: &Path) -> Result<NpyArray, GraphError> {
        let file = MappedFile::open(path).map_err(GraphError::io(path, "open"))?;
        let header = Header::parse(file.bytes()).map_err(|e| GraphError::invalid(path, e))?;
        let (length, offset) = (file.bytes().len(), header.data_offset);
        let (kind, shape) = (header.kind, header.shape.clone());
        let end = offset + header.data_bytes();
        if length < end {
            let promised = header.data_bytes();
            return Err(GraphError::invalid(
                path,
                ArrayProblem::Truncated { promised, kind, shape, offset, length },
            ));
        }
        if length > end {
            return Err(GraphError::invalid(
                path,
                ArrayProblem::Trailing { extra: length - end, kind, shape, end },
            ));
        }
        Ok(NpyArray { file, header })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The file, for advice to the kernel.
    pub fn file(&self) -> &MappedFile {
        &self.file
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The element type.
    pub fn kind(&self) -> NpyType {
        self.header.kind
    }

    /// Length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.header.shape
    }

    /// The elements as bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.file.bytes()[self.header.data_offset..]
    }

    /// The elements, if their type is `kind`.
    ///
    /// # Errors
    /// If the type is another, or the elements are not aligned in the file.
    pub fn elements<T: AnyBitPattern>(&self, kind: NpyType) -> Result<&[T], GraphError> {
        if self.header.kind != kind {
            return Err(self.wrong_type(kind.name()));
        }
        bytemuck::try_cast_slice(self.bytes()).map_err(|_| self.misaligned())
    }

    /// Checks that the elements are of type `kind` and aligned for it.
    pub(crate) fn check_kind(&self, kind: NpyType) -> Result<(), GraphError> {
        if self.header.kind != kind {
            return Err(self.wrong_type(kind.name()));
        }
        if self.bytes().as_ptr().align_offset(kind.bytes()) != 0 {
            return Err(self.misaligned());
        }
        Ok(())
    }

    fn misaligned(&self) -> GraphError {
        let (offset, bytes) = (self.header.data_offset, self.header.kind.bytes());
        GraphError::invalid(self.path(), ArrayProblem::Alignment { offset, bytes })
    }

    /// The error for a wrong type, with the accepted types.
    pub fn wrong_type(&self, wanted: impl Into<String>) -> GraphError {
        GraphError::invalid(self.path(), ArrayProblem::Type { found: self.kind(), wanted: wanted.into() })
    }

    /// The error for a wrong shape, with the accepted shape.
    pub fn wrong_shape(&self, wanted: impl Into<String>) -> GraphError {
        let found = self.shape().to_vec();
        GraphError::invalid(self.path(), ArrayProblem::Shape { found, wanted: wanted.into() })
    }
}

/// A `.npy` file whose elements are known to be aligned `T`s.
#[derive(Debug)]
pub(crate) struct TypedArray<T> {
    array: NpyArray,
    element: PhantomData<fn() -> T>,
}

impl<T: AnyBitPattern> TypedArray<T> {
    /// Takes `array` if its elements are of type `kind` and aligned for `T`.
    pub(crate) fn new(array: NpyArray, kind: NpyType) -> Result<TypedArray<T>, GraphError> {
        array.elements::<T>(kind)?;
        Ok(TypedArray { array, element: PhantomData })
    }

    /// The elements.
    pub(crate) fn values(&self) -> &[T] {
        // The cast cannot fail: `new` did the same one on the same mapping.
        bytemuck::cast_slice(self.array.bytes())
    }

    /// The array as stored in the file.
    pub(crate) fn array(&self) -> &NpyArray {
        &self.array
    }
}
