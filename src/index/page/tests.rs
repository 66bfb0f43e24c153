//! Pages against a model, against golden bytes and against damage.

use super::*;
use crate::index::hash::{IdHash, colliding_ids};
use crate::index::record::{FOR_EVER_MS, State};

const SLICE: Slice = Slice {
    end_ms: 1_000_000_000,
    class: 3,
};
const WIDTH_MS: u64 = 3_600_000;
const HASH_SEED: u64 = 42;

type Record = (Meta, Vec<u8>, Option<Vec<u8>>);

fn seen(scope: u16, expiry_ms: u64) -> Meta {
    let stamp = Stamp { scope, version: 1 };
    Meta {
        stamp,
        state: State::Seen,
        over: false,
        expiry_ms,
    }
}

fn in_hash_order(mut records: Vec<Record>) -> Vec<Record> {
    let ids = IdHash::new(HASH_SEED);
    records.sort_by_key(|(meta, id, _)| ids.of(meta.stamp.scope, id));
    records
}

fn build(slice: Slice, records: &[Record]) -> Vec<u8> {
    let mut builder = PageBuilder::new(slice, WIDTH_MS);
    let mut out = b"before".to_vec();
    // Twice, so that a builder that keeps something of its last page is found out.
    for _ in 0..2 {
        out.truncate(6);
        for (meta, id, extras) in records {
            builder.push(meta, id, extras.as_deref());
        }
        assert_eq!(builder.len(), records.len());
        builder.finish(&mut out);
    }
    out.split_off(6)
}

fn check_reads_back(slice: Slice, records: &[Record], bytes: &[u8]) {
    let ids = IdHash::new(HASH_SEED);
    let page = Page::parse(bytes, slice).expect("just built");
    assert_eq!(page.len(), records.len());
    for (i, (meta, id, extras)) in records.iter().enumerate() {
        let expected = PageRecord {
            meta: *meta,
            id,
            extras: extras.as_deref(),
        };
        assert_eq!(page.get(i), expected, "record {i}");
        let scope = meta.stamp.scope;
        let hit = page
            .find(&ids, ids.of(scope, id), scope, id)
            .expect("is in the page");
        assert_eq!(
            (hit.meta, hit.placement, hit.extras.as_deref()),
            (*meta, slice, extras.as_deref())
        );
        let other = [id.as_slice(), b"?"].concat();
        assert_eq!(page.find(&ids, ids.of(scope, &other), scope, &other), None);
        assert_eq!(page.find(&ids, ids.of(60_000, id), 60_000, id), None);
    }
    for edge in [0, u64::MAX] {
        assert_eq!(page.find(&ids, edge, 1, b"nobody"), None);
    }
}

fn plain(count: usize, slice: Slice) -> Vec<Record> {
    let mut rng = fastrand::Rng::with_seed(9);
    let record = |_| {
        let id: [u8; 16] = std::array::from_fn(|_| rng.u8(..));
        let early = if slice.end_ms == FOR_EVER_MS {
            0
        } else {
            rng.u64(..WIDTH_MS)
        };
        (seen(7, slice.end_ms - early), id.to_vec(), None)
    };
    in_hash_order((0..count).map(record).collect())
}

fn random(rng: &mut fastrand::Rng) -> Vec<Record> {
    let count = rng.usize(1..1500);
    let (lengths, scopes) = (rng.usize(1..40), rng.u16(1..400));
    let (odd, rich) = (rng.f32() * rng.f32(), rng.f32() * rng.f32());
    let mut records = std::collections::HashMap::new();
    for n in 0..count {
        let mut meta = seen(rng.u16(..scopes), SLICE.end_ms - rng.u64(..WIDTH_MS));
        if rng.f32() < odd {
            meta.over = rng.bool();
            meta.state = if rng.bool() {
                State::Forgotten
            } else {
                State::Seen
            };
            let outside = [0, 5, SLICE.end_ms - WIDTH_MS, SLICE.end_ms + 1, FOR_EVER_MS];
            meta.expiry_ms = outside[rng.usize(..outside.len())];
        }
        let mut id = n.to_le_bytes().to_vec();
        id.resize(2 + rng.usize(..lengths), 7);
        let extras = (rng.f32() < rich).then(|| vec![n as u8; rng.usize(..50)]);
        records.insert((meta.stamp.scope, id), (meta, extras));
    }
    in_hash_order(
        records
            .into_iter()
            .map(|((_, id), (meta, extras))| (meta, id, extras))
            .collect(),
    )
}

