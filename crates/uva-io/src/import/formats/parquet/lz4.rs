//! Blocks of LZ4, as Parquet's codecs LZ4_RAW and LZ4 have them.

use lz4_flex::block::decompress_into;

/// Decompresses one block, the codec LZ4_RAW, to exactly `size` bytes; `None` if it is malformed or has another size.
pub(super) fn block(block: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut content = vec![0; size];
    (decompress_into(block, &mut content).ok()? == size).then_some(content)
}

/// Decompresses the older codec LZ4 to exactly `size` bytes; `None` if it is malformed or has another size.
///
/// Parquet's specification does not define its framing. Hadoop and Spark write each block after its sizes; some
/// versions of Arrow wrote one bare block.
pub(super) fn blocks(framed: &[u8], size: usize) -> Option<Vec<u8>> {
    hadoop(framed, size).or_else(|| block(framed, size))
}

/// Blocks as Hadoop writes them: bytes of content and bytes of the block, both big-endian in 32 bits, and the block.
fn hadoop(mut framed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    while !framed.is_empty() {
        let mut take_size = || {
            let (bytes, rest) = framed.split_first_chunk::<4>()?;
            framed = rest;
            Some(u32::from_be_bytes(*bytes) as usize)
        };
        let (plain, compressed) = (take_size()?, take_size()?);
        let (of_block, rest) = framed.split_at_checked(compressed)?;
        framed = rest;
        // Bounds the memory of a block by what is left of the page.
        if plain > size - content.len() {
            return None;
        }
        content.extend(block(of_block, plain)?);
    }
    (content.len() == size).then_some(content)
}

#[cfg(test)]
mod tests {
    use lz4_flex::block::compress;
    use proptest::prelude::*;

    use super::*;

    fn framed(parts: &[Vec<u8>]) -> Vec<u8> {
        let of_part = |part: &Vec<u8>| {
            let block = compress(part);
            let sizes = [part.len(), block.len()].map(|size| (size as u32).to_be_bytes());
            [&sizes.concat()[..], &block].concat()
        };
        parts.iter().flat_map(of_part).collect()
    }

    proptest! {
        #[test]
        fn content_comes_back_from_bare_and_framed_blocks(
            parts in prop::collection::vec(prop::collection::vec(0..4_u8, 0..600), 1..5),
        ) {
            let content = parts.concat();
            let whole = Some(content.clone());
            prop_assert_eq!(&blocks(&framed(&parts), content.len()), &whole);
            let bare = compress(&content);
            prop_assert_eq!(&block(&bare, content.len()), &whole);
            prop_assert_eq!(&blocks(&bare, content.len()), &whole);
            prop_assert_eq!(block(&bare, content.len() + 1), None);
            prop_assert_eq!(blocks(&framed(&parts), content.len() + 1), None);
        }

        #[test]
        fn bytes_of_any_kind_are_decompressed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), size in 0..500_usize) {
            for content in [block(&bytes, size), blocks(&bytes, size)].into_iter().flatten() {
                prop_assert_eq!(content.len(), size);
            }
        }
    }

    #[test]
    fn a_block_that_says_more_than_the_page_takes_no_memory() {
        let sizes = [u32::MAX, 1].map(u32::to_be_bytes).concat();
        assert_eq!(blocks(&[&sizes[..], &[0]].concat(), 100), None);
    }
}
