//! The pages of a column chunk: headers checked, contents decompressed, both within bounds.
//!
//! The `parquet` crate decodes values from pages, but its own page reader trusts the sizes in a header: a few bytes
//! could request gigabytes. This reader checks every size before it allocates, counts the memory of all open columns
//! against one [`MemoryBudget`], and decompresses zstd without C.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use brotli_decompressor::Decompressor as Brotli;
use flate2::read::MultiGzDecoder;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::ColumnDescPtr;

use super::delta::{self, DeltaProblem};
use super::lz4;
use super::page_header::PageHeader;
use super::plain::{count_present, holds_texts};
use crate::import::reading::text::Zstd;

/// The maximum size of the pages of all open columns of a table. Writers aim at 1 MiB a page.
const MOST_PAGE_BYTES: u64 = 1 << 30;

/// Overhead in bytes of a decoded dictionary entry.
const DICTIONARY_ENTRY: u64 = 40;

/// Memory shared by the open columns of a table.
#[derive(Debug, Clone, Default)]
pub(super) struct MemoryBudget(Arc<AtomicU64>);

/// Memory taken from a budget.
#[derive(Debug)]
struct MemoryReservation {
    budget: MemoryBudget,
    bytes: u64,
}

impl MemoryBudget {
    fn take(&self, bytes: u64) -> Result<MemoryReservation> {
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        let taken = MemoryReservation { budget: self.clone(), bytes };
        if before.saturating_add(bytes) <= MOST_PAGE_BYTES {
            return Ok(taken);
        }
        let most = MOST_PAGE_BYTES >> 20;
        Err(wrong(format!(
            "its pages take more than {most} MiB with those of the other columns: write smaller pages"
        )))
    }
}

impl MemoryReservation {
    /// Has `other` released with this.
    fn add(&mut self, mut other: MemoryReservation) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn wrong(message: impl Into<String>) -> ParquetError {
    ParquetError::General(message.into())
}

/// A part of a file, read by offset, so that several columns share one open file.
#[derive(Debug)]
struct Part {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// The maximum number of values in a column chunk for the rows requested so far. A list could otherwise have any
/// length.
#[derive(Debug, Clone, Default)]
pub(super) struct Allowance(Arc<AtomicU64>);

impl Allowance {
    pub(super) fn add(&self, values: u64) {
        self.0.fetch_add(values, Ordering::Relaxed);
    }
}

/// Values of a page that are held at once, if rows are lists.
const MOST_LISTED: u32 = 1 << 24;

/// Reads the pages of one column chunk.
pub(super) struct ChunkPages {
    input: BufReader<Part>,
    codec: Compression,
    column: ColumnDescPtr,
    budget: MemoryBudget,
    allowance: Allowance,
    /// Values of the pages so far.
    delivered: u64,
    dictionary: Option<MemoryReservation>,
    page: Option<MemoryReservation>,
}

impl ChunkPages {
    /// The pages in `range` of `file`, which hold values of `column`.
    pub(super) fn new(
        file: Arc<File>,
        range: std::ops::Range<u64>,
        codec: Compression,
        column: ColumnDescPtr,
        budget: MemoryBudget,
        allowance: Allowance,
    ) -> ChunkPages {
        let input = BufReader::new(Part { file, at: range.start, end: range.end });
        ChunkPages { input, codec, column, budget, allowance, delivered: 0, dictionary: None, page: None }
    }

    fn ended(&self) -> bool {
        let part = self.input.get_ref();
        self.input.buffer().is_empty() && part.at == part.end
    }

    fn next_page(&mut self) -> Result<Option<Page>> {
        loop {
            drop(self.page.take());
            if self.ended() {
                return Ok(None);
            }
            let header = PageHeader::read(&mut self.input)
                .map_err(|error| wrong(format!("a page header: {error}")))?;
            let size = |size: i64, what: &str| {
                u64::try_from(size)
                    .ok()
                    .filter(|&size| size <= i32::MAX as u64)
                    .ok_or_else(|| wrong(format!("a page header says that its {what} take {size} bytes")))
            };
            let left = self.input.buffer().len() as u64 + self.input.get_ref().end - self.input.get_ref().at;
            let (compressed, uncompressed) =
                (size(header.compressed, "compressed values")?, size(header.uncompressed, "values")?);
            if compressed > left {
                return Err(wrong(format!(
                    "a page of {compressed} bytes, of which {left} are left in the column"
                )));
            }
            let values = u32::try_from(header.values)
                .map_err(|_| wrong(format!("a page header says that it has {} values", header.values)))?;
            match header.kind {
                // An index, which is not needed here.
                1 => {
                    io::copy(&mut (&mut self.input).take(compressed), &mut io::sink())?;
                }
                2 => return self.dictionary(&header, compressed, uncompressed, values).map(Some),
                0 | 3 => return self.data(&header, compressed, uncompressed, values).map(Some),
                kind => return Err(wrong(format!("a page is of the unknown kind {kind}"))),
            }
        }
    }

