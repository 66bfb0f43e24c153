//! The active set against a map, with readers beside the writer, and its sorting.

use super::*;
use crate::index::hash::colliding_ids;
use crate::index::record::{Stamp, State};
use crate::sync::atomic::AtomicBool;
use std::collections::{HashMap, HashSet};

const SLICE: Slice = Slice {
    end_ms: 5000,
    class: 2,
};

fn meta(scope: u16, version: u8, expiry_ms: u64) -> Meta {
    let stamp = Stamp { scope, version };
    Meta {
        stamp,
        state: State::Seen,
        over: false,
        expiry_ms,
    }
}

fn random_meta(rng: &mut fastrand::Rng) -> (Meta, Slice) {
    let meta = Meta {
        stamp: Stamp {
            scope: rng.u16(..4),
            version: rng.u8(..),
        },
        state: if rng.u8(..8) == 0 {
            State::Forgotten
        } else {
            State::Seen
        },
        over: rng.bool(),
        expiry_ms: if rng.bool() { u64::MAX } else { rng.u64(..) },
    };
    (
        meta,
        Slice {
            end_ms: rng.u64(..),
            class: rng.u8(..),
        },
    )
}

type Model = HashMap<(u16, Vec<u8>), Hit>;

fn fill(set: &ActiveSet, hash: &IdHash, rng: &mut fastrand::Rng, commits: usize) -> Model {
    let mut model = Model::new();
    for _ in 0..commits {
        let (meta, placement) = random_meta(rng);
        let scope = meta.stamp.scope;
        let section = set.section(&meta, placement);
        for _ in 0..rng.usize(..40) {
            let mut id = rng.u16(..2000).to_le_bytes().to_vec();
            id.resize([1, 2, 7, 8, 9, 16, 33, 300][rng.usize(..8)], 1);
            let extras = (rng.u8(..5) == 0).then(|| vec![rng.u8(..); rng.usize(..70)]);
            let at = hash.of(scope, &id);
            set.insert(at, section, scope, &id, extras.as_deref());
            let hit = Hit {
                meta,
                placement,
                extras: extras.map(Vec::into_boxed_slice),
            };
            assert_eq!(set.find(at, || (scope, &id[..])).as_ref(), Some(&hit));
            model.insert((scope, id), hit);
        }
    }
    model
}

fn check(set: &ActiveSet, hash: &IdHash, model: &Model) {
    assert_eq!(set.len(), model.len());
    for ((scope, id), hit) in model {
        let at = hash.of(*scope, id);
        set.prefetch(at);
        set.prefetch_record(at);
        assert_eq!(set.find(at, || (*scope, id)).as_ref(), Some(hit));
        assert_eq!(set.find(hash.of(9, id), || (9, id)), None);
    }
    let sorted = set.sorted(hash);
    assert_eq!(sorted.len(), model.len());
    assert!(sorted.is_sorted());
    let (mut id, mut extras, mut met) = (Vec::new(), b"old".to_vec(), HashSet::new());
    for (at, entry) in sorted {
        set.prefetch_entry(entry);
        let (meta, placement, rich) = set.entry(entry, &mut id, &mut extras);
        assert_eq!(hash.of(meta.stamp.scope, &id), at);
        let found = rich.then(|| extras.clone().into_boxed_slice());
        let key = (meta.stamp.scope, id.clone());
        assert_eq!(
            model.get(&key),
            Some(&Hit {
                meta,
                placement,
                extras: found
            })
        );
        assert!(rich || extras.is_empty());
        assert!(met.insert(key), "an older record was not skipped");
    }
}

fn find(set: &ActiveSet, hash: IdHash, scope: u16, id: &[u8]) -> Option<Hit> {
    set.find(hash.of(scope, id), || (scope, id))
}

#[test]
fn behaves_like_a_map_also_when_recycled() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let hash = IdHash::new(seed);
    let mut set = ActiveSet::with_capacity(20_000, 1_000_000).expect("there is memory");
    set.prefault();
    for commits in [0, 1, 30, 900] {
        let model = fill(&set, &hash, &mut rng, commits);
        check(&set, &hash, &model);
        set.reset();
        assert_eq!(set.len(), 0);
        for (scope, id) in model.keys() {
            assert_eq!(set.find(hash.of(*scope, id), || (*scope, id)), None);
        }
        assert!(set.sorted(&hash).is_empty());
    }
}

#[test]
fn a_full_set_still_answers() {
    let hash = IdHash::new(1);
    let set = ActiveSet::with_capacity(8, 1 + 3 + 8 * 2).expect("there is memory");
    let section = set.section(&meta(1, 1, 9), SLICE);
    for i in 0..8u8 {
        assert!(set.has_room(1, ActiveSet::words_for(1, None)));
        set.insert(hash.of(1, &[i]), section, 1, &[i], None);
    }
    assert!(!set.has_room(1, 0) && !set.has_room(0, 1) && set.has_room(0, 0));
    assert!((0..8u8).all(|i| find(&set, hash, 1, &[i]).is_some()));
    assert!((8..99u8).all(|i| find(&set, hash, 1, &[i]).is_none()));
    assert_eq!(set.bytes(), (16 + 20) * 8);
}

