//! A claimed id as all other calls meet it, wherever its older records lie.

use firstseen::{Durability, Error, ErrorKind, Id, IdState, Policy, Recorded, Verdict};

use super::super::{expect_error, memory, put_once, secs, timed};
use super::{begin, is_in_progress, jobs, policy, take};

#[test]
fn a_claimed_id_is_in_progress_for_every_call() {
    let store = memory();
    let (jobs, rows) = (jobs(&store), store.table("rows").unwrap());
    let mut claim = begin(&jobs, "a");
    is_in_progress(&jobs.insert("a").unwrap());
    is_in_progress(&jobs.insert_all(["b", "a"]).unwrap()[1]);
    is_in_progress(&put_once(&store, &jobs, &rows, "a").unwrap());
    is_in_progress(&jobs.claim("a").unwrap());
    let once = jobs.once("a", |_| -> Result<(), Error> { panic!("it ran") });
    is_in_progress(&once.unwrap());
    let mut batch = store.batch();
    batch.once(&jobs, "a");
    is_in_progress(&batch.hold().unwrap()[0]);
    drop(batch);
    // No resume point passes it.
    let mut batch = store.batch();
    batch.once(&jobs, "a");
    batch.resume_at("orders/3", 9);
    let error = expect_error(batch.commit(), ErrorKind::Undecided, Recorded::No);
    is_in_progress(&error.verdicts().unwrap()[0]);
    assert_eq!(store.resume_point("orders/3").unwrap(), None);
    let seen = jobs.peek("a").unwrap().unwrap();
    assert_eq!((seen.state(), seen.attempt()), (IdState::Claimed, Some(1)));
    claim.complete("", |_| {}).unwrap();
    assert!(batch.commit().unwrap()[0].is_duplicate());
}

/// Other scopes and ids are not concerned.
#[test]
fn a_claim_keeps_only_its_own_id() {
    let store = memory();
    let jobs = jobs(&store);
    let _claim = begin(&jobs, "a");
    let other = store.scope("other", policy()).unwrap();
    assert!(other.insert("a").unwrap().is_first());
    assert!(jobs.insert("b").unwrap().is_first());
    assert!(jobs.insert("b").unwrap().is_duplicate());
}

/// An id that is free again is first seen by whoever comes, and its claim is gone with that.
#[test]
fn any_call_may_take_over_what_is_free() {
    let (store, clock) = timed();
    let (jobs, rows) = (jobs(&store), store.table("rows").unwrap());
    for id in ["a", "b", "c", "d"] {
        drop(begin(&jobs, id));
    }
    clock.advance(secs(30));
    assert!(jobs.insert("a").unwrap().is_first());
    assert!(put_once(&store, &jobs, &rows, "b").unwrap().is_first());
    let once = jobs.once("c", |tx| {
        tx.put(&rows, "c", "done");
        Ok::<_, Error>(())
    });
    assert!(once.unwrap().is_first());
    let mut batch = store.batch();
    batch.once(&jobs, "d").put(&rows, "d", "done");
    batch.durability(Durability::Buffered);
    assert!(batch.commit().unwrap()[0].is_first());
    assert!(jobs.claims().unwrap().is_empty());
    for id in ["a", "b", "c", "d"] {
        let seen = jobs.peek(id).unwrap().unwrap();
        assert_eq!((seen.state(), seen.attempt()), (IdState::Done, Some(2)));
        assert!(jobs.claim(id).unwrap().is_duplicate());
    }
}

/// A closure or batch that declines leaves a free id's attempts alone.
#[test]
fn what_is_declined_or_refused_keeps_the_attempts() {
    let store = memory();
    let (jobs, stock) = (jobs(&store), store.guarded_table("stock").unwrap());
    drop(take(&jobs, "a"));
    let mut batch = store.batch();
    batch.once(&jobs, "a").decline();
    assert_eq!(batch.commit().unwrap()[..], [Verdict::Declined(())]);
    batch.once(&jobs, "a").add(&stock, "tea", -1, 0..);
    assert!(matches!(batch.commit().unwrap()[0], Verdict::Refused(_)));
    assert_eq!(begin(&jobs, "a").attempt(), 2);
}

