//! The type of a feature value.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How one feature value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementType {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision.
    F16,
    /// The upper half of an `f32`; in a `.npy` file it is stored as uint16.
    Bf16,
    /// Eight bits, of which four are the exponent (float8_e4m3fn): at most 448. In a `.npy` file it is stored as uint8.
    E4m3,
    /// Unsigned byte.
    U8,
    /// Signed byte.
    I8,
}

impl ElementType {
    /// All element types.
    pub const ALL: [ElementType; 6] = [
        ElementType::F32,
        ElementType::F16,
        ElementType::Bf16,
        ElementType::E4m3,
        ElementType::U8,
        ElementType::I8,
    ];

    /// Bytes per value.
    pub fn bytes(self) -> usize {
        match self {
            ElementType::F32 => 4,
            ElementType::F16 | ElementType::Bf16 => 2,
            ElementType::E4m3 | ElementType::U8 | ElementType::I8 => 1,
        }
    }

    /// The name in options, messages and `meta.json`: `f32`, `f16`, `bf16`, `e4m3`, `u8` or `i8`.
    pub fn name(self) -> &'static str {
        match self {
            ElementType::F32 => "f32",
            ElementType::F16 => "f16",
            ElementType::Bf16 => "bf16",
            ElementType::E4m3 => "e4m3",
            ElementType::U8 => "u8",
            ElementType::I8 => "i8",
        }
    }

    /// Parses a type name; accepts the longer spellings of numpy and torch too.
    pub fn from_name(name: &str) -> Option<ElementType> {
        Some(match name {
            "f32" | "float32" => ElementType::F32,
            "f16" | "float16" => ElementType::F16,
            "bf16" | "bfloat16" => ElementType::Bf16,
            "e4m3" | "float8_e4m3fn" => ElementType::E4m3,
            "u8" | "uint8" => ElementType::U8,
            "i8" | "int8" => ElementType::I8,
            _ => return None,
        })
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
