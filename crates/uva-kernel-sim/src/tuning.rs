//! The constants of kernels/tuning.cuh, read from its text when this is compiled.

const TEXT: &str = include_str!("../kernels/tuning.cuh");

/// Threads of a block.
pub const BLOCK_THREADS: u32 = constant("UVA_GATHER_BLOCK_THREADS");
/// The minimum number of resident blocks per multiprocessor.
pub const BLOCKS_PER_MULTIPROCESSOR: u32 = constant("UVA_GATHER_BLOCKS_PER_MULTIPROCESSOR");
/// Loads of a thread in flight in `naive` and `shift`.
pub const NARROW_DEPTH: u32 = constant("UVA_GATHER_NARROW_DEPTH");
/// Loads of a thread in flight in `wide`.
pub const WIDE_DEPTH: u32 = constant("UVA_GATHER_WIDE_DEPTH");

/// The number that `#define name` gives. Fails to compile if there is none.
const fn constant(name: &str) -> u32 {
    let (text, name) = (TEXT.as_bytes(), name.as_bytes());
    let define = b"#define ";
    let mut at = 0;
    while at + define.len() + name.len() < text.len() {
        let behind = at + define.len() + name.len();
        if starts_with(text, at, define) && starts_with(text, at + define.len(), name) && text[behind] == b' '
        {
            let mut digit = behind + 1;
            let mut number = 0;
            while digit < text.len() && text[digit].is_ascii_digit() {
                number = number * 10 + (text[digit] - b'0') as u32;
                digit += 1;
            }
            assert!(digit > behind + 1, "a constant of kernels/tuning.cuh is not a number");
            return number;
        }
        at += 1;
    }
    panic!("a constant is missing in kernels/tuning.cuh")
}

const fn starts_with(text: &[u8], at: usize, part: &[u8]) -> bool {
    let mut index = 0;
    while index < part.len() {
        if at + index >= text.len() || text[at + index] != part[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_those_of_the_text() {
        for (name, value) in
            [("UVA_GATHER_BLOCK_THREADS", BLOCK_THREADS), ("UVA_GATHER_WIDE_DEPTH", WIDE_DEPTH)]
        {
            assert!(
                TEXT.lines().any(|line| line == format!("#define {name} {value}")),
                "{name} is not {value}"
            );
        }
    }
}
