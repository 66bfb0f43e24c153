//! Killed while transactions are prepared and ended: what was told to be prepared is in doubt or
//! has ended as was asked, what ended stays so, and each is there whole or not at all.
//!
//! Two coordinators prepare batches of ids that they share, with a row for each id that is first
//! and one in a counter of their own, and commit or abort each. A rival sends the same ids in
//! ordinary batches. The parent ends what a kill left in doubt, one way or the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use firstseen::{Durability, Error, ErrorKind, Options, Policy, Scope, Store, Table, Verdict};

use super::child::{start, tell};
use super::workload::options;
use super::{check_at_rest, number};

/// Coordinators.
const COORDINATORS: u64 = 2;
/// Ids of a batch.
const IDS: u64 = 6;
/// Kills of one store's children.
const KILLS_A_STORE: u64 = 5;

struct Open {
    store: Store,
    ids: Scope,
    rows: Table,
    counters: Table,
}

impl Open {
    fn new(dir: &Path) -> Result<Open, Error> {
        let limits: Options = options().prepared_max(100);
        let store = Store::open(dir, limits)?;
        Ok(Open {
            ids: store.scope("ids", Policy::forever())?,
            rows: store.table("rows")?,
            counters: store.guarded_table("counters")?,
            store,
        })
    }
}

/// The ids of a coordinator's n-th batch, most of them those of others too.
fn ids(n: u64) -> impl Iterator<Item = String> {
    (0..IDS).map(move |i| format!("id-{}", n * 4 + i))
}

fn name(of: u64, n: u64) -> String {
    format!("{of}-{n}")
}

fn is_committed(n: u64) -> bool {
    !n.is_multiple_of(4)
}

fn letter(verdict: &Verdict) -> char {
    match verdict {
        Verdict::First(()) => 'F',
        Verdict::Duplicate(_) => 'D',
        Verdict::InProgress(_) => 'P',
        other => panic!("no such answer was to be: {other:?}"),
    }
}

/// The child's job. Words: directory, number of the first batch.
pub(crate) fn work(words: &[&str]) {
    let open = Open::new(Path::new(words[0])).expect("the store opens");
    let first: u64 = words[1].parse().expect("a number");
    tell("ready");
    std::thread::scope(|threads| {
        for of in 0..COORDINATORS {
            let open = &open;
            threads.spawn(move || coordinate(open, of, first));
        }
        threads.spawn(|| {
            for n in first.. {
                let mut batch = open.store.batch();
                for id in ids(n + n % 3) {
                    batch
                        .once(&open.ids, &id)
                        .put(&open.rows, format!("{id} rival {n}"), "");
                }
                let verdicts = batch.commit().expect("a commit");
                assert!(verdicts.iter().all(|v| "FDP".contains(letter(v))));
            }
        });
    });
}

fn coordinate(open: &Open, of: u64, first: u64) {
    for n in first.. {
        let mut batch = open.store.batch();
        for id in ids(n) {
            batch
                .once(&open.ids, &id)
                .put(&open.rows, format!("{id} {}", name(of, n)), "")
                .add(&open.counters, of.to_string(), 1, ..);
        }
        // The sync is the prepare's own.
        batch.durability(Durability::Written);
        let verdicts = batch.prepare(name(of, n)).expect("a prepare");
        let said: String = verdicts.iter().map(letter).collect();
        tell(&format!("prepared {of} {n} {said}"));
        tell(&format!("ending {of} {n} -"));
        let ended = match is_committed(n) {
            true => open.store.commit_prepared(name(of, n)),
            false => open.store.abort_prepared(name(of, n), "a plan"),
        };
        assert!(!ended.expect("an end").is_repeat);
        tell(&format!("ended {of} {n} -"));
    }
}

/// What is known of a transaction.
#[derive(Clone, Debug, Default)]
struct Told {
    /// Verdicts, if it was told to be prepared.
    said: Option<String>,
    ending: bool,
    ended: bool,
    /// How the parent found or made it end.
    committed: Option<bool>,
}

type Ledger = BTreeMap<(u64, u64), Told>;

/// Lets a child work until it is killed; takes down what it told.
fn kill_one(dir: &Path, first: u64, after: Duration, ledger: &mut Ledger) {
    let path = dir.to_str().expect("a path of text").to_string();
    let job = ["two_phase".to_string(), path, first.to_string()];
    let mut child = start(&job);
    let mut killer = None;
    while let Some(words) = child.line() {
        if words[0] == "ready" {
            let mut process = child.process.take().expect("nobody took it");
            #[expect(clippy::disallowed_methods, reason = "a kill comes at a moment")]
            let kill = move || {
                std::thread::sleep(after);
                process.kill().expect("it runs");
                process.wait().expect("it ends")
            };
            killer = Some(std::thread::spawn(kill));
            continue;
        }
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let told = ledger.entry((number(1), number(2))).or_default();
        match words[0].as_str() {
            "prepared" => told.said = Some(words[3].clone()),
            "ending" => told.ending = true,
            "ended" => told.ended = true,
            other => panic!("the child: {other}"),
        }
    }
    let killer = killer.expect("the child opened the store");
    let status = killer.join().expect("nobody panicked");
    assert!(!status.success(), "a child ended by itself");
}

