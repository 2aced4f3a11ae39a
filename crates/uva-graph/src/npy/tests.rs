use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::header::HeaderProblem;
use super::*;

/// A version 1 file with this header literal, padded as numpy does.
fn file_with(literal: &str, data: &[u8]) -> Vec<u8> {
    let length = (10 + literal.len() + 1).next_multiple_of(64) - 10;
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((length as u16).to_le_bytes());
    file.extend(format!("{literal:<width$}\n", width = length - 1).bytes());
    file.extend(data);
    file
}

fn parse(literal: &str) -> Result<Header, HeaderProblem> {
    Header::parse(&file_with(literal, &[]))
}

fn temporary(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("array.npy");
    fs::write(&path, bytes).unwrap();
    (directory, path)
}

#[test]
fn headers_as_numpy_writes_them_are_read() {
    let header = parse("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }").unwrap();
    assert_eq!(header, Header { kind: NpyType::F32, shape: vec![2, 3], data_offset: 128 });
    let header = parse("{'descr': '<i8', 'fortran_order': False, 'shape': (7,), }").unwrap();
    assert_eq!((header.kind, header.shape), (NpyType::I64, vec![7]));
    assert!(parse("{'descr': '|u1', 'fortran_order': False, 'shape': (), }").unwrap().shape.is_empty());
    // Python 2 wrote long integers; order and quotes are free.
    let header = parse("{\"shape\": (5L, 0L), 'fortran_order':False,'descr' : \"<i4\"}").unwrap();
    assert_eq!((header.kind, header.shape), (NpyType::I32, vec![5, 0]));
}

#[test]
fn version_two_is_read() {
    let one = file_with("{'descr': '<f2', 'fortran_order': False, 'shape': (1,), }", &[1, 2]);
    let mut two = b"\x93NUMPY\x02\x00".to_vec();
    two.extend(u32::from(u16::from_le_bytes([one[8], one[9]])).to_le_bytes());
    two.extend(&one[10..]);
    assert_eq!(
        Header::parse(&two).unwrap(),
        Header { kind: NpyType::F16, shape: vec![1], data_offset: two.len() - 2 }
    );
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let refused = |literal: &str, part: &str| {
        let message = parse(literal).unwrap_err().to_string();
        assert!(message.contains(part), "{literal}: {message}");
    };
    refused("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", "'>f4' is big-endian");
    refused("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "Fortran order");
    refused("{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }", "'<c8' is not supported");
    refused("{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }", "'|O' is not supported");
    refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "[('a', '<f4')]");
    refused("{'descr': '<f4', 'shape': (2, 3), }", "lacks the key 'fortran_order'");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}", "unknown key 'x'");
    refused("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "'descr' twice");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (3)}", "expected ',' after the only axis");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}", "expected a length");
    refused("{'descr': __import__('os'), 'fortran_order': False, 'shape': (3,)}", "offset 20");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} 1", "only spaces");
    refused(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
        "shape [4294967296, 4294967296] of 4-byte elements overflows",
    );
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "below 2^64");
}

#[test]
fn one_axis_in_fortran_order_is_the_same_as_in_c_order() {
    assert!(parse("{'descr': '<f4', 'fortran_order': True, 'shape': (9,)}").is_ok());
    assert!(parse("{'descr': '<f4', 'fortran_order': True, 'shape': (9, 1)}").is_ok());
}

#[test]
fn a_truncated_header_is_refused_with_its_length() {
    let whole = file_with("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", &[]);
    for length in 0..whole.len() {
        match Header::parse(&whole[..length]) {
            Err(HeaderProblem::Truncated { length: found, needed }) => {
                assert_eq!(found, length);
                assert!(needed > length && needed <= whole.len());
            }
            other => panic!("{length} bytes: {other:?}"),
        }
    }
    assert!(Header::parse(&whole).is_ok());
    assert!(matches!(Header::parse(b"PK\x03\x04 zip"), Err(HeaderProblem::Magic { .. })));
    let mut version = whole;
    version[6] = 3;
    assert_eq!(Header::parse(&version), Err(HeaderProblem::Version { major: 3, minor: 0 }));
}

#[test]
fn a_file_shorter_or_longer_than_its_header_says_is_refused_with_offsets() {
    let literal = "{'descr': '<i4', 'fortran_order': False, 'shape': (4,), }";
    let (_short, path) = temporary(&file_with(literal, &[0; 15]));
    let message = NpyArray::open(&path).unwrap_err().to_string();
    assert!(message.contains("promises 16 bytes of int32 [4] from offset 128"), "{message}");
    assert!(message.contains("the file ends at byte 143: it is truncated"), "{message}");
    let (_long, path) = temporary(&file_with(literal, &[0; 18]));
    let message = NpyArray::open(&path).unwrap_err().to_string();
    assert!(message.contains("2 bytes follow the last element of int32 [4] at offset 144"), "{message}");
}

