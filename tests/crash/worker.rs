//! The child: threads that send batches and acknowledge them, until the process is killed.
//!
//! An acknowledgement carries the times before the call and after it, in ns: what returned before
//! another began is before it in the log, so a crash may not take the one and leave the other.
//!
//! Each message writes, if it is first: a row named after this very attempt, one more in a
//! counter, its attempt as the owner of the id, which nobody may be yet, and a message into the
//! outbox. Now and then the outbox is drained to the parent, who plays the other system.

use std::path::Path;
use std::sync::Arc;

use firstseen::{
    Batch, Durability, Error, Options, Outbox, Scope, Store, Table, Verdict, Verdicts, Writes,
};

use super::child::{now_ns, tell};
use super::exit::exit_now;
use super::workload::{
    BUFFERED, In, LIMIT, Message, Plan, SCOPES, SENDERS, SUBMITTED, buffered, counter, options,
    plan, source,
};

/// Messages that are drained at once: more than come in meanwhile.
const DRAINED: usize = 2_000;

/// The exit code of a child that failed, and said so.
pub(crate) const GAVE_UP: i32 = 3;

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
    /// Nothing is synced, and acknowledged as if it were.
    Unsynced,
}

impl Broken {
    pub(crate) fn named(name: &str) -> Broken {
        let all = [
            Broken::Not,
            Broken::InTwoCommits,
            Broken::AckFirst,
            Broken::Forgetful,
            Broken::Unsynced,
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
    pub(crate) outbox: Outbox,
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
            outbox: store.outbox("out")?,
            store,
        })
    }

    pub(crate) fn scope(&self, scope: In) -> &Scope {
        &self.scopes[scope as usize]
    }
}

/// One run over a store. Each of its steps gives the line that acknowledges it.
pub(crate) struct Worker {
    pub(crate) open: Arc<Open>,
    pub(crate) run: u64,
    pub(crate) seed: u64,
    pub(crate) broken: Broken,
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
    let starts = worker.starts().unwrap_or_else(|error| give_up(&error));
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
        std::thread::spawn(move || give_up_after(send(&worker, thread, start)));
    }
    give_up_after(buffer(&worker));
}

fn give_up_after(ended: Result<(), Error>) {
    match ended {
        Ok(()) => give_up("a thread ended"),
        Err(error) => give_up(&error),
    }
}

fn give_up(why: impl std::fmt::Display) -> ! {
    tell(&format!("error {why}"));
    exit_now(GAVE_UP)
}

/// Sends what may have been sent before once more, as a broker would, then goes on.
fn send(worker: &Worker, thread: usize, start: u64) -> Result<(), Error> {
    for n in start.saturating_sub(3)..start {
        tell(&worker.send("again", thread, n)?);
    }
    let mut n = start;
    loop {
        let plan = plan(worker.seed, thread, n);
        if worker.broken == Broken::AckFirst {
            tell(&claim(thread, n, &plan));
            worker.send("sent", thread, n)?;
            n += 1;
        } else if plan.submitted && worker.broken == Broken::Not {
            worker.submit(thread, n, |line| tell(&line))?;
            n += SUBMITTED;
        } else {
            tell(&worker.send("sent", thread, n)?);
            n += 1;
        }
        if thread == 2 && n.is_multiple_of(16) {
            tell(&worker.sync()?);
        }
    }
}

/// Buffered commits: what is not synced may be lost, ids and rows together, the last first.
#[expect(clippy::disallowed_methods, reason = "commits come now and then")]
fn buffer(worker: &Worker) -> Result<(), Error> {
    for n in 0_u64.. {
        tell(&worker.buffer(n)?);
        if n.is_multiple_of(20) {
            tell(&worker.sync()?);
        }
        if n.is_multiple_of(5) {
            tell(&worker.did()?);
        }
        // Seldom, as it syncs, and cuts are to find something that isn't.
        if n % 80 == 47 {
            worker.drain(|line| tell(&line))?;
        }
        std::thread::sleep(std::time::Duration::from_micros(300));
    }
    Ok(())
}

/// What is said of a batch before it is committed, by a child that is broken like that.
fn claim(thread: usize, n: u64, plan: &Plan) -> String {
    let said = plan.messages.iter().map(|m| match m.scope {
        In::Limited => '-',
        _ => 'D',
    });
    ack("sent", thread, n, now_ns(), said.collect())
}

fn ack(how: &str, thread: usize, n: u64, before: u128, said: String) -> String {
    format!("{how} {thread} {n} {before} {} {said}", now_ns())
}

impl Worker {
    /// Where each sender goes on.
    pub(crate) fn starts(&self) -> Result<Vec<u64>, Error> {
        let starts = (0..SENDERS).map(|thread| {
            let point = self.open.store.resume_point(&source(thread))?;
            Ok(point.and_then(|p| p.as_u64()).unwrap_or(0))
        });
        starts.collect()
    }

