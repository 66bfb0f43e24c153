//! The front tier is for speed only: whatever it lacks, the store is asked.

use firstseen::{Health, Options, Policy, Resources, Scope, Store, days};

use super::{Bring, memory, quiet, week};

fn id(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn insert_range(ids: &Scope, range: std::ops::Range<u32>) -> usize {
    let some: Vec<[u8; 4]> = range.map(id).collect();
    let verdicts = ids.insert_all(&some).unwrap();
    verdicts.iter().filter(|v| v.is_first()).count()
}

/// F1: the bloom filter was empty after a restart, so duplicates passed.
#[test]
fn until_filters_are_back_after_a_restart_the_store_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), quiet()).unwrap();
    let ids = week(&store);
    for part in 0..4 {
        assert_eq!(insert_range(&ids, part * 500..part * 500 + 500), 500);
        store.seal().unwrap();
    }
    assert_eq!(store.health(), Health::Ready);
    drop(ids);
    store.close().unwrap();

    let store = Store::open(dir.path(), quiet()).unwrap();
    let ids = week(&store);
    let runs = store.stats().unwrap().filters.missing;
    assert!(runs > 0);
    let warming = Health::Warming {
        filters_ready: 0,
        filters: runs as usize,
    };
    assert!(
        matches!(store.health(), Health::Warming { .. }),
        "{:?} {warming:?}",
        store.health()
    );
    assert_eq!(insert_range(&ids, 0..2100), 100);
    assert!(store.stats().unwrap().filters.unfiltered > 0);

    store.seal().unwrap();
    let stats = store.stats().unwrap();
    assert_eq!((stats.filters.missing, store.health()), (0, Health::Ready));
    assert!(stats.background.filters_loaded + stats.background.filters_rebuilt >= runs);
    assert_eq!(insert_range(&ids, 0..2200), 100);
}

/// F1: a filter file that is damaged or of another copy is rebuilt, never believed.
#[test]
fn a_damaged_filter_file_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = Store::open(dir.path(), quiet()).unwrap();
        assert_eq!(insert_range(&week(&store), 0..1000), 1000);
        store.compact().unwrap();
    }
    for entry in std::fs::read_dir(dir.path().join("filters")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..].fill(0);
        std::fs::write(path, bytes).unwrap();
    }
    let store = Store::open(dir.path(), quiet()).unwrap();
    store.seal().unwrap();
    assert_eq!(insert_range(&week(&store), 0..1001), 1);
}

/// F2: false positives climbed at capacity; stacked filters became slow. Four times what the
/// filter memory holds, and filters at their weakest, still answer right; rate and count show.
#[test]
fn four_times_over_filter_capacity_answers_stay_right() {
    const PART: u32 = 2000;
    // Eight runs are merged into one of 16,000 ids; there is room for one of four such filters.
    let room = 8 * PART as usize * 5 / 4;
    let resources = Resources::new().filter_bytes(room);
    let options = quiet().resources(&resources).filter_bits_per_id(8);
    let store = Store::in_memory(options).unwrap();
    let ids = week(&store);
    for part in 0..32 {
        assert_eq!(
            insert_range(&ids, part * PART..(part + 1) * PART),
            PART as usize
        );
        store.seal().unwrap();
    }
    let filters = store.stats().unwrap().filters;
    assert!(filters.count > 0 && filters.missing > 0, "{filters:?}");
    assert!(filters.bytes <= room as u64, "{filters:?}");
    assert_eq!(insert_range(&ids, 0..32 * PART), 0);
    assert_eq!(insert_range(&ids, 32 * PART..33 * PART), PART as usize);

    let store = Store::in_memory(quiet().filter_bits_per_id(4)).unwrap();
    let ids = week(&store);
    for part in 0..4 {
        assert_eq!(
            insert_range(&ids, part * PART..(part + 1) * PART),
            PART as usize
        );
        store.seal().unwrap();
    }
    assert_eq!(insert_range(&ids, 4 * PART..12 * PART), 8 * PART as usize);
    assert_eq!(insert_range(&ids, 0..4 * PART), 0);
    let filters = store.stats().unwrap().filters;
    assert!(
        filters.false_positives > 0 && filters.probes > 0,
        "{filters:?}"
    );
    let rate = filters.false_positive_rate();
    assert!(rate > 0.001 && rate < 0.3, "{rate}");
}