#[test]
fn elements_of_another_type_or_alignment_are_refused() {
    let (_directory, path) =
        temporary(&file_with("{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }", &[7, 0, 0, 0]));
    let array = NpyArray::open(&path).unwrap();
    assert_eq!(array.elements::<i32>(NpyType::I32).unwrap(), [7]);
    let message = array.elements::<i64>(NpyType::I64).unwrap_err().to_string();
    assert!(message.contains("the element type is int32, it has to be int64"), "{message}");

    let mut odd = b"\x93NUMPY\x01\x00".to_vec();
    let literal = b"{'descr': '<i4', 'fortran_order': False, 'shape': (1,)}\n";
    odd.extend((literal.len() as u16).to_le_bytes());
    odd.extend(literal);
    assert_eq!(odd.len() % 4, 2, "the data must start off any multiple of 4 for this test to test anything");
    let offset = odd.len();
    odd.extend([7, 0, 0, 0]);
    let (_directory, path) = temporary(&odd);
    let array = NpyArray::open(&path).unwrap();
    let message = array.elements::<i32>(NpyType::I32).unwrap_err().to_string();
    assert!(
        message.contains(&format!("start at offset {offset}, which is not a multiple of 4")),
        "{message}"
    );
}

#[test]
fn what_is_written_is_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("array.npy");
    let mut writer = NpyWriter::create(&path, NpyType::F32, &[3]).unwrap();
    writer.write(&[1.0_f32, 2.0]).unwrap();
    writer.write(&[3.0_f32, 4.0, 5.0, 6.0]).unwrap();
    assert_eq!(writer.finish().unwrap(), 2);
    let array = NpyArray::open(&path).unwrap();
    assert_eq!(array.shape(), [2, 3]);
    assert_eq!(array.header().data_offset % 64, 0);
    assert_eq!(array.elements::<f32>(NpyType::F32).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);

    let literal = String::from_utf8(fs::read(&path).unwrap()[10..128].to_vec()).unwrap();
    assert_eq!(literal.trim_end(), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    assert!(NpyWriter::create(&path, NpyType::F32, &[3]).is_err(), "an existing file is overwritten");
}

#[test]
fn an_array_of_several_pieces_is_what_was_written_in_whatever_parts() {
    let directory = tempfile::tempdir().unwrap();
    let values: Vec<u8> = (0..9 << 20).map(|at: u32| (at ^ at >> 8 ^ at >> 16) as u8).collect();
    // Sizes below a piece, up to its end, across several pieces, exactly one piece, and odd sizes.
    let parts: [&[usize]; 3] =
        [&[1, (2 << 20) - 129, 5 << 20, 2 << 20, 77], &[(2 << 20) - 128, 2 << 20, 0, 1], &[9 << 20]];
    for (number, parts) in parts.into_iter().enumerate() {
        let path = directory.path().join(format!("{number}.npy"));
        let mut writer = NpyWriter::create(&path, NpyType::U8, &[]).unwrap();
        let mut rest = &values[..];
        for &part in parts.iter().chain(&[usize::MAX]) {
            let (now, behind) = rest.split_at(part.min(rest.len()));
            writer.write(now).unwrap();
            rest = behind;
        }
        assert_eq!(writer.finish().unwrap(), values.len() as u64);
        let array = NpyArray::open(&path).unwrap();
        assert!(array.elements::<u8>(NpyType::U8).unwrap() == values, "{parts:?}");
    }
}

#[test]
fn half_a_row_is_not_an_array() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = NpyWriter::create(&directory.path().join("array.npy"), NpyType::I64, &[2]).unwrap();
    writer.write(&[1_i64, 2, 3]).unwrap();
    let message = writer.finish().unwrap_err().to_string();
    assert!(message.contains("24 bytes were written to an array of rows of 16 bytes"), "{message}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Header::parse(&bytes);
    }

    #[test]
    fn a_changed_header_never_panics_and_never_promises_what_overflows(
        at in 0_usize..128, byte in any::<u8>(), more in 0_usize..118, other in prop::char::range(' ', '~'),
    ) {
        let mut file = file_with("{'descr': '<f4', 'fortran_order': False, 'shape': (12, 345), }", &[]);
        file[at] = byte;
        file[10 + more] = other as u8;
        if let Ok(header) = Header::parse(&file) {
            prop_assert!(header.data_bytes().checked_add(header.data_offset).is_some());
        }
    }

    #[test]
    fn any_shape_survives_writing(shape in prop::collection::vec(0_usize..5, 0..3)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("array.npy");
        let mut writer = NpyWriter::create(&path, NpyType::U16, &shape).unwrap();
        let row: usize = shape.iter().product();
        writer.write(&vec![7_u16; row * 2]).unwrap();
        let rows = writer.finish().unwrap();
        prop_assert_eq!(rows, if row == 0 { 0 } else { 2 });
        let array = NpyArray::open(&path).unwrap();
        prop_assert_eq!(array.shape()[0] as u64, rows);
        prop_assert_eq!(&array.shape()[1..], shape.as_slice());
    }
}

#[test]
fn elements_begin_where_they_are_asked_to_and_are_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("array.npy");
    let mut writer = NpyWriter::create(&path, NpyType::F32, &[2]).unwrap().with_data_at(4096);
    writer.write(&[1.5_f32, -2.0]).unwrap();
    writer.write(&[3.0_f32, 4.0]).unwrap();
    assert_eq!(writer.finish().unwrap(), 2);
    assert_eq!(fs::metadata(&path).unwrap().len(), 4096 + 16);
    let array = NpyArray::open(&path).unwrap();
    assert_eq!((array.header().data_offset, array.shape()), (4096, &[2, 2][..]));
    assert_eq!(array.elements::<f32>(NpyType::F32).unwrap(), [1.5, -2.0, 3.0, 4.0]);
}
