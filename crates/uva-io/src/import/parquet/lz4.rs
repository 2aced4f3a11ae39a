//! Blocks of LZ4, as Parquet's codec LZ4_RAW has them.

/// Decompresses a block to exactly `size` bytes; `None` if it is malformed or has another size.
pub(super) fn decompress(mut block: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut content: Vec<u8> = Vec::with_capacity(size);
    loop {
        let (&token, rest) = block.split_first()?;
        block = rest;
        let literals = length(token >> 4, &mut block)?;
        let (text, rest) = block.split_at_checked(literals)?;
        if content.len() + text.len() > size {
            return None;
        }
        content.extend_from_slice(text);
        block = rest;
        // The last sequence has literals alone.
        if block.is_empty() {
            return (content.len() == size).then_some(content);
        }
        let (offset, rest) = block.split_first_chunk::<2>()?;
        block = rest;
        let start = content.len().checked_sub(u16::from_le_bytes(*offset).into())?;
        let copied = length(token & 0xf, &mut block)?.checked_add(4)?;
        if start == content.len() || copied > size - content.len() {
            return None;
        }
        // The copy may reach into itself, which repeats it.
        for at in start..start + copied {
            content.push(content[at]);
        }
    }
}

/// A length that begins with four bits; bytes of 255 continue it.
fn length(bits: u8, block: &mut &[u8]) -> Option<usize> {
    let mut length = usize::from(bits);
    while length >= 15 {
        let (&more, rest) = block.split_first()?;
        *block = rest;
        length = length.checked_add(more.into())?;
        if more < 255 {
            break;
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A length's four bits, and the bytes that continue it.
    fn bits_of(length: usize, more: &mut Vec<u8>) -> u8 {
        if length < 15 {
            return length as u8;
        }
        more.extend(std::iter::repeat_n(255, (length - 15) / 255));
        more.push(((length - 15) % 255) as u8);
        15
    }

    /// The block of these sequences: literals, and how far back how many bytes are copied from.
    fn block(sequences: &[(Vec<u8>, usize, usize)], last: &[u8]) -> Vec<u8> {
        let mut block = Vec::new();
        for (literals, offset, copied) in sequences {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            let token = bits_of(literals.len(), &mut before) << 4 | bits_of(copied - 4, &mut after);
            block.push(token);
            block.extend(before);
            block.extend(literals);
            block.extend((*offset as u16).to_le_bytes());
            block.extend(after);
        }
        let mut before = Vec::new();
        block.push(bits_of(last.len(), &mut before) << 4);
        block.extend(before);
        block.extend(last);
        block
    }

    proptest! {
        #[test]
        fn what_a_block_says_comes_out_and_nothing_of_another_size(
            sequences in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..40), 1_usize..70, 4_usize..600), 0..6),
            last in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let mut content: Vec<u8> = Vec::new();
            let mut valid = Vec::new();
            for (literals, offset, copied) in sequences {
                content.extend(&literals);
                let offset = offset.min(content.len());
                for at in content.len() - offset..content.len() - offset + copied {
                    content.push(content[at]);
                }
                valid.push((literals, offset, copied));
            }
            content.extend(&last);
            let block = block(&valid, &last);
            let size = content.len();
            prop_assert_eq!(decompress(&block, size), Some(content));
            prop_assert_eq!(decompress(&block, size + 1), None);
            prop_assert!(size == 0 || decompress(&block, size - 1).is_none());
        }

        #[test]
        fn garbage_takes_no_more_than_the_size(block in prop::collection::vec(any::<u8>(), 0..60), size in 0_usize..200) {
            let content = decompress(&block, size);
            prop_assert!(content.is_none_or(|content| content.len() == size));
        }
    }

    #[test]
    fn copies_from_before_the_start_are_refused() {
        assert_eq!(decompress(&[0x10, b'a', 2, 0, 0x00], 5), None);
        assert_eq!(decompress(&[0x10, b'a', 0, 0, 0x00], 5), None);
        assert_eq!(decompress(&[0x10, b'a', 1, 0, 0x00], 5), Some(b"aaaaa".to_vec()));
        assert_eq!(decompress(&[], 0), None);
        assert_eq!(decompress(&[0], 0), Some(Vec::new()));
    }
}