/// Compares what is in doubt with what was told, and ends it; what is left over in `ledger`.
fn settle(open: &Open, ledger: &mut Ledger, rng: &mut fastrand::Rng) {
    let in_doubt = open.store.in_doubt().expect("a list");
    let names: BTreeSet<String> = in_doubt
        .iter()
        .map(|doubt| String::from_utf8_lossy(&doubt.txn).into_owned())
        .collect();
    // One that was prepared when the kill came was told of by nobody.
    for name in &names {
        let (of, n) = name.split_once('-').expect("a name");
        let at = (of.parse().expect("one"), n.parse().expect("one"));
        ledger.entry(at).or_default();
    }
    for (&(of, n), told) in ledger.iter_mut().filter(|(_, t)| t.committed.is_none()) {
        let (name, planned) = (name(of, n), is_committed(n));
        if names.contains(&name) {
            assert!(!told.ended, "{name} had ended, and is in doubt");
            expect_held(open, &name, ids(n), told.said.as_deref());
            let commits = rng.bool();
            let ended = match commits {
                true => open.store.commit_prepared(&name),
                false => open.store.abort_prepared(&name, "a kill"),
            };
            assert!(!ended.expect("an end").is_repeat);
            told.committed = Some(commits);
            continue;
        }
        assert!(told.ending, "{name} was prepared, and is lost: {told:?}");
        let ended = match planned {
            true => open.store.commit_prepared(&name),
            false => open.store.abort_prepared(&name, "again"),
        };
        assert!(ended.expect("its end is remembered").is_repeat, "{name}");
        let other = match planned {
            true => open.store.abort_prepared(&name, "again"),
            false => open.store.commit_prepared(&name),
        };
        assert_eq!(
            other.expect_err("it ended otherwise").kind(),
            ErrorKind::TransactionEnded
        );
        told.committed = Some(planned);
    }
}

/// An id that is in doubt is nobody else's, and its row is not there.
fn expect_held(open: &Open, name: &str, ids: impl Iterator<Item = String>, said: Option<&str>) {
    let Some(said) = said else { return };
    for (id, letter) in ids.zip(said.chars()).filter(|(_, letter)| *letter == 'F') {
        let verdict = open.ids.insert(&id).expect("an answer");
        assert!(
            matches!(verdict, Verdict::InProgress(_)),
            "{id}: {verdict:?}, {letter}"
        );
        let row = open.rows.get(format!("{id} {name}")).expect("a read");
        assert!(row.is_none(), "{id} has a row of {name}");
    }
}

/// All is whole: nothing is in doubt any more.
fn check(open: &Open, ledger: &Ledger) {
    let mut rows: BTreeMap<String, String> = BTreeMap::new();
    for row in open.rows.range("").expect("a scan") {
        let (key, _) = row.expect("a row");
        let key = String::from_utf8_lossy(&key).into_owned();
        let (id, by) = key.split_once(' ').expect("two words");
        let before = rows.insert(id.to_string(), by.to_string());
        assert_eq!(before, None, "{id} was first twice, by {by} too");
    }
    let known: BTreeSet<String> = open
        .ids
        .scan(..)
        .expect("a scan")
        .map(|entry| String::from_utf8_lossy(&entry.expect("an id").0).into_owned())
        .collect();
    let with_rows: BTreeSet<String> = rows.keys().cloned().collect();
    assert_eq!(known, with_rows, "ids and rows");
    for of in 0..COORDINATORS {
        let by = rows.values().filter(|by| by.starts_with(&format!("{of}-")));
        let counted = open.counters.get(of.to_string()).expect("a read");
        let counted = counted.map_or(0, |v| v.as_counter().expect("a counter"));
        assert_eq!(counted, by.count() as i64, "coordinator {of}");
    }
    for ((of, n), told) in ledger {
        let name = name(*of, *n);
        let there = rows.values().filter(|by| **by == name).count();
        match (&told.said, told.committed) {
            (_, None) => panic!("{name} has no end"),
            (_, Some(false)) => assert_eq!(there, 0, "{name} was aborted"),
            (None, Some(true)) => assert!(there as u64 <= IDS),
            (Some(said), Some(true)) => {
                let first = said.chars().filter(|letter| *letter == 'F').count();
                assert_eq!(there, first, "{name} was committed: {said}");
            }
        }
    }
}

#[test]
fn what_was_prepared_is_never_lost_and_each_end_is_whole() {
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    let kills = number("KILLS").unwrap_or(200) / 4;
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut ended, mut left, mut killed) = (0, 0, 0);
    while killed < kills {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = dir.path().join("store");
        let (mut ledger, mut first) = (Ledger::new(), 0);
        for _ in 0..KILLS_A_STORE {
            let after = Duration::from_micros(rng.u64(500..60_000));
            kill_one(&store, first, after, &mut ledger);
            killed += 1;
            let sound = check_at_rest(&store, &options());
            assert!(sound.is_ok(), "SEED={seed}: {sound:?}");
            let open = Open::new(&store).expect("a killed store opens");
            left += open.store.in_doubt().expect("a list").len();
            settle(&open, &mut ledger, &mut rng);
            check(&open, &ledger);
            first = ledger.keys().map(|(_, n)| n + 1).max().unwrap_or(0);
        }
        ended += ledger.values().filter(|told| told.ended).count();
    }
    println!("{killed} kills, {ended} transactions ended, {left} left in doubt, seed {seed}");
    assert!(ended as u64 > kills && left > 0, "too little went on");
}