#[test]
fn random_pages_read_back() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..60 {
        let records = random(&mut rng);
        check_reads_back(SLICE, &records, &build(SLICE, &records));
    }
}

#[test]
fn plain_pages_cost_the_id_and_its_time() {
    for count in [0, 1, 2, 3, 1024, 2000] {
        let records = plain(count, SLICE);
        let bytes = build(SLICE, &records);
        check_reads_back(SLICE, &records, &bytes);
        if count > 3 {
            assert_eq!(bytes.len(), 27 + 19 * count);
        }
    }
}

#[test]
fn for_ever_costs_no_time() {
    let slice = Slice {
        end_ms: FOR_EVER_MS,
        class: 0,
    };
    let records = plain(1000, slice);
    let bytes = build(slice, &records);
    assert_eq!(bytes.len(), 27 + 16 * 1000);
    check_reads_back(slice, &records, &bytes);
}

#[test]
fn one_special_record_leaves_the_others_plain() {
    let mut records = plain(1000, SLICE);
    records[500].0 = Meta {
        over: true,
        expiry_ms: FOR_EVER_MS,
        ..records[500].0
    };
    let bytes = build(SLICE, &records);
    assert_eq!(bytes.len(), 27 + 19 * 1000 + 13);
    check_reads_back(SLICE, &records, &bytes);
}

#[test]
fn equal_hashes_are_told_apart() {
    for neighbours in [0, 1, 700] {
        let (a, b) = colliding_ids(HASH_SEED, 0x1234_5678);
        let mut records = plain(neighbours, SLICE);
        records.push((seen(0, SLICE.end_ms - 1), a.to_vec(), None));
        records.push((seen(0, SLICE.end_ms - 2), b.to_vec(), Some(b"b".to_vec())));
        for _ in 0..2 {
            records.reverse();
            records = in_hash_order(records);
            check_reads_back(SLICE, &records, &build(SLICE, &records));
        }
        records.retain(|(_, id, _)| *id != b);
        let bytes = build(SLICE, &records);
        let page = Page::parse(&bytes, SLICE).expect("just built");
        let ids = IdHash::new(HASH_SEED);
        assert_eq!(page.find(&ids, ids.of(0, &b), 0, &b), None);
    }
}

#[test]
fn page_of_a_hash_is_monotone_and_in_range() {
    let of_ids = |ids| pages_for(ids, 0);
    assert_eq!([0, 1, 256, 257, 1024].map(of_ids), [1, 1, 1, 2, 4]);
    assert_eq!(of_ids(u64::MAX), u32::MAX);
    // 256 ids with 4 KiB each are a MiB: pages of 64 KiB.
    assert_eq!(pages_for(256, 256 * 4096), 16);
    assert_eq!(pages_for(256, 256 * 100), 1);
    for pages in [1, 2, 3, 1000, u32::MAX] {
        assert_eq!(
            (page_of(0, pages), page_of(u64::MAX, pages)),
            (0, pages - 1)
        );
        let mut last = 0;
        for step in 0..10_000 {
            let page = page_of(step * (u64::MAX / 10_000), pages);
            assert!(page >= last);
            last = page;
        }
    }
    assert_eq!(page_of(1 << 63, 2), 1);
    assert_eq!(page_of((1 << 63) - 1, 2), 0);
}

