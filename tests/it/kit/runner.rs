//! Runs programs on a real store, through its public face only, and tells what it answered in
//! the model's words.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use firstseen::{
    BelowWindow, Clock, Durability, Error, IdTime, ManualClock, NextCommit, OnLate,
    OnUnknownProducer, Options, Policy, Producer, Scope, SequencePolicy, Sequences, Store,
    Table as RowTable, Token, Verdict,
};

use super::calls::Owned;
use super::claims::ATTEMPTS_MAX;
use super::dying;
use super::op::{
    AHEAD_MS, Batch, Failure, GIVEN, ID_BYTES_MAX, Item, KEEPS, Keep, LEASE_MS, LIMITED, Op,
    PRODUCERS_MAX, SCOPES, SOURCES, SPACES, Table, UNKEYED, WINDOW, WITH_PAYLOADS, WITH_RESULTS,
    WITH_SOURCES,
};
use super::outbox::Drained;
use super::prepared::OUTCOMES_MS;
use super::said::{Said, kind, list};

/// Where and how a store runs.
pub(crate) struct Setup<'a> {
    /// No directory: in memory.
    pub(crate) dir: Option<PathBuf>,
    /// The options of the n-th opening, but for the clock.
    pub(crate) options: &'a dyn Fn(u32) -> Options,
}

/// What background work was done, summed over openings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) seals: u64,
    pub(crate) merges: u64,
    pub(crate) drops: u64,
    pub(crate) replayed: u64,
    pub(crate) generation_hits: u64,
    pub(crate) claims: u64,
    /// Numbers of producers that were late or fenced, and producers that went.
    pub(crate) late: u64,
    pub(crate) fenced: u64,
    pub(crate) evicted: u64,
    /// Prepared transactions that were committed, and aborted.
    pub(crate) committed: u64,
    pub(crate) aborted: u64,
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.seals += other.seals;
        self.merges += other.merges;
        self.drops += other.drops;
        self.replayed += other.replayed;
        self.generation_hits += other.generation_hits;
        self.claims += other.claims;
        self.late += other.late;
        self.fenced += other.fenced;
        self.evicted += other.evicted;
        self.committed += other.committed;
        self.aborted += other.aborted;
    }
}

/// A store that a program runs on.
pub(crate) struct Runner<'a> {
    setup: Setup<'a>,
    pub(super) clock: ManualClock,
    pub(super) start: SystemTime,
    openings: u32,
    pub(crate) store: Store,
    pub(super) scopes: Vec<Scope>,
    pub(super) tables: [RowTable; 2],
    pub(super) numbers: Vec<Sequences>,
    pub(super) drained: Drained,
    keeps: [Keep; SCOPES.len()],
    /// The held batch, which of its items were first, and the items' scopes.
    pub(super) held: Option<(firstseen::Batch, Vec<usize>, Vec<usize>)>,
    /// Tokens of claims, the latest last.
    pub(super) tokens: BTreeMap<(usize, Vec<u8>), Vec<Token>>,
    work: Work,
}

pub(super) type Called<T> = Result<T, Error>;