/// A completed claim supersedes what an earlier life of the id left, in memory and on disk.
#[test]
fn a_completion_outranks_every_older_record() {
    let (store, clock) = timed();
    let minute = Policy::remember(secs(60)).lease(secs(10)).wait(secs(0));
    let jobs = store.scope("jobs", minute).unwrap();
    let upkeep = [
        |_: &firstseen::Store| {},
        |s: &firstseen::Store| s.seal().unwrap(),
        |s: &firstseen::Store| s.compact().unwrap(),
    ];
    for round in 0..9 {
        assert_eq!(begin(&jobs, "a").attempt(), 1, "round {round}");
        upkeep[round % 3](&store);
        clock.advance(secs(10));
        begin(&jobs, "a")
            .complete(round.to_string(), |_| {})
            .unwrap();
        upkeep[round / 3](&store);
        let Verdict::Duplicate(seen) = jobs.insert("a").unwrap() else {
            panic!("round {round}: not recorded");
        };
        assert_eq!(seen.result(), Some(round.to_string().as_bytes()));
        assert_eq!(seen.attempt(), Some(2));
        clock.advance(secs(60));
    }
}

#[test]
fn a_claim_can_be_forgotten() {
    let store = memory();
    let jobs = jobs(&store);
    let mut claim = begin(&jobs, "a");
    assert!(jobs.forget("a", "the customer cancelled").unwrap());
    assert!(!jobs.forget("a", "the customer cancelled").unwrap());
    expect_error(
        claim.complete("", |_| {}),
        ErrorKind::LeaseLost,
        Recorded::No,
    );
    assert_eq!(begin(&jobs, "a").attempt(), 1);
}

/// During a migration of keys a claim under the old form counts.
#[test]
fn a_claim_under_an_older_id_is_the_same_one() {
    let (store, clock) = timed();
    let jobs = jobs(&store);
    drop(begin(&jobs, "old"));
    let id = Id::new("new").also("old");
    is_in_progress(&jobs.claim(id).unwrap());
    is_in_progress(&jobs.insert(id).unwrap());
    clock.advance(secs(30));
    let mut claim = jobs.claim(id).unwrap().first().unwrap();
    assert_eq!(claim.attempt(), 2);
    assert_eq!(jobs.claims().unwrap().len(), 1);
    claim.complete("", |_| {}).unwrap();
    assert!(jobs.insert("new").unwrap().is_duplicate());
    assert!(jobs.claims().unwrap().is_empty());
}

/// Claims end together, with rows and a resume point, in one commit.
#[test]
fn a_batch_completes_claims_with_its_rows() {
    let store = memory();
    let (jobs, rows) = (jobs(&store), store.table("rows").unwrap());
    let claims = ["a", "b"].map(|id| begin(&jobs, id));
    let mut batch = store.batch();
    for claim in &claims {
        batch
            .complete(claim, "ok")
            .put(&rows, claim.token().id(), "x");
    }
    batch.once(&jobs, "a");
    batch.resume_at("jobs/0", 2);
    let verdicts = batch.commit().unwrap();
    assert!(verdicts[0].is_first() && verdicts[1].is_first() && verdicts[2].is_duplicate());
    assert!(rows.get("a").unwrap().is_some() && rows.get("b").unwrap().is_some());
    batch.complete(&claims[0], "twice");
    assert_eq!(batch.commit().unwrap()[..], [Verdict::LeaseLost]);
    let other = memory();
    let mut batch = other.batch();
    batch.complete(&claims[0], "elsewhere");
    expect_error(batch.commit(), ErrorKind::ForeignHandle, Recorded::No);
}

/// D3, for claims: of many threads exactly one at a time has the id.
#[test]
fn of_many_threads_one_at_a_time_has_the_claim() {
    let store = memory();
    let jobs = jobs(&store);
    let rows = store.guarded_table("rows").unwrap();
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                for round in 0..40 {
                    let id = format!("job-{}", round % 10);
                    if let Verdict::First(mut claim) = jobs.claim(&id).unwrap() {
                        claim.start();
                        match claim.attempt() % 3 {
                            0 => claim.release().unwrap(),
                            1 => claim.fail(firstseen::Failure::Retryable, "").unwrap(),
                            _ => claim
                                .complete("", |w| {
                                    w.add(&rows, &id, 1, ..);
                                })
                                .unwrap(),
                        }
                    }
                }
            });
        }
    });
    for n in 0..10 {
        let id = format!("job-{n}");
        assert_eq!(super::super::counter(&rows, &id), Some(1), "{id}");
        assert_eq!(jobs.peek(&id).unwrap().unwrap().attempt(), Some(2));
    }
}
