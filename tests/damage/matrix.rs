//! The matrix: every kind of file, every kind of damage, in stores that were closed and killed.
//!
//! Cells are gone through by several threads; who waits for them notices one that hangs, and a
//! panic in one is a wrong answer like any other.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fastrand::Rng;
use firstseen::Durability;

use super::ask::{Outcome, ask};
use super::content::{State, copy, make, path};
use super::files::{Kind, files};
use super::harm::{HARMS, Harm};
use super::table::{markdown, row_of};
use super::verify::check;
use super::{directory, number};

/// A cell may take so long on a busy machine.
const CELL_MAX: Duration = Duration::from_secs(60);
/// Files of a kind that are damaged in one store, the largest ones.
const FILES_MAX: usize = 2;

/// One file to damage in one way.
#[derive(Clone, Debug)]
struct Cell {
    store: (Durability, State),
    kind: Kind,
    /// Within the store.
    file: PathBuf,
    column: usize,
    harm: Harm,
    seed: u64,
}

/// What a cell came to; what was wrong, if anything.
struct Said {
    cell: Cell,
    outcome: Option<Outcome>,
    text: String,
}

/// Every cell, in the order of stores, files and damages.
fn cells(root: &Path, rng: &mut Rng) -> Vec<Cell> {
    let mut cells = Vec::new();
    for level in [Durability::Written, Durability::Synced] {
        for state in [State::Closed, State::Killed, State::Renewed] {
            let dir = path(root, level, state);
            for (kind, file) in chosen(&dir) {
                let Some(_) = row_of(kind, (level, state)) else {
                    continue;
                };
                let harms = HARMS.iter().enumerate();
                let harms = harms
                    .flat_map(|(column, (_, harms))| harms.iter().map(move |harm| (column, *harm)));
                for (column, harm) in harms {
                    cells.push(Cell {
                        store: (level, state),
                        kind,
                        file: file.strip_prefix(&dir).unwrap().to_path_buf(),
                        column,
                        harm,
                        seed: rng.u64(..),
                    });
                }
            }
        }
    }
    cells
}

/// The files that are damaged: of each kind some.
fn chosen(dir: &Path) -> Vec<(Kind, PathBuf)> {
    let mut all = files(dir);
    all.sort_by_key(|(kind, file)| (*kind, std::cmp::Reverse(file.metadata().unwrap().len())));
    let mut of_kind = 0;
    let mut last = None;
    all.retain(|(kind, _)| {
        of_kind = if last == Some(*kind) { of_kind + 1 } else { 1 };
        last = Some(*kind);
        of_kind <= FILES_MAX
    });
    all
}

/// Damages a copy, checks it at rest and asks it everything. A store that gives errors must have
/// shown a fault before.
fn run(root: &Path, copied: &Path, cell: &Cell) -> (Option<Outcome>, String) {
    let (level, state) = cell.store;
    copy(&path(root, level, state), copied);
    let did = cell
        .harm
        .to(&copied.join(&cell.file), &mut Rng::with_seed(cell.seed));
    let result = catch_unwind(AssertUnwindSafe(|| {
        let report = check(copied);
        let (outcome, asked) = ask(copied, level);
        (report, outcome, asked)
    }));
    std::fs::remove_dir_all(copied).unwrap();
    match result {
        Ok((report, outcome, asked)) => {
            let harmless = matches!(outcome, Outcome::Right | Outcome::Prefix);
            let told = harmless || !report.is_sound();
            let right = (asked.wrong.is_empty() && told).then_some(outcome);
            let faults = report.faults;
            (
                right,
                format!("{did}: {outcome}, {}, faults {faults:?}", asked.summary()),
            )
        }
        Err(_) => (None, format!("{did}: it panicked")),
    }
}