    /// Sends the n-th batch of a thread.
    pub(crate) fn send(&self, how: &str, thread: usize, n: u64) -> Result<String, Error> {
        let plan = plan(self.seed, thread, n);
        let goes_on = how == "sent";
        let before = now_ns();
        let said = match self.broken {
            Broken::InTwoCommits => self.commit_twice(thread, n, &plan, goes_on)?,
            _ if plan.by_closure => self.close(thread, n, &plan, goes_on)?,
            _ => said(&self.batch(thread, n, &plan, goes_on)?.commit()?),
        };
        Ok(ack(how, thread, n, before, said))
    }

    /// Hands in several batches before it waits for the first.
    pub(crate) fn submit(
        &self,
        thread: usize,
        from: u64,
        mut tell: impl FnMut(String),
    ) -> Result<(), Error> {
        let mut under_way = Vec::new();
        for n in from..from + SUBMITTED {
            let before = now_ns();
            let batch = self.batch(thread, n, &plan(self.seed, thread, n), true)?;
            under_way.push((n, before, batch.submit()));
        }
        for (n, before, submitted) in under_way {
            let said = said(&submitted.wait()?);
            tell(ack("sent", thread, n, before, said));
        }
        Ok(())
    }

    fn batch(&self, thread: usize, n: u64, plan: &Plan, goes_on: bool) -> Result<Batch, Error> {
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
        batch.durability(match self.broken {
            Broken::Unsynced => Durability::Written,
            _ => plan.level,
        });
        Ok(batch)
    }

    fn effects(&self, writes: &mut Writes<'_>, message: &Message, attempt: &str) {
        let open = &self.open;
        let counter = counter(message.scope, &message.id);
        writes.put(&open.rows, row(message, attempt), "");
        writes.send(&open.outbox, attempt);
        match message.scope {
            In::Limited => writes.add(&open.counters, counter, 1, 0..=LIMIT),
            _ => writes.add(&open.counters, counter, 1, 0..),
        };
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
            tx.send(&open.outbox, &attempt);
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
        // What may be refused can't be taken in advance.
        let may_be_refused = |message: &Message| message.scope == In::Limited;
        let mut batch = open.store.batch();
        batch.durability(plan.level);
        for message in plan.messages.iter().filter(|m| !may_be_refused(m)) {
            batch.once(open.scope(message.scope), &message.id);
        }
        let verdicts = batch.commit()?;
        // A scope in which each attempt is first, as effects may have conditions.
        let attempts = open.store.scope("attempts", In::Forever.policy())?;
        let (mut verdicts, mut said) = (verdicts.iter(), String::new());
        for (i, message) in plan.messages.iter().enumerate() {
            let letter = match may_be_refused(message) {
                true => '-',
                false => verdicts.next().map_or('?', letter),
            };
            said.push(letter);
            if letter == 'F' {
                let attempt = self.attempt(thread, n, i);
                self.effects(&mut batch.once(&attempts, &attempt), message, &attempt);
            }
        }
        if goes_on {
            batch.resume_at(&source(thread), n + 1);
        }
        let _ = batch.durability(plan.level).commit()?;
        Ok(said)
    }

    /// The n-th buffered commit.
    pub(crate) fn buffer(&self, n: u64) -> Result<String, Error> {
        let open = &self.open;
        let mut batch = open.store.batch();
        batch.durability(Durability::Buffered);
        for i in 0..BUFFERED {
            let message = buffered(self.run, n, i);
            let attempt = self.attempt(SENDERS, n, i);
            let mut writes = batch.once(open.scope(In::Buffered), &message.id);
            writes.put(&open.rows, row(&message, &attempt), "");
            writes.send(&open.outbox, attempt);
        }
        let before = now_ns();
        let said = said(&batch.commit()?);
        Ok(ack("buffered", SENDERS, n, before, said))
    }

    /// All that was acknowledged by now is safe.
    pub(crate) fn sync(&self) -> Result<String, Error> {
        let before = now_ns();
        if self.broken != Broken::Unsynced {
            self.open.store.sync()?;
        }
        Ok(format!("synced {before}"))
    }

    /// Hands messages to the outside, which is who reads the pipe, then acknowledges them.
    pub(crate) fn drain(&self, mut tell: impl FnMut(String)) -> Result<(), Error> {
        let outbox = &self.open.outbox;
        let messages = match self.broken {
            Broken::Unsynced => outbox.drain_unsynced(DRAINED)?,
            _ => outbox.drain(DRAINED)?,
        };
        for message in &messages {
            let payload = String::from_utf8_lossy(&message.payload);
            tell(format!(
                "out {} {} {payload}",
                message.id.number(),
                message.id
            ));
        }
        // Now and then nobody acknowledges: the same ones come again.
        match messages.last() {
            Some(last) if last.id.number() % 5 > 0 => outbox.ack(last.id).map(drop),
            _ => Ok(()),
        }
    }

    /// Seals, merges and drops so far.
    pub(crate) fn did(&self) -> Result<String, Error> {
        let work = self.open.store.stats()?.background;
        Ok(format!("did {} {} {}", work.seals, work.merges, work.drops))
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
