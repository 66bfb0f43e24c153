//! The child: threads that send batches and acknowledge them, until the process is killed.
//!
//! Each message writes, if it is first: a row named after this very attempt, one more in a
//! counter, and its attempt as the owner of the id, which nobody may be yet.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use firstseen::{Durability, Error, Options, Scope, Store, Table, Verdict, Verdicts, Writes};

use super::child::tell;
use super::workload::{In, Message, Plan, SCOPES, SENDERS, counter, options, plan, source};

/// How the child is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Not,
    /// The ids in one commit, what they allow in the next.
    InTwoCommits,
    /// Acknowledged before it is committed.
    AckFirst,
    /// Nobody remembers anything: what comes again is first again.
    Forgetful,
}

impl Broken {
    pub(crate) fn named(name: &str) -> Broken {
        let all = [
            Broken::Not,
            Broken::InTwoCommits,
            Broken::AckFirst,
            Broken::Forgetful,
        ];
        let found = all.into_iter().find(|b| format!("{b:?}") == name);
        found.unwrap_or_else(|| panic!("not broken like this: {name}"))
    }
}

/// An open store with the handles of the workload.
pub(crate) struct Open {
    pub(crate) store: Store,
    scopes: Vec<Scope>,
    pub(crate) rows: Table,
    pub(crate) counters: Table,
    pub(crate) owners: Table,
}

impl Open {
    pub(crate) fn new(dir: &Path, options: Options) -> Result<Open, Error> {
        let store = Store::open(dir, options)?;
        let scopes = SCOPES.iter().map(|s| store.scope(s.name(), s.policy()));
        Ok(Open {
            scopes: scopes.collect::<Result<_, _>>()?,
            rows: store.table("rows")?,
            counters: store.guarded_table("counters")?,
            owners: store.guarded_table("owners")?,
            store,
        })
    }

    pub(crate) fn scope(&self, scope: In) -> &Scope {
        &self.scopes[scope as usize]
    }
}

struct Worker {
    open: Arc<Open>,
    run: u64,
    seed: u64,
    broken: Broken,
}

/// Works until killed. Words: directory, run, seed, how it is broken.
pub(crate) fn work(words: &[&str]) {
    let number = |word: &str| word.parse().expect("a number");
    let (run, seed) = (number(words[1]), number(words[2]));
    let open = Open::new(Path::new(words[0]), options()).unwrap_or_else(|error| give_up(&error));
    let open = Arc::new(open);
    let broken = Broken::named(words[3]);
    let worker = Arc::new(Worker {
        open,
        run,
        seed,
        broken,
    });
    let starts: Vec<u64> = (0..SENDERS).map(|thread| worker.next_of(thread)).collect();
    for (thread, start) in starts.iter().enumerate() {
        tell(&format!("start {thread} {start}"));
    }
    tell("ready");
    // A thread that ends has failed, and the whole child with it.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        hook(panic);
        give_up("a panic");
    }));
    for (thread, start) in starts.into_iter().enumerate() {
        let worker = Arc::clone(&worker);
        std::thread::spawn(move || give_up_after(worker.send(thread, start)));
    }
    give_up_after(worker.buffer());
}

fn give_up_after(ended: Result<(), Error>) {
    match ended {
        Ok(()) => give_up("a thread ended"),
        Err(error) => give_up(&error),
    }
}

fn give_up(why: impl std::fmt::Display) -> ! {
    tell(&format!("error {why}"));
    std::process::exit(3);
}

#[expect(
    clippy::disallowed_methods,
    reason = "what the child tells is judged by real time"
)]
fn now_ms() -> u128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis())
}

impl Worker {
    fn next_of(&self, thread: usize) -> u64 {
        let point = self.open.store.resume_point(&source(thread));
        let point = point.unwrap_or_else(|error| give_up(&error));
        point.and_then(|p| p.as_u64()).unwrap_or(0)
    }

    /// Sends what may have been sent before once more, as a broker would, then goes on.
    fn send(&self, thread: usize, start: u64) -> Result<(), Error> {
        for n in start.saturating_sub(3)..start {
            self.send_one("again", thread, n)?;
        }
        for n in start.. {
            self.send_one("sent", thread, n)?;
        }
        Ok(())
    }

    fn send_one(&self, how: &str, thread: usize, n: u64) -> Result<(), Error> {
        let plan = plan(self.seed, thread, n);
        let goes_on = how == "sent";
        let before = now_ms();
        let ack = |said: &str, after: u128| {
            tell(&format!("{how} {thread} {n} {before} {after} {said}"));
        };
        if self.broken == Broken::AckFirst {
            ack(&"D".repeat(plan.messages.len()), before);
        }
        let said = match self.broken {
            Broken::InTwoCommits => self.commit_twice(thread, n, &plan, goes_on)?,
            _ if plan.by_closure => self.close(thread, n, &plan, goes_on)?,
            _ => self.commit(thread, n, &plan, goes_on)?,
        };
        if self.broken != Broken::AckFirst {
            ack(&said, now_ms());
        }
        Ok(())
    }