#[test]
fn golden_bytes_of_a_plain_page() {
    let slice = Slice {
        end_ms: 0x10_0000,
        class: 1,
    };
    let records: Vec<Record> = vec![
        (seen(0x0102, 0x10_0000 - 0x0304), b"abcd".to_vec(), None),
        (seen(0x0102, 0x10_0000), b"efgh".to_vec(), None),
    ];
    let mut expected = vec![
        1, 0, 0, 2, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    expected.extend_from_slice(&[0x02, 0x01, 1]);
    expected.extend_from_slice(b"abcdefgh");
    expected.extend_from_slice(&[0x04, 0x03, 0, 0]);
    assert_eq!(build(slice, &records), expected);
}

#[test]
fn golden_bytes_of_a_mixed_page() {
    let slice = Slice {
        end_ms: 0x10_0000,
        class: 1,
    };
    let forgotten = Meta {
        state: State::Forgotten,
        over: true,
        ..seen(2, 0x0807_0605_0403_0201)
    };
    let records: Vec<Record> = vec![
        (seen(1, 0x10_0000 - 9), b"a".to_vec(), None),
        (forgotten, b"bcd".to_vec(), Some(b"xy".to_vec())),
    ];
    let mut expected = vec![
        1, 1, 1, 1, 2, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0,
    ];
    expected.extend_from_slice(&[1, 0, 1, 2, 0, 1]);
    expected.extend_from_slice(&[1, 4]);
    expected.extend_from_slice(b"abcd");
    expected.extend_from_slice(&[9, 0]);
    expected.extend_from_slice(&[0, 1]);
    expected.extend_from_slice(&[1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8]);
    expected.extend_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0]);
    expected.extend_from_slice(b"xy");
    assert_eq!(build(slice, &records), expected);
}

/// Reads everything a page that parses offers; a panic fails the test.
fn read_all(bytes: &[u8]) -> bool {
    let ids = IdHash::new(HASH_SEED);
    let Ok(page) = Page::parse(bytes, SLICE) else {
        return false;
    };
    for i in 0..page.len() {
        let record = page.get(i);
        let scope = record.meta.stamp.scope;
        page.find(&ids, ids.of(scope, record.id), scope, record.id);
    }
    page.find(&ids, 1 << 63, 1, b"nobody");
    true
}

#[test]
fn damage_never_panics_and_cuts_are_refused() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..20 {
        let mut records = random(&mut rng);
        records.truncate(30);
        let good = build(SLICE, &records);
        assert!(read_all(&good));
        for len in 0..good.len() {
            assert!(!read_all(&good[..len]), "cut at {len}");
        }
        for _ in 0..2000 {
            let mut bad = good.clone();
            for _ in 0..rng.usize(1..4) {
                let at = if rng.bool() {
                    rng.usize(..HEAD_BYTES)
                } else {
                    rng.usize(..bad.len())
                };
                bad[at] = if rng.bool() { rng.u8(..) } else { rng.u8(..3) };
            }
            read_all(&bad);
        }
    }
}

#[test]
fn random_bytes_never_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut parsed = 0;
    for _ in 0..200_000 {
        let mut bytes: Vec<u8> = (0..rng.usize(..120)).map(|_| rng.u8(..)).collect();
        // A head of small numbers gets past the first checks now and then.
        for byte in bytes.iter_mut().take(HEAD_BYTES) {
            *byte = if rng.u8(..4) == 0 { rng.u8(..3) } else { 0 };
        }
        if let Some(format) = bytes.first_mut() {
            *format = FORMAT;
        }
        parsed += usize::from(read_all(&bytes));
    }
    assert!(parsed > 0, "the test never got past the head");
}

#[test]
fn huge_counts_are_refused_at_once() {
    let mut bytes = build(SLICE, &plain(1, SLICE));
    bytes[4..8].fill(0xFF);
    assert!(Page::parse(&bytes, SLICE).is_err());
    bytes[8..12].fill(0);
    assert!(Page::parse(&bytes, SLICE).is_err());
}

#[test]
fn ids_that_end_where_they_begin_are_damage() {
    let page = |ends: [u8; 2]| {
        let mut bytes = vec![FORMAT, 1, 0, 0];
        for number in [2_u32, 2, 1, 0, 0] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([7, 0, 0]);
        bytes.extend(ends);
        bytes.extend(b"ab");
        let slice = Slice {
            end_ms: 100,
            class: 0,
        };
        Page::parse(&bytes, slice).map(|page| page.len())
    };
    assert_eq!(page([1, 2]), Ok(2));
    for ends in [[0, 2], [2, 2], [2, 1]] {
        assert!(page(ends).is_err(), "{ends:?}");
    }
}
