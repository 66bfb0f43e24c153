//! Resume points: the next position of a source, in the same commit as what was read before it.

use firstseen::{NextCommit, Position, Store};

use super::{LEVELS, expect_invalid, memory, week};

fn move_to(store: &Store, source: &str, next: impl Into<Position>) -> firstseen::Result<()> {
    let mut batch = store.batch();
    batch.resume_at(source, next);
    batch.commit().map(drop)
}

#[test]
fn a_resume_point_never_goes_back_by_itself() {
    let mut store = memory();
    let point = |store: &Store| store.resume_point("s").unwrap();
    assert_eq!(point(&store), None);
    move_to(&store, "s", 5).unwrap();
    for _ in 0..2 {
        move_to(&store, "s", 5).unwrap();
        expect_invalid(move_to(&store, "s", 4), "back");
        expect_invalid(move_to(&store, "s", &b"9"[..]), "back");
        assert_eq!(point(&store), Some(Position::from(5)));
        store = store.crash_and_reopen().unwrap();
    }
    // Nothing else of such a batch is recorded.
    let ids = week(&store);
    let mut batch = store.batch();
    batch.once(&ids, "a");
    batch.resume_at("s", 4);
    expect_invalid(batch.commit(), "back");
    assert_eq!(ids.peek("a").unwrap(), None);
}

#[test]
fn positions_may_be_bytes_and_sources_do_not_meet() {
    let store = memory();
    move_to(&store, "a", &b"0001:f"[..]).unwrap();
    move_to(&store, "b", 7).unwrap();
    let mut batch = store.batch();
    batch
        .resume_at("a", b"0002:0".to_vec())
        .resume_at("b", 8)
        .resume_at("b", 9);
    let _ = batch.commit().unwrap();
    let point = |source| store.resume_point(source).unwrap().unwrap();
    assert_eq!(point("a").as_bytes(), Some(&b"0002:0"[..]));
    assert_eq!(point("b").as_u64(), Some(9));
    expect_invalid(move_to(&store, "a", &b"0001:z"[..]), "back");
    expect_invalid(move_to(&store, "", 1), "source");
    expect_invalid(move_to(&store, &"x".repeat(1025), 1), "source");
    expect_invalid(move_to(&store, "c", vec![0; 4097]), "position");
}

/// `rewind`, the only way back, wants a reason.
#[test]
fn a_rewind_goes_back_and_wants_a_reason() {
    let store = memory();
    move_to(&store, "s", 100).unwrap();
    expect_invalid(store.rewind("s", 10, ""), "reason");
    store.rewind("s", 10, "reprocess the morning").unwrap();
    assert_eq!(store.resume_point("s").unwrap(), Some(Position::from(10)));
    move_to(&store, "s", 11).unwrap();
    // Also to another kind of position, and for a source never read.
    store.rewind("s", &b"x"[..], "the source changed").unwrap();
    store.rewind("new", 3, "start here").unwrap();
    drop(store.sync());
    let store = store.crash_and_reopen().unwrap();
    assert_eq!(
        store.resume_point("s").unwrap(),
        Some(Position::from(&b"x"[..]))
    );
    assert_eq!(store.resume_point("new").unwrap(), Some(Position::from(3)));
}

#[test]
fn position_and_ids_share_their_fate() {
    for level in LEVELS {
        let store = memory();
        let ids = week(&store);
        let mut batch = store.batch();
        batch.durability(level);
        batch.once(&ids, "a");
        batch.resume_at("s", 1);
        store.fail_next_commit(NextCommit::NotRecorded).unwrap();
        assert!(batch.commit().is_err());
        assert_eq!(
            (ids.peek("a").unwrap(), store.resume_point("s").unwrap()),
            (None, None)
        );
        let _ = batch.commit().unwrap();
        drop((ids, batch));
        let store = store.crash_and_reopen().unwrap();
        assert!(week(&store).insert("a").unwrap().is_duplicate());
        assert_eq!(store.resume_point("s").unwrap(), Some(Position::from(1)));
    }
}
