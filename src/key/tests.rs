//! Keys against what they were told: property tests, golden bytes and each fault.

use super::part::{EVENT, SCENE, SEQUENCE};
use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Everything a key can be told, to build it and to compare it.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    head: Head,
    scene: Option<Vec<u8>>,
    event: Option<Vec<u8>>,
    sequence: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
enum Head {
    Plain(Vec<Vec<u8>>),
    Business(Vec<u8>),
    Position(Vec<u8>, Vec<u8>, u32, u64),
}

impl Told {
    fn build(&self, tail_reversed: bool) -> Key {
        let mut key = match &self.head {
            Head::Plain(parts) => Key::parts(parts),
            Head::Business(business) => Key::new(business),
            Head::Position(c, t, p, o) => Key::position(c, t, *p, *o),
        };
        let mut order = [SCENE, EVENT, SEQUENCE];
        if tail_reversed {
            order.reverse();
        }
        for tag in order {
            key = match (tag, &self.scene, &self.event, self.sequence) {
                (SCENE, Some(scene), ..) => key.scene(scene),
                (EVENT, _, Some(event), _) => key.event(event),
                (SEQUENCE, .., Some(sequence)) => key.sequence(sequence),
                _ => key,
            };
        }
        key
    }
}

/// Few letters and short parts, so that near misses are common; now and then a long part.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let letter = prop::sample::select(vec![0, 1, 2, 6, 0xF8, b'-', b'a']);
    prop_oneof![9 => vec(letter, 0..4), 1 => vec(any::<u8>(), 120..300)]
}

fn told() -> impl Strategy<Value = Told> {
    let head = prop_oneof![
        vec(bytes(), 1..4).prop_map(Head::Plain),
        bytes()
            .prop_filter("not blank", |b| !b.is_empty())
            .prop_map(Head::Business),
        (bytes(), bytes(), any::<u32>(), any::<u64>())
            .prop_map(|(c, t, p, o)| Head::Position(c, t, p, o)),
    ];
    let tail = (prop::option::of(bytes()), prop::option::of(bytes()));
    let sequence = prop::option::of(prop_oneof![0_u64..4, 126_u64..130, any::<u64>()]);
    (head, tail, sequence).prop_map(|(head, (scene, event), sequence)| Told {
        head,
        scene,
        event,
        sequence,
    })
}

proptest! {
    #[test]
    fn different_parts_have_different_bytes(a in told(), b in told()) {
        prop_assert_eq!(a == b, a.build(false).as_ref() == b.build(false).as_ref());
    }

    #[test]
    fn different_lists_have_different_bytes(
        a in vec(bytes(), 0..4),
        b in vec(bytes(), 0..4),
    ) {
        prop_assert_eq!(a == b, Key::parts(&a).as_ref() == Key::parts(&b).as_ref());
    }

    #[test]
    fn a_built_key_reads_back(told in told()) {
        let key = told.build(false);
        prop_assert_eq!(Key::parse(key.as_ref()), Ok(key.clone()));
        prop_assert_eq!(Key::parse_hex(&key.to_hex()), Ok(key.clone()));
        prop_assert_eq!(told.build(true), key.clone());
        prop_assert_eq!(key.scene_name(), told.scene.as_deref());
        prop_assert_eq!(key.event_name(), told.event.as_deref());
        prop_assert_eq!(key.sequence_number(), told.sequence);
    }

    #[test]
    fn bytes_that_parse_are_canonical(told in told(), flips in vec(any::<(u16, u8)>(), 0..3)) {
        let mut bytes = told.build(false).into_bytes();
        for (at, byte) in flips {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        if let Ok(key) = Key::parse(&bytes) {
            let mut encoded = vec![FORMAT];
            key.iter().for_each(|part| part.encode(&mut encoded));
            prop_assert_eq!(&encoded, &bytes);
            prop_assert_eq!(key.as_ref(), &bytes[..]);
        }
    }

    #[test]
    fn any_bytes_parse_or_are_refused(bytes in vec(any::<u8>(), 0..40)) {
        let _ = Key::parse(&bytes);
        let mut tagged = vec![FORMAT];
        tagged.extend(&bytes);
        if let Ok(key) = Key::parse(&tagged) {
            prop_assert_eq!(key.into_bytes(), tagged);
        }
    }
}

#[test]
fn golden_bytes() {
    let key = Key::new("o").scene("pay").event("").sequence(300);
    assert_eq!(
        key.as_ref(),
        b"\xF8\x01\x01o\x06\x03pay\x07\x00\x08\xAC\x02"
    );
    let key = Key::position("c", "t", 7, u64::MAX);
    let max = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1];
    assert_eq!(
        key.as_ref(),
        [&b"\xF8\x02\x01c\x03\x01t\x04\x07\x05"[..], &max].concat()
    );
    assert_eq!(
        Key::parts(["a", "b-c"]).as_ref(),
        b"\xF8\x00\x01a\x00\x03b-c"
    );
}