    fn dictionary(
        &mut self,
        header: &PageHeader,
        compressed: u64,
        uncompressed: u64,
        values: u32,
    ) -> Result<Page> {
        if self.dictionary.is_some() {
            return Err(wrong("it has a second dictionary"));
        }
        if !matches!(header.encoding, 0 | 2) {
            return Err(wrong("its dictionary is not encoded as PLAIN"));
        }
        // The minimum size of a value: the decoder allocates as many as the header promises.
        let least = match self.column.physical_type() {
            Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
            Type::INT64 | Type::DOUBLE => 8,
            _ => return Err(wrong("a column of this type has no dictionary")),
        };
        if u64::from(values) * least > uncompressed {
            return Err(wrong(format!("its dictionary of {uncompressed} bytes cannot hold {values} values")));
        }
        self.dictionary =
            Some(self.budget.take(compressed + uncompressed + u64::from(values) * DICTIONARY_ENTRY)?);
        let content = self.content(compressed, 0, uncompressed, false)?;
        if self.column.physical_type() == Type::BYTE_ARRAY && !holds_texts(&content, values as usize) {
            return Err(wrong("the texts of its dictionary are longer than the page"));
        }
        let encoding = Encoding::PLAIN;
        Ok(Page::DictionaryPage { buf: content.into(), num_values: values, encoding, is_sorted: false })
    }

    fn data(&mut self, header: &PageHeader, compressed: u64, uncompressed: u64, values: u32) -> Result<Page> {
        let encoding = match header.encoding {
            0 => Encoding::PLAIN,
            2 | 8 if self.dictionary.is_some() => Encoding::RLE_DICTIONARY,
            2 | 8 => return Err(wrong("a page refers to a dictionary, and there is none before it")),
            3 if self.column.physical_type() == Type::BOOLEAN => Encoding::RLE,
            // Decoded here, since the decoders of the crate allocate as much as a page claims.
            5..=7 => Encoding::PLAIN,
            9 => return Err(wrong("a page has the encoding BYTE_STREAM_SPLIT: write it as PLAIN")),
            other => return Err(wrong(format!("a page has the encoding {other}: write it as PLAIN"))),
        };
        let lists = self.column.max_rep_level() > 0;
        // The next page is requested only when too few values are left for the requested rows.
        if lists && (values > MOST_LISTED || self.delivered > self.allowance.0.load(Ordering::Relaxed)) {
            return Err(wrong("its lists are longer than its number of values"));
        }
        self.delivered += u64::from(values);
        self.page = Some(self.budget.take(compressed + uncompressed)?);
        if header.kind == 0 {
            // Some writers name BIT_PACKED, which Parquet has deprecated, if there are no levels.
            let level = |used: bool, encoding: i64| match (used, encoding) {
                (false, _) | (true, 3) => Ok(Encoding::RLE),
                _ => Err(wrong(format!("a page has levels in the encoding {encoding}: write them as RLE"))),
            };
            let nullable = self.column.max_def_level() > 0;
            let mut content = self.content(compressed, 0, uncompressed, false)?;
            if encoding == Encoding::PLAIN {
                // Each kind of levels is preceded by its length.
                let mut rest = &content[..];
                let mut levels = |used: bool| -> Result<&[u8]> {
                    let cut = || wrong("the levels of a page are longer than the page");
                    if !used {
                        return Ok(&[]);
                    }
                    let (length, behind) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
                    let length = u32::from_le_bytes(*length) as usize;
                    let (levels, behind) = behind.split_at_checked(length).ok_or_else(cut)?;
                    rest = behind;
                    Ok(levels)
                };
                levels(lists)?;
                let definition = levels(nullable)?;
                match self.plain(header.encoding, definition, rest, values)? {
                    Some(plain) => {
                        let levels = content.len() - rest.len();
                        content.truncate(levels);
                        content.extend(plain);
                    }
                    None => self.check_texts(definition, rest, values)?,
                }
            }
            return Ok(Page::DataPage {
                buf: content.into(),
                num_values: values,
                encoding,
                def_level_encoding: level(nullable, header.definition_encoding)?,
                rep_level_encoding: level(lists, header.repetition_encoding)?,
                statistics: None,
            });
        }
        let count = |count: i64| {
            u32::try_from(count).map_err(|_| wrong(format!("a page header counts {count} of something")))
        };
        let (definition, repetition) = (count(header.definition_bytes)?, count(header.repetition_bytes)?);
        let levels = u64::from(definition) + u64::from(repetition);
        if levels > compressed.min(uncompressed) {
            return Err(wrong(format!("the levels of a page take {levels} bytes, more than the page")));
        }
        let mut content = self.content(compressed, levels, uncompressed, header.stored)?;
        if encoding == Encoding::PLAIN {
            let (of_levels, values_there) = content.split_at(levels as usize);
            let definition = &of_levels[repetition as usize..];
            match self.plain(header.encoding, definition, values_there, values)? {
                Some(plain) => {
                    content.truncate(levels as usize);
                    content.extend(plain);
                }
                None => self.check_texts(definition, values_there, values)?,
            }
        }
        Ok(Page::DataPageV2 {
            buf: content.into(),
            num_values: values,
            encoding,
            num_nulls: count(header.nulls)?,
            num_rows: count(header.rows)?,
            def_levels_byte_len: definition,
            rep_levels_byte_len: repetition,
            is_compressed: false,
            statistics: None,
        })
    }

