//! Little memory: the large tables are asked for in a way that can fail, and say so.
//!
//! What can't be promised: small allocations of Rust and all of RocksDB's abort the process when
//! there is no memory. So the limit here is lowered below what a *large* table needs and left
//! above what the rest needs.

use std::path::Path;

use firstseen::{ErrorKind, Options, Resources, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{child, until, week};

/// The bytes of address space the process uses now.
fn used_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').next().unwrap().parse().unwrap();
    pages * 4096
}

fn limit(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(
        Resource::As,
        Rlimit {
            current: bytes,
            maximum,
        },
    )
    .unwrap();
}

fn options(segment_bytes: usize) -> Options {
    let resources = Resources::new()
        .cache_bytes(1 << 20)
        .segment_bytes(segment_bytes);
    Options::new().resources(&resources)
}

/// The child's job. Words: the directory.
pub(crate) fn work(words: &[&str]) {
    let dir = Path::new(words[0]);
    // Threads get their stacks now, and not under the limit.
    let warm = Store::open(dir.join("small"), options(4 << 20)).unwrap();
    assert!(week(&warm).insert("a").unwrap().is_first());
    limit(Some(used_bytes() + (400 << 20)));
    let error = Store::open(dir.join("large"), options(4 << 30)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("memory"), "{error}");
    // The other store is as it was, and the failed one opens when there is memory.
    assert!(week(&warm).insert("a").unwrap().is_duplicate());
    limit(None);
    let store = Store::open(dir.join("large"), options(4 << 20)).unwrap();
    assert!(week(&store).insert("a").unwrap().is_first());
    drop(store);

    // A store that runs meets the limit when it makes its next set.
    let store = Store::open(dir.join("large"), options(1 << 30)).unwrap();
    until("it has its spares", || {
        store.stats().unwrap().active_set_bytes > 0
    });
    limit(Some(used_bytes() + (100 << 20)));
    let ids = week(&store);
    assert!(ids.insert("a").unwrap().is_duplicate());
    let mut failed = None;
    for n in 0..20 {
        assert!(ids.insert(&format!("b{n}")).unwrap().is_first());
        if let Err(error) = store.seal() {
            failed = Some(error);
            break;
        }
    }
    let error = failed.expect("a set of 256 MiB is not to be had");
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(ids.insert("a").unwrap().is_duplicate());
    limit(None);
    until("background work goes on", || store.seal().is_ok());
    assert!(ids.insert("c").unwrap().is_first());
}

#[test]
fn without_memory_for_a_large_table_the_call_fails_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    child::expect_done(&child::run("", &["memory", dir.path().to_str().unwrap()]));
}
