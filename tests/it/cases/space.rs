//! Space comes back, memory is bounded, and expiry never blocks those who insert.

use std::path::Path;

use firstseen::{Clock, ManualClock, Options, Policy, Resources, Store};

use super::{ms, now, quiet, secs};

fn directory_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap());
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => directory_bytes(&entry.path()),
        Ok(meta) => meta.len(),
        // It was just removed.
        Err(_) => 0,
    });
    bytes.sum()
}

/// R4: disk grew to twice the cap; range deletes freed nothing.
#[test]
fn steady_inserts_for_five_retentions_keep_the_disk_bounded() {
    const RATE: u64 = 2000;
    const RETENTION: u64 = 32;
    // Slices are an eighth of the class's span, here 65.5 s. Beside the ids that live, one slice
    // waits to end, and one is there twice while its runs are merged. A 16-byte id takes at most
    // 24 bytes with its share of pages and files.
    const SLICE: u64 = 9;
    const BOUND: u64 = RATE * (RETENTION + 2 * SLICE) * 24;
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let options = quiet()
        .clock(Clock::Manual(clock.clone()))
        .wal_bytes_max(1 << 20);
    let store = Store::open(dir.path(), options).unwrap();
    let ids = store.scope("s", Policy::remember(secs(RETENTION))).unwrap();
    let mut next: u128 = 0;
    let (mut most, mut most_in_directory) = (0, 0);
    for second in 0..5 * RETENTION {
        let some: Vec<[u8; 16]> = (next..)
            .take(RATE as usize)
            .map(u128::to_be_bytes)
            .collect();
        next += u128::from(RATE);
        let verdicts = ids.insert_all(&some).unwrap();
        assert!(verdicts.iter().all(|v| v.is_first()));
        clock.advance(secs(1));
        if second % 2 == 0 {
            store.seal().unwrap();
        }
        let stats = store.stats().unwrap();
        most = most.max(stats.disk_bytes);
        most_in_directory = most_in_directory.max(directory_bytes(dir.path()));
        assert!(stats.generations.len() <= 9, "{}", stats.generations.len());
        assert!(stats.live_ids_estimate <= RATE * (RETENTION + 2 * SLICE));
    }
    assert!(most <= BOUND, "{most} bytes of runs, more than {BOUND}");
    // Beside the runs: a write-ahead log of a few segments, and RocksDB's own small files.
    let bound = BOUND + (2 << 20);
    assert!(
        most_in_directory <= bound,
        "{most_in_directory} bytes, more than {bound}"
    );
    assert!(
        most >= RATE * RETENTION / 2 * 16,
        "{most}: was anything stored?"
    );
    clock.advance(secs(2 * RETENTION));
    store.compact().unwrap();
    assert_eq!(store.stats().unwrap().disk_bytes / 10_000, 0);
}

/// R5: cleaning 27,000 rows blocked intake for 20 s.
#[test]
fn inserts_stay_fast_while_millions_expire() {
    const IDS: u64 = 2_000_000;
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let options = Options::new().clock(Clock::Manual(clock.clone()));
    let store = Store::open(dir.path(), options).unwrap();
    let ids = store.scope("s", Policy::remember(secs(60))).unwrap();
    for chunk in 0..IDS / 1000 {
        let from = u128::from(chunk) * 1000;
        let some: Vec<[u8; 16]> = (from..from + 1000).map(u128::to_be_bytes).collect();
        let _ = ids.insert_all(&some).unwrap();
        clock.advance(ms(10));
    }
    store.seal().unwrap();
    let live = store.stats().unwrap().live_ids_estimate;
    assert!(live >= IDS, "{live}");
    clock.advance(secs(120));
    let mut times = Vec::new();
    let began = now();
    let mut n = 0_u128;
    while store.stats().unwrap().background.drops < 3 || n < 2000 {
        let call = now();
        let verdict = ids.insert(&(u128::MAX - n).to_be_bytes()).unwrap();
        times.push(call.elapsed());
        assert!(verdict.is_first());
        n += 1;
        assert!(began.elapsed() < secs(60), "nothing was dropped");
    }
    assert!(ids.insert(&0_u128.to_be_bytes()).unwrap().is_first());
    times.sort_unstable();
    let p99 = times[times.len() * 99 / 100];
    assert!(p99 < ms(50), "p99 of {n} inserts: {p99:?}");
}

/// R7: memory grew with the number of ids.
#[test]
fn memory_is_bounded_at_ten_times_the_ids() {
    let resources = Resources::new()
        .segment_bytes(4 << 20)
        .filter_bytes(256 << 10);
    let options = Options::new().resources(&resources);
    let store = Store::in_memory(options).unwrap();
    let ids = store.scope("s", Policy::remember(secs(3600))).unwrap();
    for chunk in 0..1000 {
        let from = chunk * 500;
        let some: Vec<[u8; 16]> = (from..from + 500).map(u128::to_be_bytes).collect();
        assert!(ids.insert_all(&some).unwrap().iter().all(|v| v.is_first()));
    }
    let stats = store.stats().unwrap();
    assert!(stats.background.seals > 3, "{:?}", stats.background);
    // The budget and as much again for what is made ahead.
    assert!(
        stats.active_set_bytes <= 8 << 20,
        "{}",
        stats.active_set_bytes
    );
    assert!(stats.filters.bytes <= 256 << 10, "{:?}", stats.filters);
    for id in [0_u128, 250_000, 499_999] {
        assert!(ids.insert(&id.to_be_bytes()).unwrap().is_duplicate());
    }
}
