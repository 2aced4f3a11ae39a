//! The header of a page.

use std::io::{self, Read};

use super::thrift::Thrift;

/// The relevant fields of a page header. Absent numbers are 0.
#[derive(Debug, Default)]
pub(super) struct PageHeader {
    pub(super) kind: i64,
    pub(super) uncompressed: i64,
    pub(super) compressed: i64,
    pub(super) values: i64,
    pub(super) encoding: i64,
    pub(super) definition_encoding: i64,
    pub(super) repetition_encoding: i64,
    pub(super) nulls: i64,
    pub(super) rows: i64,
    pub(super) definition_bytes: i64,
    pub(super) repetition_bytes: i64,
    pub(super) stored: bool,
}

impl PageHeader {
    pub(super) fn read(input: impl Read) -> io::Result<PageHeader> {
        let mut header = PageHeader::default();
        let mut thrift = Thrift::new(input);
        thrift.each_field(|thrift, id, kind| {
            match id {
                1 => header.kind = thrift.integer(kind)?,
                2 => header.uncompressed = thrift.integer(kind)?,
                3 => header.compressed = thrift.integer(kind)?,
                // Of data, of a dictionary, of data in version 2.
                5 | 7 | 8 => thrift.structure(kind, |thrift, part, kind| {
                    match (id, part) {
                        (_, 1) => header.values = thrift.integer(kind)?,
                        (5 | 7, 2) | (8, 4) => header.encoding = thrift.integer(kind)?,
                        (5, 3) => header.definition_encoding = thrift.integer(kind)?,
                        (5, 4) => header.repetition_encoding = thrift.integer(kind)?,
                        (8, 2) => header.nulls = thrift.integer(kind)?,
                        (8, 3) => header.rows = thrift.integer(kind)?,
                        (8, 5) => header.definition_bytes = thrift.integer(kind)?,
                        (8, 6) => header.repetition_bytes = thrift.integer(kind)?,
                        (8, 7) => header.stored = !thrift.boolean(kind)?,
                        _ => thrift.skip(kind)?,
                    }
                    Ok(())
                })?,
                _ => thrift.skip(kind)?,
            }
            Ok(())
        })?;
        Ok(header)
    }
}