    /// The values of a page in an encoding DELTA as PLAIN-encoded ones; nothing for another encoding.
    fn plain(
        &mut self,
        encoding: i64,
        definition: &[u8],
        content: &[u8],
        values: u32,
    ) -> Result<Option<Vec<u8>>> {
        if !(5..=7).contains(&encoding) {
            return Ok(None);
        }
        let name = delta::name(encoding);
        let present = match self.column.max_def_level() {
            0 => Some(values as usize),
            highest => count_present(definition, highest, values as usize),
        };
        let present = present.ok_or_else(|| wrong("the levels of a page are fewer than its values"))?;
        let kind = self.column.physical_type();
        let plain = delta::to_plain(encoding, kind, content, present, MOST_PAGE_BYTES / 4);
        let plain = plain.map_err(|problem| match problem {
            DeltaProblem::Malformed => wrong(format!("the values of a page are not encoded as {name}")),
            DeltaProblem::TooLong => {
                let most = MOST_PAGE_BYTES >> 22;
                wrong(format!("the {name} values of a page take more than {most} MiB: write smaller pages"))
            }
            DeltaProblem::Type => {
                wrong(format!("a page of {kind} has the encoding {name}: write it as PLAIN"))
            }
        })?;
        let taken = self.budget.take(plain.len() as u64)?;
        if let Some(page) = &mut self.page {
            page.add(taken);
        }
        Ok(Some(plain))
    }

    /// Rejects a page of PLAIN-encoded texts with fewer texts than its definition levels imply.
    fn check_texts(&self, definition: &[u8], content: &[u8], values: u32) -> Result<()> {
        if self.column.physical_type() != Type::BYTE_ARRAY {
            return Ok(());
        }
        let present = match self.column.max_def_level() {
            0 => Some(values as usize),
            highest => count_present(definition, highest, values as usize),
        };
        match present.filter(|&present| holds_texts(content, present)) {
            Some(_) => Ok(()),
            None => Err(wrong("its texts are longer than the page, or its levels fewer than its values")),
        }
    }

