//! Small handmade datasets, valid and invalid ones.

use std::fs;
use std::path::Path;

/// A value that a `.npy` file can hold.
pub trait Element: Copy {
    /// The type's name in numpy.
    const DTYPE: &'static str;
    /// The value's bytes.
    fn bytes(self) -> Vec<u8>;
}

macro_rules! element {
    ($($type:ty: $dtype:literal),*) => {
        $(impl Element for $type {
            const DTYPE: &'static str = $dtype;
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
        })*
    };
}
element!(i64: "<i8", i32: "<i4", f32: "<f4", f64: "<f8", u16: "<u2", u8: "|u1");

/// The bytes of a version 1 `.npy` file, as numpy writes it.
pub fn npy<T: Element>(shape: &[u64], fortran: bool, values: &[T]) -> Vec<u8> {
    let mut bytes = header(T::DTYPE, shape, fortran);
    bytes.extend(values.iter().flat_map(|value| value.bytes()));
    bytes
}

/// The header alone.
pub fn header(dtype: &str, shape: &[u64], fortran: bool) -> Vec<u8> {
    let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
    let shape = if shape.len() == 1 { format!("{},", shape[0]) } else { shape.join(", ") };
    let order = if fortran { "True" } else { "False" };
    let mut text = format!("{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': ({shape}), }}");
    // Magic, version and length take 10 bytes; the data begins on a multiple of 64.
    while (10 + text.len() + 1) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.into_bytes());
    bytes
}

/// Writes a good dataset of six nodes in two classes, 3 features each, into a new directory:
/// 0 ← 1, 2; 1 ← 0; 2 ← 0, 3, 4; 3 ← 2; 4 ← 2; 5 has no in-neighbour.
pub fn six_nodes(directory: &Path) {
    fs::create_dir(directory).expect("a new directory");
    let write = |name: &str, bytes: Vec<u8>| fs::write(directory.join(name), bytes).expect("a file");
    write("indptr.npy", npy::<i64>(&[7], false, &[0, 2, 3, 6, 7, 8, 8]));
    write("indices.npy", npy::<i32>(&[8], false, &[1, 2, 0, 0, 3, 4, 2, 2]));
    let features: Vec<f32> = (0..18).map(|i| i as f32 / 4.0).collect();
    write("feat.npy", npy(&[6, 3], false, &features));
    write("label.npy", npy::<i64>(&[6], false, &[0, 1, 0, 1, 0, -1]));
    write("train_idx.npy", npy::<i64>(&[2], false, &[0, 1]));
    write("valid_idx.npy", npy::<i64>(&[1], false, &[2]));
    write("test_idx.npy", npy::<i64>(&[2], false, &[3, 4]));
    write("meta.json", br#"{"name": "six", "classes": 2}"#.to_vec());
}

/// Writes `weight.npy`: 0.5 to 2 for most edges, 0 for every seventh.
pub fn write_weights(graph: &Path, edges: u64) -> Vec<f32> {
    let weight = |edge: u64| if edge % 7 == 3 { 0.0 } else { 0.5 + (edge * 37 % 100) as f32 / 66.0 };
    let weights: Vec<f32> = (0..edges).map(weight).collect();
    fs::write(graph.join("weight.npy"), npy(&[edges], false, &weights)).expect("weights");
    weights
}
