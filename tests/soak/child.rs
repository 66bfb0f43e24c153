//! The process that works: opens the store, compares it with the book, lets all threads work for
//! some seconds, closes, and begins again, until it is told to stop or killed.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::book::Book;
use super::fail::{Broken, Kind, fail, must};
use super::lane::Worker;
use super::lanes::{LANES, Open, options};
use super::{hot, settle, upkeep};

/// The parts of the book behind the lanes'.
pub(crate) const HOT: usize = LANES.len();
pub(crate) const UPKEEP: usize = LANES.len() + 1;
pub(crate) const CHILD: usize = LANES.len() + 2;
pub(crate) const DISK: usize = LANES.len() + 3;
pub(crate) const PARTS: usize = LANES.len() + 4;

/// Words: the directory, the seed, how it is broken.
pub(crate) fn work(words: &[&str]) {
    let place = Path::new(words[0]);
    let seed = words[1].parse().expect("a number");
    let broken = Broken::named(words[2]);
    // A thread that panics ends the process.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        hook(panic);
        fail(Kind::Wrong, "a panic");
    }));
    static ENDING: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        // The parent closes the pipe when it is time, or when it is gone.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        ENDING.store(true, Ordering::Relaxed);
    });
    let disk = Book::head_only(&place.join("book"), DISK);
    let probe = place.join("probe");
    std::thread::spawn(move || upkeep::sync_a_file(&probe, disk));
    let _ = std::fs::remove_dir_all(place.join("copy"));
    let mut counts = Book::head_only(&place.join("book"), CHILD);
    while !ENDING.load(Ordering::Relaxed) {
        let open = must("opening", Open::new(&place.join("store"), options()));
        settle::check_money(&open.accounts);
        live(&open, place, seed, broken, &ENDING);
        settle::check_money(&open.accounts);
        let store = open.store.clone();
        drop(open);
        must("closing", store.close());
        counts.head.next += 1;
        counts.save_head();
    }
    let open = must("opening", Open::new(&place.join("store"), options()));
    for number in 0..LANES.len() {
        let mut book = Book::open(&place.join("book"), number);
        settle::settle(&open, seed, number, &mut book);
    }
    must("closing", open.store.close());
}

/// From an opening to a closing.
#[expect(clippy::disallowed_methods, reason = "a store lives for some seconds")]
fn live(open: &Open, place: &Path, seed: u64, broken: Broken, ending: &AtomicBool) {
    let path = place.join("book");
    let stop = AtomicBool::new(false);
    let mut workers: Vec<Worker<'_>> = (0..LANES.len())
        .map(|number| Worker {
            open,
            number,
            seed,
            book: Book::open(&path, number),
            broken: if number == 1 { broken } else { Broken::Not },
            random: fastrand::Rng::new(),
            flight: VecDeque::new(),
        })
        .collect();
    for worker in &mut workers {
        settle::settle(open, seed, worker.number, &mut worker.book);
    }
    let (mut hot, mut upkeep) = (Book::head_only(&path, HOT), Book::head_only(&path, UPKEEP));
    std::thread::scope(|s| {
        for worker in &mut workers {
            let stop = &stop;
            s.spawn(move || worker.work(stop));
        }
        s.spawn(|| hot::work(open, &mut hot, &stop));
        s.spawn(|| upkeep::work(open, place, &mut upkeep, &stop));
        let steps = fastrand::u32(100..250);
        for _ in 0..steps {
            std::thread::sleep(Duration::from_millis(100));
            if ending.load(Ordering::Relaxed) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