impl<'a> Runner<'a> {
    /// Opens a store with these retentions, so many milliseconds after the program's start.
    pub(crate) fn open(
        setup: Setup<'a>,
        keeps: [Keep; SCOPES.len()],
        now_ms: u64,
    ) -> Called<Runner<'a>> {
        let clock = ManualClock::new();
        let start = clock.now();
        clock.advance(Duration::from_millis(now_ms));
        let options = options(&setup, 0, &clock);
        let store = match &setup.dir {
            Some(dir) => Store::open(dir, options)?,
            None => Store::in_memory(options)?,
        };
        let (tables, drained) = (tables(&store)?, Drained::of(&store)?);
        let mut runner = Runner {
            setup,
            clock,
            start,
            openings: 0,
            store,
            scopes: Vec::new(),
            tables,
            numbers: Vec::new(),
            drained,
            keeps,
            held: None,
            tokens: BTreeMap::new(),
            work: Work::default(),
        };
        runner.take_handles()?;
        Ok(runner)
    }

    pub(crate) fn new(setup: Setup<'a>) -> Called<Runner<'a>> {
        Runner::open(setup, KEEPS, 0)
    }

    fn take_handles(&mut self) -> Called<()> {
        self.tables = tables(&self.store)?;
        self.drained.renew(&self.store)?;
        let numbers = (0..SPACES.len()).map(|s| sequences(&self.store, s));
        self.numbers = numbers.collect::<Called<_>>()?;
        let scopes = (0..SCOPES.len()).map(|s| self.store.scope(SCOPES[s], self.policy(s)));
        self.scopes = scopes.collect::<Called<_>>()?;
        Ok(())
    }

    fn policy(&self, scope: usize) -> Policy {
        policy(scope, self.keeps[scope])
    }

    /// What background work the store has done so far.
    pub(crate) fn work(&self) -> Called<Work> {
        let mut work = self.work;
        let stats = self.store.stats()?;
        work += Work {
            seals: stats.background.seals,
            merges: stats.background.merges,
            drops: stats.background.drops,
            replayed: stats.background.replayed_ids,
            generation_hits: stats.tiers.generations,
            late: stats.verdicts.late,
            fenced: stats.verdicts.fenced,
            evicted: stats.sequences.evicted,
            committed: stats.prepared.committed,
            aborted: stats.prepared.aborted,
            claims: stats.claims.completed + stats.claims.failed + stats.claims.retried,
        };
        Ok(work)
    }

    /// Runs one step; what the store answered.
    pub(crate) fn step(&mut self, op: &Op) -> String {
        self.try_step(op)
            .unwrap_or_else(|error| format!("error: {}", kind(&error)))
    }

    fn try_step(&mut self, op: &Op) -> Called<String> {
        match op {
            Op::Insert(scope, item) => self.with_id(*scope, item, |id| {
                let said = Said::of(&self.scopes[*scope].insert(id)?, self.start);
                Ok(list(&[said]))
            }),
            Op::InsertAll(scope, items) => {
                let owned: Vec<_> = items.iter().map(|i| self.owned(*scope, i)).collect();
                let ids = owned.iter().map(Owned::id);
                let verdicts = self.scopes[*scope].insert_all(ids)?;
                Ok(self.said(&verdicts))
            }
            Op::Batch(batch) => self.batch(batch),
            Op::Hold(items) => self.hold(items),
            Op::Finish(finish) => self.finish(finish),
            Op::Once(scope, item, closure) => self.once(*scope, item, closure),
            Op::Claim(scope, item) => self.claim(*scope, item),
            Op::End(scope, name, stale, how) => self.end(*scope, *name, *stale, how),
            Op::Redrive(scope, name) => self.redrive(*scope, *name),
            Op::Purge(scope, name) => self.purge(*scope, *name),
            Op::Decide(scope, name, what) => self.decide(*scope, *name, *what),
            Op::Forget(scope, name) => self.with_id(*scope, &Item::plain(*name), |id| {
                Ok(self.scopes[*scope].forget(id, "a test")?.to_string())
            }),
            Op::Peek(scope, name) => self.peek(*scope, *name),
            Op::Scan(scope, last_ms) => self.scan(*scope, *last_ms),
            Op::Prepare(txn, batch) => self.prepare(*txn, batch),
            Op::EndPrepared(txn, commits) => self.end_prepared(*txn, *commits),
            Op::InDoubt => self.doubts(),
            Op::Admit(number) => self.admit(*number),
            Op::DropSequences(space) => {
                let found = self.store.drop_sequences(SPACES[*space])?;
                let old = self.numbers[*space].clone();
                self.numbers[*space] = sequences(&self.store, *space)?;
                let stale = old.accept(
                    Producer {
                        name: "p",
                        epoch: 0,
                    },
                    1,
                );
                assert!(stale.is_err(), "dropped sequences took a number: {stale:?}");
                Ok(found.to_string())
            }
            Op::Drain(limit) => self.drain(*limit),
            Op::Ack(messages, keep) => self.ack(*messages, *keep),
            Op::Resend(messages) => self.resend(*messages),
            Op::Check => self.check(),
            Op::Rewind(source, to) => {
                self.store.rewind(SOURCES[*source], *to, "a test")?;
                Ok("done".to_string())
            }
            Op::Alter(scope, keep) => {
                self.scopes[*scope] = self
                    .store
                    .alter_scope(SCOPES[*scope], policy(*scope, *keep))?;
                self.keeps[*scope] = *keep;
                Ok("done".to_string())
            }
            Op::DropScope(scope, keep) => self.drop_scope(*scope, *keep),
            Op::DropTable(table) => {
                self.held = None;
                let found = self.store.drop_table(table.name())?;
                self.tables = tables(&self.store)?;
                Ok(found.to_string())
            }
            Op::Advance(ms) => {
                self.clock.advance(Duration::from_millis(*ms));
                Ok(String::new())
            }
            Op::Seal => self.store.seal().map(|()| String::new()),
            Op::Compact => self.store.compact().map(|()| String::new()),
            Op::Reopen => self.reopen().map(|()| String::new()),
            Op::Crash => self.crash(|_| Ok(())).map(|()| String::new()),
            Op::Dying(point, passes) => {
                let upkeep = |store: &Store| dying::upkeep(store, *point, *passes);
                self.crash(upkeep).map(|()| String::new())
            }
            Op::Failing(failure, batch) => self.failing(*failure, batch),
        }
    }

    pub(super) fn said(&self, verdicts: &[Verdict]) -> String {
        let said: Vec<Said> = verdicts.iter().map(|v| Said::of(v, self.start)).collect();
        list(&said)
    }

    fn drop_scope(&mut self, scope: usize, keep: Keep) -> Called<String> {
        self.held = None;
        let found = self.store.drop_scope(SCOPES[scope])?;
        self.keeps[scope] = keep;
        let old = self.scopes[scope].clone();
        self.scopes[scope] = self.store.scope(SCOPES[scope], self.policy(scope))?;
        let stale = old.insert("x");
        assert!(stale.is_err(), "a dropped scope took an id: {stale:?}");
        Ok(found.to_string())
    }

    fn reopen(&mut self) -> Called<()> {
        let Some(dir) = self.setup.dir.clone() else {
            return self.crash(|_| Ok(()));
        };
        self.held = None;
        self.work = self.work()?;
        self.openings += 1;
        self.store.clone().close()?;
        let stale = self.scopes[0].insert("x");
        assert!(stale.is_err(), "a closed store took an id: {stale:?}");
        let options = options(&self.setup, self.openings, &self.clock);
        self.store = Store::open(dir, options)?;
        self.take_handles()
    }

    fn crash(&mut self, last: impl FnOnce(&Store) -> Called<()>) -> Called<()> {
        self.held = None;
        self.work = self.work()?;
        self.store.sync()?;
        last(&self.store)?;
        self.store = self.store.clone().crash_and_reopen()?;
        self.take_handles()
    }

    fn failing(&mut self, failure: Failure, batch: &Batch) -> Called<String> {
        self.held = None;
        self.work = self.work()?;
        self.store.sync()?;
        self.store.fail_next_commit(match failure {
            Failure::NotRecorded => NextCommit::NotRecorded,
            Failure::Lost => NextCommit::UnknownLost,
            Failure::Written => NextCommit::UnknownWritten,
        })?;
        let mut real = self.fill(batch);
        real.durability(Durability::Written);
        let outcome = real.commit();
        let told = match outcome {
            Ok(verdicts) => self.said(&verdicts),
            Err(error) if failure == Failure::NotRecorded => match real.commit() {
                Ok(verdicts) => {
                    format!("error: {}, then {}", kind(&error), self.said(&verdicts))
                }
                Err(_) => format!("error: {}", kind(&error)),
            },
            Err(error) => format!("error: {}", kind(&error)),
        };
        drop(real);
        self.store = self.store.clone().crash_and_reopen()?;
        self.take_handles()?;
        Ok(told)
    }
}