    /// The next `compressed` bytes, decompressed to `uncompressed`. The first `levels` of them are always stored
    /// uncompressed, all of them if `stored`.
    fn content(&mut self, compressed: u64, levels: u64, uncompressed: u64, stored: bool) -> Result<Vec<u8>> {
        let mut raw = Vec::with_capacity(compressed as usize);
        (&mut self.input).take(compressed).read_to_end(&mut raw)?;
        if raw.len() as u64 != compressed {
            return Err(wrong("the file ends within a page"));
        }
        let (levels, rest) = raw.split_at(levels as usize);
        let size = uncompressed as usize - levels.len();
        if stored || self.codec == Compression::UNCOMPRESSED {
            return match rest.len() == size {
                true => Ok(raw),
                false => {
                    Err(wrong(format!("a page has {} bytes, but its header has {uncompressed}", raw.len())))
                }
            };
        }
        let mut content = levels.to_vec();
        let failed = |error: &dyn std::fmt::Display| wrong(format!("a page cannot be decompressed: {error}"));
        // One byte more than the header says, to detect content that is too long.
        let most = size as u64 + 1;
        match self.codec {
            _ if size == 0 => {}
            Compression::SNAPPY => {
                let said = snap::raw::decompress_len(rest).map_err(|error| failed(&error))?;
                if said != size {
                    return Err(wrong(format!(
                        "a page decompresses to {said} bytes, but its header has {size}"
                    )));
                }
                content
                    .extend(snap::raw::Decoder::new().decompress_vec(rest).map_err(|error| failed(&error))?);
            }
            Compression::GZIP(_) => {
                MultiGzDecoder::new(rest)
                    .take(most)
                    .read_to_end(&mut content)
                    .map_err(|error| failed(&error))?;
            }
            Compression::ZSTD(_) => {
                Zstd::new(rest).take(most).read_to_end(&mut content).map_err(|error| failed(&error))?;
            }
            Compression::BROTLI(_) => {
                Brotli::new(rest, rest.len().max(1))
                    .take(most)
                    .read_to_end(&mut content)
                    .map_err(|error| failed(&error))?;
            }
            Compression::LZ4_RAW => {
                let plain = lz4::block(rest, size);
                content
                    .extend(plain.ok_or_else(|| failed(&"it is not a block of LZ4 of the header's size"))?);
            }
            Compression::LZ4 => {
                let plain = lz4::blocks(rest, size);
                content.extend(plain.ok_or_else(|| failed(&"it is not LZ4 of the header's size"))?);
            }
            codec => {
                let message = format!(
                    "it is compressed with {codec}: write it with snappy, gzip, zstd, lz4 or brotli, or uncompressed"
                );
                return Err(wrong(message));
            }
        }
        if content.len() as u64 != uncompressed {
            return Err(wrong(format!(
                "a page does not decompress to the {uncompressed} bytes of its header"
            )));
        }
        Ok(content)
    }
}

impl PageReader for ChunkPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.next_page()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Err(wrong("pages are read in their order"))
    }

    /// The end of the last page ends a row. The end of another page need not; the next page shows it.
    fn at_record_boundary(&mut self) -> Result<bool> {
        Ok(self.ended())
    }

    fn skip_next_page(&mut self) -> Result<()> {
        Err(wrong("pages are read in their order"))
    }
}

