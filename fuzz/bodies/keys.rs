//! Keys: different parts never have the same bytes, and bytes that parse are canonical.

use arbitrary::{Arbitrary, Unstructured};
use firstseen::Key;

/// A head, and then what is named.
type Told = (Vec<Vec<u8>>, Option<Vec<u8>>, Option<Vec<u8>>, Option<u64>);

pub(crate) fn run(data: &[u8]) {
    let told = <(Told, Told, Vec<u8>)>::arbitrary_take_rest(Unstructured::new(data));
    let Ok((a, b, bytes)) = told else { return };
    let (key_a, key_b) = (build(&a), build(&b));
    if !a.0.is_empty() && !b.0.is_empty() {
        assert_eq!(
            a == b,
            key_a.as_ref() == key_b.as_ref(),
            "{key_a} and {key_b}"
        );
    }
    for key in [key_a, key_b] {
        let parsed = Key::parse(key.as_ref());
        if key.as_ref().is_empty() {
            assert!(parsed.is_err(), "nothing identifies {key}");
        } else {
            assert_eq!(parsed, Ok(key));
        }
    }
    let mut with_format = Key::parts([""]).as_ref()[..1].to_vec();
    with_format.extend(&bytes);
    for bytes in [bytes, with_format] {
        if let Ok(key) = Key::parse(&bytes) {
            assert_eq!(key.as_ref(), bytes, "{key} is canonical");
            assert_eq!(Key::parse_hex(&key.to_hex()), Ok(key));
        }
    }
}

fn build((parts, scene, event, sequence): &Told) -> Key {
    let mut key = Key::parts(parts);
    // Backwards, as the order of the calls must not show.
    if let Some(sequence) = sequence {
        key = key.sequence(*sequence);
    }
    if let Some(event) = event {
        key = key.event(event);
    }
    if let Some(scene) = scene {
        key = key.scene(scene);
    }
    key
}
