//! One writer at a time, readers beside it.

use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::index::active::ActiveSet;
use crate::index::record::{Hit, Meta, Slice, Stamp, State};

const SCOPE: u16 = 3;
/// Two ids whose probes begin at one slot.
const IDS: [(u64, &[u8]); 2] = [(7 << 32 | 1, b"id-seven"), (9 << 32 | 1, b"id-nine")];

fn set() -> ActiveSet {
    let Ok(set) = ActiveSet::with_capacity(8, 48);
    set
}

/// A record of which every part tells the round it was written in.
fn write(set: &ActiveSet, (hash, id): (u64, &[u8]), round: u64) {
    let stamp = Stamp {
        scope: SCOPE,
        version: round as u8,
    };
    let meta = Meta {
        stamp,
        state: State::Seen,
        over: false,
        expiry_ms: 100 + round,
    };
    let placement = Slice {
        end_ms: 200 + round,
        class: round as u8,
    };
    let section = set.section(&meta, placement);
    set.insert(hash, section, SCOPE, id, Some(&[round as u8; 3]));
}

/// The round of a record, which must be whole.
fn round_of(hit: &Hit) -> u64 {
    let round = hit.meta.expiry_ms.wrapping_sub(100);
    let is_whole = hit.meta.stamp.version == round as u8
        && hit.placement.end_ms == 200 + round
        && hit.placement.class == round as u8
        && hit.extras.as_deref() == Some(&[round as u8; 3][..]);
    assert!(is_whole, "torn: {hit:?}");
    round
}

fn read(set: &ActiveSet, (hash, id): (u64, &[u8])) -> Option<u64> {
    set.find(hash, || (SCOPE, id)).as_ref().map(round_of)
}

/// A reader beside a writer that records an id anew: it sees the older or the newer record, whole,
/// never none, and never the older one again.
pub fn superseded() {
    let set = set();
    write(&set, IDS[0], 1);
    beside_a_reader(set, IDS[0], |set| {
        let seen = [(); 2].map(|()| read(set, IDS[0]));
        assert!(seen[0].is_some() && seen[1].is_some(), "missed: {seen:?}");
        assert!(seen.is_sorted(), "went back: {seen:?}");
    });
}

/// A reader beside a writer that adds an id to the same slots: the first one stays found, the
/// second one is whole when it comes, and stays.
pub fn added() {
    let set = set();
    write(&set, IDS[0], 1);
    beside_a_reader(set, IDS[1], |set| {
        let new = read(set, IDS[1]);
        assert_eq!(read(set, IDS[0]), Some(1), "missed");
        assert!(new.is_none() || read(set, IDS[1]) == new, "went back");
    });
}

/// Writes round 2 of an id. The first thread is the writer: loom looks for races with a place's
/// last access only, and the writer loads a slot before it stores it, which would hide a reader's
/// load before that.
fn beside_a_reader(set: ActiveSet, id: (u64, &[u8]), look: fn(&ActiveSet)) {
    let set = Arc::new(set);
    let reader = {
        let set = Arc::clone(&set);
        thread::spawn(move || look(&set))
    };
    write(&set, id, 2);
    reader.join().expect("the reader ends");
    assert_eq!(read(&set, id), Some(2), "lost");
}

/// Two writers, one after the other under a lock, as leaders of commits are: neither overwrites
/// what the other one wrote.
pub fn handed_over() {
    let (set, gate) = (Arc::new(set()), Arc::new(Mutex::new(())));
    let other = {
        let (set, gate) = (Arc::clone(&set), Arc::clone(&gate));
        thread::spawn(move || {
            let _leads = gate.lock();
            write(&set, IDS[0], 1);
        })
    };
    {
        let _leads = gate.lock();
        write(&set, IDS[1], 2);
    }
    other.join().expect("the writer ends");
    assert_eq!(read(&set, IDS[0]), Some(1), "lost");
    assert_eq!(read(&set, IDS[1]), Some(2), "lost");
    assert_eq!(set.len(), 2, "lost");
}