/// Goes through the cells on some threads; panics if one of them hangs, and says which.
fn run_all(root: &Path, cells: Vec<Cell>, seed: u64) -> Vec<Said> {
    let (all, next) = (Arc::new(cells), Arc::new(AtomicUsize::new(0)));
    let (sender, said) = mpsc::channel();
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8));
    for thread in 0..threads {
        let (all, next, sender) = (Arc::clone(&all), Arc::clone(&next), sender.clone());
        let root = root.to_path_buf();
        std::thread::spawn(move || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(cell) = all.get(at).cloned() else {
                    return;
                };
                let (outcome, text) = run(&root, &root.join(format!("copy-{thread}")), &cell);
                let said = Said {
                    cell,
                    outcome,
                    text,
                };
                if sender.send((at, said)).is_err() {
                    return;
                }
            }
        });
    }
    let mut answers: Vec<Option<Said>> = all.iter().map(|_| None).collect();
    for _ in 0..all.len() {
        let Ok((at, answer)) = said.recv_timeout(CELL_MAX) else {
            let begun = all.iter().zip(&answers).take(next.load(Ordering::Relaxed));
            let open: Vec<_> = begun.filter(|(_, answer)| answer.is_none()).collect();
            let open: Vec<_> = open.iter().map(|(cell, _)| format!("{cell:?}")).collect();
            let open = open.join("\n");
            panic!("SEED={seed}: a cell hangs, or its thread is gone:\n{open}");
        };
        answers[at] = Some(answer);
    }
    answers.into_iter().flatten().collect()
}

#[test]
fn damage_is_an_error_or_harmless_and_never_a_wrong_answer() {
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut rng = Rng::with_seed(seed);
    let root = directory();
    make(root.path(), Durability::Written);
    make(root.path(), Durability::Synced);
    let mut unexpected = Vec::new();
    let mut kinds = BTreeSet::new();
    for _ in 0..number("ROUNDS").unwrap_or(1) {
        let cells = cells(root.path(), &mut rng);
        kinds.extend(cells.iter().map(|cell| cell.kind));
        for said in run_all(root.path(), cells, seed) {
            let Cell {
                store,
                kind,
                column,
                harm,
                ..
            } = said.cell;
            let expected = row_of(kind, store).map_or(&[][..], |row| row.cells[column]);
            let text = format!("{store:?} {kind:?} {harm:?}, {}", said.text);
            println!("{text}");
            if !said.outcome.is_some_and(|o| expected.contains(&o)) {
                unexpected.push(text);
            }
        }
    }
    assert_eq!(kinds.len(), Kind::COUNT, "kinds of files: {kinds:?}");
    let all = unexpected.join("\n");
    assert!(unexpected.is_empty(), "SEED={seed}\n{all}");
}

/// The undamaged stores answer everything: else the matrix would say nothing.
#[test]
fn undamaged_stores_are_right() {
    let root = directory();
    for level in [Durability::Written, Durability::Synced] {
        make(root.path(), level);
        for state in [State::Closed, State::Killed, State::Renewed, State::Sealed] {
            let (outcome, asked) = ask(&path(root.path(), level, state), level);
            assert_eq!(outcome, Outcome::Right, "{state:?}: {}", asked.summary());
            assert_eq!(asked.wrong, [""; 0], "{state:?}");
        }
    }
}

/// A store with one more or one less id than it should have is seen by who asks.
#[test]
fn a_wrong_answer_would_be_seen() {
    let root = directory();
    let level = Durability::Written;
    make(root.path(), level);
    let dir = path(root.path(), level, State::Closed);
    let forget = |id: &str| {
        super::content::change(&dir, level, |open| {
            assert!(open.week.forget(id, "to be missed").unwrap());
        })
    };
    forget("order-0007-0007");
    let (_, asked) = ask(&dir, level);
    let missed = asked.wrong.iter().any(|w| w.starts_with("order-0007-0007"));
    assert!(missed, "{}", asked.summary());
    let dir = path(root.path(), level, State::Sealed);
    super::content::change(&dir, level, |open| {
        assert!(open.week.insert("order-9999-0007").unwrap().is_first());
    });
    let (_, asked) = ask(&dir, level);
    let seen = asked.wrong.iter().any(|w| w.starts_with("order-9999-0007"));
    assert!(seen, "{}", asked.summary());
}

#[test]
fn the_documentation_has_this_table() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/testing.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let table = markdown();
    assert!(docs.contains(&table), "docs/testing.md lacks:\n{table}");
}
