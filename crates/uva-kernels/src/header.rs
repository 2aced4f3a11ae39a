//! Parses the CUDA headers while this crate is compiled: constants, and the offsets of struct fields.
//!
//! The parser supports only the declarations in the headers: one field each, of a pointer, `long long`, `int`, or
//! another struct of the header, with or without `unsigned`, `const` and an array bound. Anything else fails to
//! compile.

/// Declares a struct that kernels and launchers share, and compares it with the C++ declaration in the header `$text`.
macro_rules! shared_struct {
    (in $text:path; $(#[$about:meta])* pub struct $name:ident {
        $($(#[$of_field:meta])* pub $field:ident: $type:ty,)*
    }) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, bytemuck::Pod, bytemuck::Zeroable)]
        pub struct $name {
            $($(#[$of_field])* pub $field: $type,)*
        }

        impl $name {
            /// Bytes of the struct.
            pub const BYTES: usize = size_of::<Self>();
        }

        const _: () = {
            let (places, bytes) =
                $crate::header::layout($text, stringify!($name), [$(stringify!($field)),*]);
            assert!(
                bytes == size_of::<$name>(),
                concat!(stringify!($name), " has another size in the CUDA header")
            );
            let mut places = places.as_slice();
            $(
                let Some(((offset, bytes), rest)) = places.split_first() else { unreachable!() };
                assert!(
                    *offset == std::mem::offset_of!($name, $field) && *bytes == size_of::<$type>(),
                    concat!(stringify!($name), "::", stringify!($field), " lies elsewhere in the CUDA header")
                );
                places = rest;
            )*
            assert!(places.is_empty());
        };
    };
}

/// The number that `#define NAME 1` or `constexpr … NAME = 1;` defines.
pub(crate) const fn constant(text: &str, name: &str) -> u64 {
    let text = text.as_bytes();
    let mut token = next(text, 0);
    while token.0 < token.1 {
        let named = is(text, token, name);
        token = next(text, token.1);
        if named {
            let value = if is(text, token, "=") { next(text, token.1) } else { token };
            if let Some(number) = number(text, value) {
                return number;
            }
        }
    }
    panic!("a constant is missing in a CUDA header")
}

/// The size of a struct.
const fn struct_bytes(text: &str, structure: &str) -> usize {
    layout(text, structure, []).1
}

/// The offsets and sizes of the fields `wanted`, and the size of the struct. One pass for all fields: the compiler
/// interprets this, at a second of its time for every few passes over the largest header.
pub(crate) const fn layout<const FIELDS: usize>(
    header: &str,
    structure: &str,
    wanted: [&str; FIELDS],
) -> ([(usize, usize); FIELDS], usize) {
    let text = header.as_bytes();
    let mut at = body(text, structure);
    let (mut offset, mut places) = (0_usize, [(0, 0); FIELDS]);
    let mut alignment = 1;
    loop {
        let mut token = next(text, at);
        if is(text, token, "}") {
            let mut field = 0;
            while field < FIELDS {
                assert!(places[field].1 > 0, "the struct in the CUDA header has no field of this name");
                field += 1;
            }
            return (places, offset.next_multiple_of(alignment));
        }
        // The identifiers in a declaration that are not keywords: a struct's name, and the field's.
        let (mut words, mut longs) = ([(0, 0); 2], 0);
        let (mut pointer, mut int, mut count) = (false, false, 1);
        while !is(text, token, ";") {
            if is(text, token, "*") {
                pointer = true;
            } else if is(text, token, "long") {
                longs += 1;
            } else if is(text, token, "int") {
                int = true;
            } else if is(text, token, "[") {
                token = next(text, token.1);
                count = match number(text, token) {
                    Some(number) => number,
                    None => constant(header, slice(header, token)),
                };
                token = next(text, token.1);
                assert!(is(text, token, "]"), "an array of a CUDA header has another bound than a number");
            } else if is_word(text, token) {
                if !(is(text, token, "unsigned") || is(text, token, "const") || is_unsized(text, token)) {
                    words = [words[1], token];
                }
            } else {
                panic!("a struct of a CUDA header is declared in a way that this reader does not know");
            }
            token = next(text, token.1);
        }
        let (each, aligned) = if pointer || longs == 2 {
            (8, 8)
        } else if int && longs == 0 {
            (4, 4)
        } else if words[0].0 < words[0].1 {
            // All structs of the headers begin with 8 bytes that are one number.
            (struct_bytes(header, slice(header, words[0])), 8)
        } else {
            panic!("a field of a CUDA header has a type that this reader does not know");
        };
        offset = offset.next_multiple_of(aligned);
        let mut field = 0;
        while field < FIELDS {
            if is(text, words[1], wanted[field]) {
                places[field] = (offset, each * count as usize);
            }
            field += 1;
        }
        offset += each * count as usize;
        alignment = if aligned > alignment { aligned } else { alignment };
        at = token.1;
    }
}

/// The position after `struct NAME {`.
const fn body(text: &[u8], name: &str) -> usize {
    let mut token = next(text, 0);
    while token.0 < token.1 {
        let named = is(text, token, "struct");
        token = next(text, token.1);
        if named && is(text, token, name) {
            token = next(text, token.1);
            if is(text, token, "{") {
                return token.1;
            }
        }
    }
    panic!("a struct is missing in a CUDA header")
}

/// The start and the end of the word, number or symbol from `at` on: equal at the end of the text. Skips blanks and
/// comments.
const fn next(text: &[u8], mut at: usize) -> (usize, usize) {
    let end = text.len();
    while at < end {
        if KINDS[text[at] as usize] == BLANK {
            at += 1;
        } else if text[at] == b'/' && at + 1 < end && text[at + 1] == b'/' {
            while at < end && text[at] != b'\n' {
                at += 1;
            }
        } else {
            break;
        }
    }
    let begin = at;
    while at < end && KINDS[text[at] as usize] == WORD {
        at += 1;
    }
    if begin == at && at < end { (begin, at + 1) } else { (begin, at) }
}

const SYMBOL: u8 = 0;
const BLANK: u8 = 1;
const WORD: u8 = 2;

/// The kind of each character.
const KINDS: [u8; 256] = {
    let mut kinds = [SYMBOL; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        if byte.is_ascii_whitespace() {
            kinds[byte as usize] = BLANK;
        } else if byte.is_ascii_alphanumeric() || byte == b'_' {
            kinds[byte as usize] = WORD;
        }
        byte += 1;
    }
    kinds
};

const fn is_word(text: &[u8], token: (usize, usize)) -> bool {
    token.0 < token.1 && (text[token.0].is_ascii_alphabetic() || text[token.0] == b'_')
}

/// Whether a type occurs only as the target of pointers.
const fn is_unsized(text: &[u8], token: (usize, usize)) -> bool {
    is(text, token, "void") || is(text, token, "char")
}

const fn is(text: &[u8], token: (usize, usize), name: &str) -> bool {
    let name = name.as_bytes();
    if token.1 - token.0 != name.len() {
        return false;
    }
    let mut index = 0;
    while index < name.len() {
        if text[token.0 + index] != name[index] {
            return false;
        }
        index += 1;
    }
    true
}

const fn number(text: &[u8], token: (usize, usize)) -> Option<u64> {
    let mut value = 0;
    let mut at = token.0;
    while at < token.1 {
        if !text[at].is_ascii_digit() {
            return None;
        }
        value = value * 10 + (text[at] - b'0') as u64;
        at += 1;
    }
    if token.0 < token.1 { Some(value) } else { None }
}

const fn slice(text: &str, token: (usize, usize)) -> &str {
    text.split_at(token.1).0.split_at(token.0).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_read_from_definitions_and_not_from_uses() {
        let text = "u32 a = LINE * 2 + MANY;\nconstexpr u32 LINE = 128;\n#define MANY 4 // 5\n";
        assert_eq!((constant(text, "LINE"), constant(text, "MANY")), (128, 4));
        assert!(std::panic::catch_unwind(|| constant(text, "NONE")).is_err());
    }

    #[test]
    fn fields_have_the_layout_of_c() {
        let text = "#define MANY 3\nstruct Part { long long one; };\n
            struct All { // int none;
              int first; const unsigned char* second; unsigned int third; Part parts[MANY]; const void* last; int end;
            };";
        let names = ["first", "second", "third", "parts", "last", "end"];
        let (places, bytes) = layout(text, "All", names);
        assert_eq!(places, [(0, 4), (8, 8), (16, 4), (24, 24), (48, 8), (56, 4)]);
        assert_eq!((bytes, struct_bytes(text, "Part")), (64, 8));
        for name in ["none", "Part", "MANY"] {
            assert!(std::panic::catch_unwind(|| layout(text, "All", [name])).is_err(), "{name}");
        }
    }

    #[test]
    fn a_declaration_of_another_kind_is_refused() {
        for declaration in ["short a;", "int a, b;", "char a;", "long a;", "double a;"] {
            let text = format!("struct All {{ {declaration} }};");
            assert!(std::panic::catch_unwind(|| struct_bytes(&text, "All")).is_err(), "{declaration}");
        }
    }
}