    fn commit(&self, thread: usize, n: u64, plan: &Plan, goes_on: bool) -> Result<String, Error> {
        let open = &self.open;
        if self.broken == Broken::Forgetful {
            for message in &plan.messages {
                open.scope(message.scope).forget(&message.id, "a canary")?;
            }
        }
        let mut batch = open.store.batch();
        for (i, message) in plan.messages.iter().enumerate() {
            let mut writes = batch.once(open.scope(message.scope), &message.id);
            self.effects(&mut writes, message, &self.attempt(thread, n, i));
        }
        if goes_on {
            batch.resume_at(&source(thread), n + 1);
        }
        batch.durability(plan.level);
        Ok(said(&batch.commit()?))
    }

    fn effects(&self, writes: &mut Writes<'_>, message: &Message, attempt: &str) {
        let open = &self.open;
        writes.put(&open.rows, row(message, attempt), "").add(
            &open.counters,
            counter(message.scope, &message.id),
            1,
            0..,
        );
        match (message.scope.is_long(), self.broken) {
            (false, _) => {}
            (true, Broken::Forgetful) => {
                writes.put(&open.owners, owned(message), attempt);
            }
            (true, _) => {
                writes.compare_and_set(&open.owners, owned(message), None, attempt);
            }
        }
    }

    fn close(&self, thread: usize, n: u64, plan: &Plan, goes_on: bool) -> Result<String, Error> {
        let open = &self.open;
        let (message, attempt) = (&plan.messages[0], self.attempt(thread, n, 0));
        let verdict = open.scope(message.scope).once(&message.id, |tx| {
            let counter = counter(message.scope, &message.id);
            let count = tx
                .get(&open.counters, &counter)?
                .and_then(|v| v.as_counter());
            tx.put(
                &open.counters,
                counter,
                (count.unwrap_or(0) + 1).to_le_bytes(),
            );
            tx.put(&open.rows, row(message, &attempt), "");
            if message.scope.is_long() {
                tx.compare_and_set(&open.owners, owned(message), None, &attempt);
            }
            if goes_on {
                tx.resume_at(&source(thread), n + 1);
            }
            Ok::<_, Error>(())
        })?;
        if goes_on && !verdict.is_first() {
            let mut batch = open.store.batch();
            let _ = batch.resume_at(&source(thread), n + 1).commit()?;
        }
        Ok(letter(&verdict).to_string())
    }

    /// The canary: what a crash between the two leaves must be seen.
    fn commit_twice(
        &self,
        thread: usize,
        n: u64,
        plan: &Plan,
        goes_on: bool,
    ) -> Result<String, Error> {
        let open = &self.open;
        let mut batch = open.store.batch();
        for message in &plan.messages {
            batch.once(open.scope(message.scope), &message.id);
        }
        let verdicts = batch.commit()?;
        // A scope in which each attempt is first, as effects may have conditions.
        let attempts = open.store.scope("attempts", In::Forever.policy())?;
        for (i, message) in plan.messages.iter().enumerate() {
            let attempt = self.attempt(thread, n, i);
            if verdicts[i].is_first() {
                self.effects(&mut batch.once(&attempts, &attempt), message, &attempt);
            }
        }
        if goes_on {
            batch.resume_at(&source(thread), n + 1);
        }
        let _ = batch.commit()?;
        Ok(said(&verdicts))
    }

    /// Buffered commits: what is not synced may be lost, ids and rows together, the last first.
    #[expect(clippy::disallowed_methods, reason = "commits come now and then")]
    fn buffer(&self) -> Result<(), Error> {
        let open = &self.open;
        let mut batch = open.store.batch();
        batch.durability(Durability::Buffered);
        for n in 0_u64.. {
            for i in 0..3 {
                let message = Message {
                    scope: In::Buffered,
                    id: format!("{}-{n}-{i}", self.run),
                };
                let row = row(&message, &self.attempt(SENDERS, n, i));
                batch
                    .once(open.scope(In::Buffered), &message.id)
                    .put(&open.rows, row, "");
            }
            let verdicts = batch.commit()?;
            tell(&format!("buffered {n} {}", said(&verdicts)));
            if n.is_multiple_of(20) {
                open.store.sync()?;
                tell(&format!("synced {n}"));
            }
            if n.is_multiple_of(5) {
                let work = open.store.stats()?.background;
                tell(&format!(
                    "did {} {} {}",
                    work.seals, work.merges, work.drops
                ));
            }
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
        Ok(())
    }

    fn attempt(&self, thread: usize, n: u64, i: usize) -> String {
        format!("{} {thread} {n} {i}", self.run)
    }
}

fn row(message: &Message, attempt: &str) -> String {
    format!("{} {} {attempt}", message.scope.name(), message.id)
}

/// The row that says who was first with an id.
pub(crate) fn owned(message: &Message) -> String {
    format!("{} {}", message.scope.name(), message.id)
}

fn said(verdicts: &Verdicts) -> String {
    verdicts.iter().map(letter).collect()
}

fn letter<T>(verdict: &Verdict<T>) -> char {
    match verdict {
        Verdict::First(_) => 'F',
        Verdict::Duplicate(_) => 'D',
        Verdict::Refused(_) => 'R',
        _ => '?',
    }
}
