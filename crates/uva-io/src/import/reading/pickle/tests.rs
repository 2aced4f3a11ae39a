use proptest::prelude::*;

use super::*;

fn ints(pickle: &Pickle, items: &[Ref]) -> Vec<i64> {
    let int = |at: &Ref| match pickle.get(*at) {
        Value::Int(value) => *value,
        other => panic!("{other:?}"),
    };
    items.iter().map(int).collect()
}

fn refused(bytes: &[u8]) -> PickleProblem {
    Pickle::read(bytes).unwrap_err()
}

#[test]
fn protocol_zero_is_read() {
    // pickle.dumps([1, -2, 30000000000L, 'a\n\x01', 1.5, None, True], 0) of Python 2.
    let bytes = b"(lp0\nI1\naI-2\naL30000000000L\naS'a\\n\\x01'\np1\naF1.5\naNaI01\na.";
    let pickle = Pickle::read(bytes).unwrap();
    let Value::List(items) = pickle.root() else { panic!("{:?}", pickle.root()) };
    assert_eq!(ints(&pickle, &items[..3]), [1, -2, 30_000_000_000]);
    assert_eq!(*pickle.get(items[3]), Value::Bytes(b"a\n\x01".to_vec()));
    assert_eq!(*pickle.get(items[4]), Value::Float(1.5));
    assert_eq!(*pickle.get(items[5]), Value::None);
    assert_eq!(*pickle.get(items[6]), Value::Bool(true));
}

#[test]
fn protocol_two_is_read_with_its_memo() {
    // {0: [633, -1], 1: the same list}
    let bytes = b"\x80\x02}q\x00(K\x00]q\x01(My\x02J\xff\xff\xff\xffeK\x01h\x01u.";
    let pickle = Pickle::read(bytes).unwrap();
    let Value::Dict(entries) = pickle.root() else { panic!("{:?}", pickle.root()) };
    assert_eq!(entries[0].1, entries[1].1);
    let Value::List(items) = pickle.get(entries[0].1) else { panic!("no list") };
    assert_eq!(ints(&pickle, items), [633, -1]);
    assert_eq!(pickle.lists().unwrap(), [(0, vec![633, -1]), (1, vec![633, -1])]);
}