/// F2: many runs behind a few sieves cost a new id a few probes, until a restart, which has none;
/// old duplicates are found either way.
#[test]
fn sieves_spare_new_ids_the_filters_of_many_runs() {
    const PART: u32 = 500;
    let dir = tempfile::tempdir().unwrap();
    let probes = |store: &Store, ids: std::ops::Range<u32>| {
        let before = store.stats().unwrap().filters.probes;
        let count = ids.len();
        assert_eq!(insert_range(&week(store), ids), count);
        (store.stats().unwrap().filters.probes - before) as f64 / count as f64
    };
    let store = Store::open(dir.path(), quiet()).unwrap();
    for part in 0..7 {
        assert_eq!(
            insert_range(&week(&store), part * PART..(part + 1) * PART),
            PART as usize
        );
        store.seal().unwrap();
    }
    assert_eq!(store.stats().unwrap().filters.count, 7);
    let behind_sieves = probes(&store, 7 * PART..8 * PART);
    assert!(behind_sieves < 3.0, "{behind_sieves}");
    assert_eq!(insert_range(&week(&store), 0..8 * PART), 0);

    let store = store.crash_and_reopen().unwrap();
    store.seal().unwrap();
    let runs = store.stats().unwrap().filters.count as f64;
    let without = probes(&store, 8 * PART..9 * PART);
    assert!(without >= runs, "{without} probes, {runs} runs");
    assert_eq!(insert_range(&week(&store), 0..9 * PART), 0);
}

/// F3: purging left ids in memory.
#[test]
fn a_forgotten_id_is_new_at_once_in_memory_filter_and_disk() {
    let places: [Bring; 4] = [
        |store| store,
        |store| {
            store.seal().unwrap();
            store
        },
        |store| {
            store.compact().unwrap();
            store
        },
        |store| store.crash_and_reopen().unwrap(),
    ];
    for before in places {
        for after in places {
            let store = memory();
            assert_eq!(insert_range(&week(&store), 0..100), 100);
            let store = before(store);
            assert!(week(&store).forget(&id(7), "a customer asked").unwrap());
            let store = after(store);
            let ids = week(&store);
            assert_eq!(ids.peek(&id(7)).unwrap(), None);
            assert_eq!(ids.scan(..).unwrap().count(), 99);
            assert!(!ids.forget(&id(7), "again").unwrap());
            assert_eq!(insert_range(&ids, 0..100), 1);
            assert_eq!(insert_range(&ids, 0..100), 0);
        }
    }
}

#[test]
fn what_is_not_known_cannot_be_forgotten() {
    let store = memory();
    let ids = week(&store);
    let written = store.stats().unwrap().written;
    assert!(!ids.forget("a", "why").unwrap());
    assert_eq!(store.stats().unwrap().written, written);
    assert!(ids.insert("a").unwrap().is_first());
    super::expect_invalid(ids.forget("a", ""), "reason");
    super::expect_invalid(ids.forget("", "why"), "empty");
    assert!(ids.insert("a").unwrap().is_duplicate());
    assert!(ids.forget("a", "why").unwrap());
    let told: Vec<_> = store
        .audit()
        .unwrap()
        .map(|entry| entry.unwrap().why)
        .collect();
    assert_eq!(told, ["why"]);
    assert_eq!(store.stats().unwrap().forgotten, 1);
}

/// Without filters every answer comes from the exact tiers.
#[test]
fn a_store_without_filters_answers_the_same() {
    let store = Store::in_memory(quiet().filter_bits_per_id(0)).unwrap();
    let ids = week(&store);
    assert_eq!(insert_range(&ids, 0..1000), 1000);
    store.seal().unwrap();
    assert_eq!(insert_range(&ids, 500..1500), 500);
    assert_eq!(store.stats().unwrap().filters.count, 0);
}

/// Which tier answered is counted: set, filters, generations.
#[test]
fn the_tiers_shares_are_counted() {
    let store = Store::in_memory(Options::new().background(false)).unwrap();
    let ids = store.scope("s", Policy::remember(days(1))).unwrap();
    assert_eq!(insert_range(&ids, 0..1000), 1000);
    assert_eq!(insert_range(&ids, 0..1000), 0);
    store.seal().unwrap();
    assert_eq!(insert_range(&ids, 0..1000), 0);
    let tiers = store.stats().unwrap().tiers;
    assert_eq!((tiers.active_set, tiers.generations), (1000, 1000));
    assert_eq!(tiers.filters + tiers.generations_missed, 1000);
}
