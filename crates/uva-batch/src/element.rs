//! The type of a column's values.

use std::fmt;

use uva_graph::ElementType;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// int64.
    I64,
    /// int32.
    I32,
    /// float32.
    F32,
    /// float16.
    F16,
    /// bfloat16: the upper half of a float32.
    Bf16,
    /// float8_e4m3fn.
    E4m3,
    /// uint16.
    U16,
    /// uint8.
    U8,
    /// int8.
    I8,
}

impl Element {
    /// Bytes of one value.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::I64 => 8,
            Self::I32 | Self::F32 => 4,
            Self::F16 | Self::Bf16 | Self::U16 => 2,
            Self::E4m3 | Self::U8 | Self::I8 => 1,
        }
    }

    /// Its name in numpy and torch.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::I64 => "int64",
            Self::I32 => "int32",
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
            Self::E4m3 => "float8_e4m3fn",
            Self::U16 => "uint16",
            Self::U8 => "uint8",
            Self::I8 => "int8",
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<ElementType> for Element {
    fn from(of_table: ElementType) -> Self {
        match of_table {
            ElementType::F32 => Self::F32,
            ElementType::F16 => Self::F16,
            ElementType::Bf16 => Self::Bf16,
            ElementType::E4m3 => Self::E4m3,
            ElementType::U8 => Self::U8,
            ElementType::I8 => Self::I8,
        }
    }
}