impl Iterator for ChunkPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.next_page().transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression as Level;
    use flate2::write::GzEncoder;
    use parquet::basic::GzipLevel;
    use parquet::schema::types::{ColumnDescriptor, ColumnPath};

    use super::*;

    /// An integer field that follows the previous one.
    fn integer(out: &mut Vec<u8>, value: u64) {
        out.push(0x15);
        let mut rest = value << 1;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    /// A page in version 1 with this header and content.
    fn page(kind: u64, uncompressed: u64, values: u64, encoding: u64, content: &[u8]) -> Vec<u8> {
        let mut page = Vec::new();
        integer(&mut page, kind);
        integer(&mut page, uncompressed);
        integer(&mut page, content.len() as u64);
        // The fifth or the seventh field, a structure of two integers.
        page.push(if kind == 2 { 0x4c } else { 0x2c });
        integer(&mut page, values);
        integer(&mut page, encoding);
        page.extend([0, 0]);
        page.extend(content);
        page
    }

    fn first_page(codec: Compression, bytes: &[u8]) -> Result<Option<Page>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let kind =
            parquet::schema::types::Type::primitive_type_builder("c", Type::BYTE_ARRAY).build().unwrap();
        let column = ColumnDescriptor::new(Arc::new(kind), 0, 0, ColumnPath::from("c"));
        let range = 0..bytes.len() as u64;
        let (budget, allowance) = (MemoryBudget::default(), Allowance::default());
        ChunkPages::new(Arc::new(file), range, codec, Arc::new(column), budget, allowance).get_next_page()
    }

    fn refusal(codec: Compression, bytes: &[u8]) -> String {
        first_page(codec, bytes).expect_err("the page was read").to_string()
    }

    #[test]
    fn a_page_takes_no_more_than_its_header_says_and_both_fit_the_budget() {
        let gzip = Compression::GZIP(GzipLevel::default());
        let mut encoder = GzEncoder::new(Vec::new(), Level::best());
        encoder.write_all(&vec![0; 16 << 20]).unwrap();
        let bomb = encoder.finish().unwrap();
        let whole = first_page(gzip, &page(0, 16 << 20, 1, 0, &bomb)).unwrap().unwrap();
        assert_eq!(whole.buffer().len(), 16 << 20);
        let message = refusal(gzip, &page(0, 100, 1, 0, &bomb));
        assert!(message.contains("does not decompress to the 100 bytes"), "{message}");
        let message = refusal(gzip, &page(0, (1 << 31) - 1, 1, 0, &bomb));
        assert!(message.contains("more than 1024 MiB"), "{message}");
        let message = refusal(gzip, &page(0, 1 << 40, 1, 0, &bomb));
        assert!(message.contains("its values take 1099511627776 bytes"), "{message}");
        let message = refusal(Compression::SNAPPY, &page(0, 100, 1, 0, b"\xff\xff\xff\xff\x07"));
        assert!(message.contains("decompresses to 2147483647 bytes"), "{message}");
        // zstd's frame of an empty text.
        let frame =
            ruzstd::encoding::compress_to_vec(&[0; 4][..], ruzstd::encoding::CompressionLevel::Fastest);
        let zstd = Compression::ZSTD(Default::default());
        assert_eq!(&first_page(zstd, &page(0, 4, 1, 0, &frame)).unwrap().unwrap().buffer()[..], [0; 4]);
        assert!(refusal(zstd, &page(0, 3, 1, 0, &frame)).contains("does not decompress to the 3 bytes"));
        // Four literals of LZ4: the length of an empty text.
        let (raw, block) = (Compression::LZ4_RAW, [0x40, 0, 0, 0, 0]);
        assert_eq!(&first_page(raw, &page(0, 4, 1, 0, &block)).unwrap().unwrap().buffer()[..], [0; 4]);
        assert!(refusal(raw, &page(0, 3, 1, 0, &block)).contains("not a block of LZ4 of the header's size"));
        // The same block after its sizes.
        let (older, block) = (Compression::LZ4, [0, 0, 0, 4, 0, 0, 0, 5, 0x40, 0, 0, 0, 0]);
        assert_eq!(&first_page(older, &page(0, 4, 1, 0, &block)).unwrap().unwrap().buffer()[..], [0; 4]);
        assert!(refusal(older, &page(0, 3, 1, 0, &block)).contains("not LZ4 of the header's size"));
        // Brotli's meta-block of four bytes that are not compressed (RFC 7932, 9.2), and an empty last one.
        let (brotli, stream) = (Compression::BROTLI(Default::default()), [0x30, 0, 0x10, 0, 0, 0, 0, 0x03]);
        assert_eq!(&first_page(brotli, &page(0, 4, 1, 0, &stream)).unwrap().unwrap().buffer()[..], [0; 4]);
        assert!(refusal(brotli, &page(0, 3, 1, 0, &stream)).contains("does not decompress to the 3 bytes"));
        assert!(refusal(brotli, &page(0, 4, 1, 0, &stream[..6])).contains("a page cannot be decompressed"));
        let message = refusal(Compression::LZO, &page(0, 4, 1, 0, &[0; 4]));
        let remedy = "compressed with LZO: write it with snappy, gzip, zstd, lz4 or brotli, or uncompressed";
        assert!(message.contains(remedy), "{message}");
    }

    #[test]
    fn counts_and_encodings_that_a_decoder_would_trust_are_refused() {
        let plain = Compression::UNCOMPRESSED;
        let refused = |bytes: &[u8], part: &str| {
            let message = refusal(plain, bytes);
            assert!(message.contains(part), "{message} instead of {part}");
        };
        refused(&page(2, 8, 1 << 30, 0, &[0; 8]), "dictionary of 8 bytes cannot hold 1073741824 values");
        refused(&page(0, 8, 1, 8, &[0; 8]), "refers to a dictionary, and there is none");
        refused(&page(0, 8, 1, 5, &[0; 8]), "BYTE_ARRAY has the encoding DELTA_BINARY_PACKED");
        refused(&page(0, 8, 1, 6, &[0; 8]), "not encoded as DELTA_LENGTH_BYTE_ARRAY");
        refused(&page(0, 8, 1, 9, &[0; 8]), "BYTE_STREAM_SPLIT");
        // Blocks without bits promise any number of values: 2³¹ here, which would take 16 GiB.
        let empty = [&[0x80, 0x01, 1][..], &[0x80, 0x80, 0x80, 0x80, 0x08, 0]].concat();
        refused(&page(0, empty.len() as u64, 1 << 31, 6, &empty), "take more than 256 MiB");
        refused(&page(0, 9, 1, 0, &[0; 8]), "a page has 8 bytes, but its header has 9");
        refused(&page(7, 8, 1, 0, &[0; 8]), "unknown kind 7");
        refused(&page(0, 8, 1, 0, &[0; 8])[..18], "5 are left in the column");
        refused(&[0xff; 4], "a page header");
        assert!(first_page(plain, &[]).unwrap().is_none());
    }
}