#[test]
fn long_integers_are_twos_complement() {
    for (bytes, value) in
        [(&b"\x8a\x00."[..], 0), (b"\x8a\x01\xff.", -1), (b"\x8a\x03\x00\x00\x80.", -8_388_608)]
    {
        assert_eq!(*Pickle::read(bytes).unwrap().root(), Value::Int(value));
    }
    assert!(refused(b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.").to_string().contains("64 bits"));
}

#[test]
fn names_that_are_not_plain_values_are_refused_and_nothing_runs() {
    let directory = tempfile::tempdir().unwrap();
    let witness = directory.path().join("witness");
    let shell = format!("cposix\nsystem\n(S'touch {}'\ntR.", witness.display());
    let problem = refused(shell.as_bytes());
    assert!(problem.to_string().contains("names posix.system at offset 0"), "{problem}");
    assert!(!witness.exists());
    for name in
        ["__builtin__\neval", "os\nsystem", "numpy\nload", "numpy.core.multiarray\nscalar", "evil\ndtype"]
    {
        assert!(matches!(refused(format!("c{name}\n.").as_bytes()), PickleProblem::Refused { .. }), "{name}");
    }
    // Plain values do not need INST, OBJ, PERSID and the extension registry.
    for bytes in [&b"(ios\nsystem\n."[..], b"(o.", b"P1\n.", b"\x82\x01."] {
        assert!(matches!(refused(bytes), PickleProblem::Opcode { .. }), "{bytes:?}");
    }
}

#[test]
fn protocol_four_is_read_with_frames_and_names_on_the_stack() {
    // {'é': [1]} and a name.
    let bytes = b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x02\xc3\xa9\x94]\x94K\x01au.";
    let pickle = Pickle::read(bytes).unwrap();
    let Value::Dict(entries) = pickle.root() else { panic!("{:?}", pickle.root()) };
    assert_eq!(*pickle.get(entries[0].0), Value::Bytes("é".into()));
    let name = b"\x80\x04\x8c\x08builtins\x94\x8c\x04list\x94\x93.";
    assert_eq!(*Pickle::read(name).unwrap().root(), Value::Global("builtins", "list"));
    let name = b"\x80\x04\x8c\x08builtins\x94\x8c\x04eval\x94\x93.";
    assert!(matches!(refused(name), PickleProblem::Refused { .. }));
    // raw-unicode-escape: a byte is a character.
    assert_eq!(*Pickle::read(b"V\xe9\\u20ac\n.").unwrap().root(), Value::Bytes("é€".into()));
    // Buffers that are not in the file.
    assert!(matches!(refused(b"\x80\x05\x97."), PickleProblem::Opcode { .. }));
}

#[test]
fn later_protocols_are_refused() {
    let message = refused(b"\x80\x06\x95").to_string();
    assert!(message.contains("protocol 6 at offset 0") && message.contains("at most 5"), "{message}");
}

#[test]
fn a_cut_pickle_is_refused_at_its_end_wherever_it_is_cut() {
    let whole = b"\x80\x02}q\x00(K\x00]q\x01(My\x02J\xff\xff\xff\xffeK\x01h\x01u.";
    for length in 0..whole.len() {
        assert_eq!(refused(&whole[..length]), PickleProblem::Truncated { offset: length });
    }
}

#[test]
fn programs_that_misuse_the_stack_are_refused() {
    for bytes in [
        &b"."[..],       // nothing to return
        b"(.",           // a mark is not a value
        b"t.",           // no mark
        b"K\x01a.",      // append to nothing
        b"K\x01K\x02a.", // append to a number
        b"}(K\x01u.",    // a key without its value
        b"h\x07.",       // empty memo
        b"K\x01)R.",     // a call of a number
        b"]K\x01b.",     // a state for a list
        b"0.",           // nothing to drop
    ] {
        assert!(matches!(refused(bytes), PickleProblem::Malformed { .. }), "{bytes:?}");
    }
}

#[test]
fn a_list_that_holds_itself_does_no_harm() {
    let pickle = Pickle::read(b"\x80\x02]q\x00h\x00a.").unwrap();
    let Value::List(items) = pickle.root() else { panic!("no list") };
    assert_eq!(items.len(), 1);
    assert!(pickle.lists().is_err());
}

/// Random instructions with random operands, so that the reader gets past the first byte.
fn instruction() -> impl Strategy<Value = Vec<u8>> {
    let bare = prop::sample::select(b"(012N)]}tldaesuRb.\x81\x85\x86\x87\x88\x89\x93\x94".to_vec())
        .prop_map(|c| vec![c]);
    let byte = (prop::sample::select(b"Khq".to_vec()), 0_u8..4).prop_map(|(c, b)| vec![c, b]);
    let global =
        prop::sample::select(GLOBALS.to_vec()).prop_map(|(m, n)| format!("c{m}\n{n}\n").into_bytes());
    let string =
        prop::collection::vec(any::<u8>(), 0..8).prop_map(|s| [vec![b'U', s.len() as u8], s].concat());
    let string = prop_oneof![string.clone(), string.prop_map(|s| [vec![0x8c], s[1..].to_vec()].concat())];
    let any = prop::collection::vec(any::<u8>(), 1..4);
    prop_oneof![8 => bare, 4 => byte, 1 => global, 1 => string, 1 => any]
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Pickle::read(&bytes);
    }

    #[test]
    fn arbitrary_programs_never_panic_nor_do_their_readers(program in prop::collection::vec(instruction(), 0..60)) {
        let mut bytes = program.concat();
        bytes.push(b'.');
        if let Ok(pickle) = Pickle::read(&bytes) {
            let _ = pickle.lists();
            let _ = pickle.sparse_rows();
            let _ = pickle.root_array().map(|array| array.integers());
        }
    }
}
