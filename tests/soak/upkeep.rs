//! What goes on beside the lanes: health, statistics, seals by request, and checkpoints that are
//! opened and compared.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firstseen::{Health, Options, Resources};

use super::book::Book;
use super::fail::{Kind, fail, must};
use super::lanes::{LANES, Open, options};
use super::settle;

/// Work until it is told to stop; a step is some 100 ms.
#[expect(clippy::disallowed_methods, reason = "looks come now and then")]
pub(crate) fn work(open: &Open, place: &Path, book: &mut Book, stop: &AtomicBool) {
    for step in 1_u64.. {
        std::thread::sleep(Duration::from_millis(100));
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if let Health::Degraded(why) = open.store.health() {
            fail(Kind::Wrong, &format!("degraded: {why}"));
        }
        match step {
            step if step % 150 == 20 => {
                copy(open, place);
                book.head.others[0] += 1;
            }
            step if step % 70 == 0 => must("a seal", open.store.seal()),
            step if step % 10 == 0 => {
                let stats = must("stats", open.store.stats());
                book.head.others[1] = stats.generations.len() as u64;
                if stats.background.errors > 0 {
                    fail(Kind::Wrong, "a failure of RocksDB's background work");
                }
            }
            _ => {}
        }
        book.head.calls += 1;
        book.save_head();
    }
}

/// Syncs a small file again and again, for as long as the process lives: a commit that is synced
/// can't be faster than the disk, which other programs use too.
#[expect(clippy::disallowed_methods, reason = "the disk's own time is measured")]
pub(crate) fn sync_a_file(path: &Path, mut book: Book) {
    let file = std::fs::File::create(path).expect("a file to sync");
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let began = std::time::Instant::now();
        file.write_all_at(&[1; 512], 0).expect("a file takes bytes");
        file.sync_data().expect("a file is synced");
        let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        book.head.stall_us = book.head.stall_us.max(us);
        book.save_head();
    }
}

/// A checkpoint is a store of one moment: its sums fit each other, and its resume points lie
/// between those before and after.
fn copy(open: &Open, place: &Path) {
    let dir = place.join("copy");
    let points = |open: &Open| {
        LANES.map(|lane| {
            let point = must("a resume point", open.store.resume_point(lane.name));
            point.and_then(|p| p.as_u64()).unwrap_or(0)
        })
    };
    let before = points(open);
    must("a checkpoint", open.store.checkpoint(&dir));
    let after = points(open);
    let copy = must("the copy", Open::new(&dir, copy_options()));
    let copied = points(&copy);
    for (number, lane) in LANES.iter().enumerate() {
        if !(before[number]..=after[number]).contains(&copied[number]) {
            let text = format!("copy: {} at {}", lane.name, copied[number]);
            fail(Kind::Lost, &text);
        }
        settle::check_counters(&copy.counters, number, copied[number]);
    }
    settle::check_money(&copy.accounts);
    let Open { store, .. } = copy;
    must("closing the copy", store.close());
    std::fs::remove_dir_all(&dir).expect("the copy can be removed");
}

/// A copy shares nothing with the store, and has little.
fn copy_options() -> Options {
    let resources = Resources::new()
        .segment_bytes(8 << 20)
        .cache_bytes(4 << 20)
        .filter_bytes(8 << 20)
        .memtable_bytes(8 << 20);
    options().resources(&resources)
}