#[test]
fn words_are_what_an_entry_takes() {
    let set = ActiveSet::with_capacity(100, 1000).expect("there is memory");
    let section = set.section(&meta(1, 1, 9), SLICE);
    for (i, extras) in [None, Some(0), Some(1), Some(8), Some(9)]
        .into_iter()
        .enumerate()
    {
        for len in [1, 7, 8, 9, 16] {
            let (id, bytes) = (vec![i as u8; len], extras.map(|len| vec![3; len]));
            let before = set.arena.used();
            set.insert(IdHash::new(0).of(1, &id), section, 1, &id, bytes.as_deref());
            let words = set.arena.used() - before;
            assert_eq!(words, ActiveSet::words_for(len, extras));
        }
    }
}

#[test]
fn equal_hashes_are_told_apart() {
    let hash = IdHash::new(3);
    let (a, b) = colliding_ids(3, 77);
    let at = hash.of(0, &a);
    let set = ActiveSet::with_capacity(10, 100).expect("there is memory");
    let first = set.section(&meta(0, 1, 11), SLICE);
    set.insert(at, first, 0, &a, None);
    assert_eq!(set.find(at, || (0, &b[..])), None);
    set.insert(at, first, 0, &b, Some(b"b"));
    let second = set.section(&meta(0, 2, 22), SLICE);
    set.insert(at, second, 0, &a, None);
    assert_eq!(set.len(), 2);
    assert_eq!(
        set.find(at, || (0, &a[..])).map(|hit| hit.meta.expiry_ms),
        Some(22)
    );
    assert_eq!(
        set.find(at, || (0, &b[..])).map(|hit| hit.meta.expiry_ms),
        Some(11)
    );
    assert_eq!(set.sorted(&hash).len(), 2);
}

#[test]
fn ids_differ_from_their_padding() {
    let set = ActiveSet::with_capacity(10, 100).expect("there is memory");
    let section = set.section(&meta(0, 1, 1), SLICE);
    // One hash for all, so that only the comparison tells them apart.
    let ids: [&[u8]; 4] = [b"a", b"a\0", b"a\0\0\0\0\0\0\0", b"a\0\0\0\0\0\0\0\0"];
    for (i, id) in ids.iter().enumerate() {
        assert_eq!(set.find(5, || (0, id)), None);
        set.insert(5, section, 0, id, None);
        assert_eq!(set.len(), i + 1);
    }
}

#[test]
fn sorting_is_right_for_any_hashes() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut spare = Vec::new();
    for len in [0, 1, 2, 1000, 100_000, 1024, 5000] {
        for mask in [u64::MAX, 0, 0xFF, 0xFF << 40, u64::MAX << 60] {
            let mut all: Vec<_> = (0..len).map(|i| (rng.u64(..) & mask, EntryAt(i))).collect();
            let mut expected = all.clone();
            expected.sort();
            sort_by_hash(&mut all, &mut spare);
            assert!(all == expected, "{len} hashes under {mask:#x}");
        }
    }
}

#[test]
fn readers_beside_the_writer_see_whole_records_that_only_get_newer() {
    const IDS: u64 = 64;
    const ROUNDS: u64 = 4000;
    let hash = IdHash::new(11);
    let set = ActiveSet::with_capacity(IDS as usize, (IDS * ROUNDS * 7 + ROUNDS * 3 + 1) as usize)
        .expect("there is memory");
    let done = AtomicBool::new(false);
    let read = |id: u64| {
        let key = id.to_be_bytes();
        let hit = find(&set, hash, 1, &key)?;
        let round = hit.meta.expiry_ms;
        assert_eq!(
            hit.placement,
            Slice {
                end_ms: round + 1,
                class: round as u8
            }
        );
        assert_eq!(hit.extras.as_deref(), Some([round as u8; 30].as_slice()));
        Some(round)
    };
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                let mut newest = [None; IDS as usize];
                while !done.load(Ordering::Acquire) {
                    for id in 0..IDS {
                        let round = read(id);
                        assert!(round >= newest[id as usize], "went back");
                        newest[id as usize] = round;
                    }
                }
            });
        }
        for round in 0..ROUNDS {
            let placement = Slice {
                end_ms: round + 1,
                class: round as u8,
            };
            let section = set.section(&meta(1, 0, round), placement);
            for id in 0..IDS {
                let key = id.to_be_bytes();
                set.insert(hash.of(1, &key), section, 1, &key, Some(&[round as u8; 30]));
            }
        }
        done.store(true, Ordering::Release);
    });
    assert!((0..IDS).all(|id| read(id) == Some(ROUNDS - 1)));
}