fn options(setup: &Setup<'_>, opening: u32, clock: &ManualClock) -> Options {
    (setup.options)(opening)
        .clock(Clock::Manual(clock.clone()))
        .outcomes_for(Duration::from_millis(OUTCOMES_MS))
}

fn tables(store: &Store) -> Called<[RowTable; 2]> {
    Ok([
        store.table(Table::Plain.name())?,
        store.guarded_table(Table::Guarded.name())?,
    ])
}

fn sequences(store: &Store, space: usize) -> Called<Sequences> {
    let policy = SequencePolicy::new()
        .window_bits(WINDOW as usize)
        .producers_max(PRODUCERS_MAX[space]);
    let policy = match space {
        0 => policy,
        _ => policy
            .on_unknown(OnUnknownProducer::Refuse)
            .below_window(BelowWindow::Duplicate),
    };
    store.sequences(SPACES[space], policy)
}

fn policy(scope: usize, keep: Keep) -> Policy {
    let ms = Duration::from_millis;
    let policy = match keep {
        Keep::Fixed(retention) => Policy::remember(ms(retention)),
        Keep::Sliding(retention, cap) => Policy::sliding(ms(retention), ms(cap)),
        Keep::Forever => Policy::forever(),
    };
    // Nobody else holds anything for long in one thread: waiting would only cost time.
    let policy = policy.wait(Duration::ZERO).id_bytes_max(ID_BYTES_MAX);
    let policy = policy.lease(ms(LEASE_MS));
    let policy = match scope == LIMITED {
        true => policy.attempts_max(ATTEMPTS_MAX),
        false => policy,
    };
    let policy = match WITH_RESULTS.contains(&scope) {
        true => policy.results(),
        false => policy,
    };
    let policy = match WITH_PAYLOADS.contains(&scope) {
        true => policy.payloads(),
        false => policy,
    };
    match scope {
        GIVEN => policy
            .id_time(IdTime::Given)
            .on_late(OnLate::Process)
            .ahead_max(ms(AHEAD_MS)),
        WITH_SOURCES => policy.sources(),
        UNKEYED => policy.on_missing_id(firstseen::OnMissingId::Process),
        _ => policy,
    }
}
