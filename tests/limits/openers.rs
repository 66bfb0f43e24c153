//! More than one opener: one has the store, the others are told who.

use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use firstseen::{ErrorKind, Store};

use super::{child, nap, now, small, week};

/// The child's job. Words: the directory, and for how many milliseconds to keep it.
pub(crate) fn work(words: &[&str]) {
    match Store::open(Path::new(words[0]), small()) {
        Ok(store) => {
            let _ = week(&store).insert("by the child").unwrap();
            println!("@opened");
            nap(words[1].parse().unwrap());
        }
        Err(error) => println!("@{:?}: {error}", error.kind()),
    }
}

#[test]
fn of_many_openers_at_once_one_has_the_store() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let start = Barrier::new(8);
        let opened: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        let opened = Store::open(dir.path(), small());
                        // Nobody gives it up before all have tried.
                        start.wait();
                        opened
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let refused = opened.iter().filter_map(|o| o.as_ref().err());
        let refused: Vec<_> = refused.collect();
        assert_eq!(refused.len(), 7);
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::AlreadyOpen, "{error}");
            assert!(
                error.to_string().contains(&std::process::id().to_string()),
                "{error}"
            );
        }
    }
}

#[test]
fn another_process_is_told_who_has_it_and_gets_it_when_it_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), small()).unwrap();
    let job = ["open", dir.path().to_str().unwrap(), "0"];
    let began = now();
    let said = child::expect_done(&child::run("", &job));
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "the retries are bounded"
    );
    let owner = format!("by process {}", std::process::id());
    assert!(
        said.contains("@AlreadyOpen") && said.contains(&owner),
        "{said}"
    );
    store.close().unwrap();
    let said = child::expect_done(&child::run("", &job));
    assert!(said.contains("@opened"), "{said}");
    let store = Store::open(dir.path(), small()).unwrap();
    assert!(week(&store).insert("by the child").unwrap().is_duplicate());
}

/// An opener that is a moment too early waits for the one that is just ending.
#[test]
fn an_owner_that_is_just_ending_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), small()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            nap(60);
            drop(store);
        });
        assert!(Store::open(dir.path(), small()).is_ok());
    });
}