#[test]
fn tenants_with_separators_in_their_names_stay_apart() {
    assert_ne!(
        Key::parts(["a", "b-c"]).as_ref(),
        Key::parts(["a-b", "c"]).as_ref()
    );
}

#[test]
fn an_empty_scene_is_neither_a_missing_scene_nor_a_plain_part() {
    let keys = [
        Key::new("o"),
        Key::new("o").scene(""),
        Key::new("o").event(""),
        Key::parts(["o"]),
        Key::parts(["o", ""]),
    ];
    for (i, a) in keys.iter().enumerate() {
        for b in &keys[i + 1..] {
            assert_ne!(a.as_ref(), b.as_ref(), "{a} and {b}");
        }
    }
}

#[test]
fn positions_of_other_partitions_and_clusters_are_other_keys() {
    let key = Key::position("eu", "orders", 1, 9);
    for other in [
        Key::position("us", "orders", 1, 9),
        Key::position("eu", "order", 1, 9),
        Key::position("eu", "orders", 2, 9),
        Key::position("eu", "orders", 1, 10),
    ] {
        assert_ne!(key.as_ref(), other.as_ref());
    }
    assert_eq!(Key::new("eu").as_position(), None);
}

#[test]
fn a_key_that_identifies_nothing_is_the_empty_id() {
    for key in [
        Key::new("").scene("pay"),
        Key::parts([""; 0]),
        Key::parts([""; 0]).event("e"),
    ] {
        assert_eq!(key.as_ref(), b"");
        assert_eq!(key.to_hex(), "");
        assert_eq!(key.into_bytes(), b"");
    }
    assert!(!Key::parts([""]).as_ref().is_empty());
}

#[test]
fn naming_a_part_again_replaces_it() {
    let key = Key::new("o").scene("longer").sequence(7).scene("s");
    assert_eq!(key, Key::new("o").scene("s").sequence(7));
}

#[test]
fn each_fault_is_named() {
    for (bytes, why) in [
        (&b""[..], "cut short at byte 0"),
        (b"order", "unknown format at byte 0"),
        (
            b"\xF8",
            "no parts, one business key or one position at byte 1",
        ),
        (
            b"\xF8\x05\x01",
            "no parts, one business key or one position at byte 3",
        ),
        (
            b"\xF8\x00\x01a\x01\x01b",
            "no parts, one business key or one position at byte 7",
        ),
        (b"\xF8\x01\x00", "empty business key at byte 1"),
        (b"\xF8\x01\x02a", "part cut short at byte 3"),
        (b"\xF8\x01\x01a\x01\x01a", "part out of order at byte 4"),
        (
            b"\xF8\x01\x81\x00a",
            "number not in its shortest form at byte 4",
        ),
        (b"\xF8\x09", "unknown part at byte 2"),
        (
            b"\xF8\x02\x00\x03\x00\x04\x80\x80\x80\x80\x10",
            "partition over 32 bits at byte 11",
        ),
    ] {
        let error = Key::parse(bytes).expect_err("a fault").to_string();
        assert_eq!(error, format!("not a key: {why}"));
    }
    assert!(Key::parse_hex("F80101").is_err());
    assert!(Key::parse_hex("f8010").is_err());
}

#[test]
fn printing_shows_what_is_not_text() {
    let key = Key::parts([&b"a\"b"[..], b"\xFF\0"]).sequence(0);
    assert_eq!(key.to_string(), r#""a\"b" b"\xff\x00" sequence 0"#);
    assert_eq!(format!("{:?}", Key::new("é")), r#"Key(business "é")"#);
}
