//! Submitted commits: several in flight, in the order they were submitted.
//!
//! One thread a store writes them in order (so a resume point never overtakes the batch before
//! it), another waits for the disk; so many batches share a sync, and the caller's thread never
//! blocks. The threads start with the first submission.
//!
//! A resume point must not pass a batch that failed: once a batch with a resume point fails,
//! those submitted behind it for the same source fail as well, until the caller has seen the
//! first failure and submits again.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

use crossbeam::channel::{Receiver, Sender, bounded, unbounded};

use crate::clock::Stopwatch;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Durability;
use crate::sync::{Condvar, Mutex};
use crate::verdict::Verdicts;

use super::decide::Decision;
use super::draft::Draft;
use super::{Committer, Unsynced};

/// A commit on its way.
struct Job {
    draft: Draft,
    held: Option<Decision>,
    level: Durability,
    done: Arc<Promise>,
    /// Failures of its sources, in the order of its resume points, when it was submitted.
    failures: Vec<u64>,
    /// Since it was submitted.
    watch: Stopwatch,
}

/// Failures by source: how many, and the last one.
type Failures = Mutex<HashMap<String, (u64, Arc<Promise>)>>;

/// Where the outcome is put.
#[derive(Default)]
struct Promise {
    state: Mutex<PromiseState>,
    ready: Condvar,
}

#[derive(Default)]
struct PromiseState {
    outcome: Option<Result<Verdicts>>,
    is_seen: bool,
    waker: Option<Waker>,
}

impl Promise {
    fn is_seen(&self) -> bool {
        self.state.lock().is_seen
    }

    fn settle(&self, outcome: Result<Verdicts>) {
        let waker = {
            let mut state = self.state.lock();
            state.outcome.get_or_insert(outcome);
            state.waker.take()
        };
        self.ready.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The outcome of a submitted commit, to be awaited or waited for.
pub(crate) struct Submission(Arc<Promise>);

impl Submission {
    /// One that failed before it was submitted.
    pub(crate) fn failed(error: Error) -> Submission {
        let promise = Arc::new(Promise::default());
        promise.settle(Err(error));
        Submission(promise)
    }

    pub(crate) fn wait(self) -> Result<Verdicts> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(outcome) = state.outcome.take() {
                state.is_seen = true;
                return outcome;
            }
            self.0.ready.wait(&mut state);
        }
    }
}

impl Future for Submission {
    type Output = Result<Verdicts>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state.lock();
        match state.outcome.take() {
            Some(outcome) => {
                state.is_seen = true;
                Poll::Ready(outcome)
            }
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The two threads of a store that submits.
#[derive(Default)]
pub(crate) struct Lane {
    running: Mutex<Option<Running>>,
    failures: Arc<Failures>,
}

struct Running {
    jobs: Sender<Job>,
    threads: Vec<JoinHandle<()>>,
}

/// Batches written and not yet synced.
const UNSYNCED_MAX: usize = 64;

impl Lane {
    /// Puts a commit in line.
    pub(crate) fn submit(
        &self,
        committer: &Arc<Committer>,
        draft: Draft,
        held: Option<Decision>,
        level: Durability,
    ) -> Result<Submission> {
        let done = Arc::new(Promise::default());
        let failures = self.failures_of(&draft)?;
        let job = Job {
            draft,
            held,
            level,
            done: Arc::clone(&done),
            failures,
            watch: Stopwatch::start(),
        };
        let mut lane = self.running.lock();
        if lane.is_none() {
            *lane = Some(start(committer, &self.failures)?);
        }
        if let Some(running) = &*lane {
            running.jobs.send(job).map_err(|_| Error::closed())?;
        }
        Ok(Submission(done))
    }

    /// How often its sources failed before; an error if the caller has not seen the last time.
    fn failures_of(&self, draft: &Draft) -> Result<Vec<u64>> {
        let failures = self.failures.lock();
        let of = |source: &String| match failures.get(source) {
            Some((_, last)) if !last.is_seen() => Err(behind_a_failure(source)),
            found => Ok(found.map_or(0, |f| f.0)),
        };
        draft.points.iter().map(|p| of(&p.0)).collect()
    }

    /// Finishes what was submitted and ends the threads.
    pub(crate) fn close(&self) {
        if let Some(running) = self.running.lock().take() {
            drop(running.jobs);
            // A caller's waker may drop the last handle; its thread can't join itself.
            let me = std::thread::current().id();
            for thread in running
                .threads
                .into_iter()
                .filter(|t| t.thread().id() != me)
            {
                let _ = thread.join();
            }
        }
    }
}

/// A commit that is written.
struct Written {
    done: Arc<Promise>,
    verdicts: Verdicts,
    mark: Option<Unsynced>,
    level: Durability,
    watch: Stopwatch,
}

fn start(committer: &Arc<Committer>, failures: &Arc<Failures>) -> Result<Running> {
    let (jobs, taken) = unbounded::<Job>();
    let (written, syncing) = bounded::<Written>(UNSYNCED_MAX);
    let (writer, syncer) = (Arc::clone(committer), Arc::clone(committer));
    let failures = Arc::clone(failures);
    let threads = vec![
        spawn("firstseen-write", move || {
            write_all(&writer, &taken, &written, &failures)
        })?,
        spawn("firstseen-sync", move || sync_all(&syncer, &syncing))?,
    ];
    Ok(Running { jobs, threads })
}

fn behind_a_failure(source: &str) -> Error {
    Error::new(
        ErrorKind::Undecided,
        format!("an earlier batch of the source {source:?} failed; submit that one again first"),
    )
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    Ok(std::thread::Builder::new()
        .name(name.to_string())
        .spawn(run)?)
}

fn write_all(
    committer: &Arc<Committer>,
    jobs: &Receiver<Job>,
    written: &Sender<Written>,
    failures: &Failures,
) {
    for mut job in jobs {
        let outcome = not_behind_a_failure(&job, failures)
            .and_then(|()| committer.write(&mut job.draft, &mut job.held, job.level));
        match outcome {
            Ok((verdicts, mark)) => {
                let sent = written.send(Written {
                    done: job.done,
                    verdicts,
                    mark,
                    level: job.level,
                    watch: job.watch,
                });
                debug_assert!(sent.is_ok(), "the syncing thread ends after this one");
            }
            Err(error) => {
                let mut failures = failures.lock();
                for (source, _) in &job.draft.points {
                    let last = (0, Arc::clone(&job.done));
                    let entry = failures.entry(source.clone()).or_insert(last);
                    *entry = (entry.0 + 1, Arc::clone(&job.done));
                }
                drop(failures);
                job.done.settle(Err(error));
            }
        }
    }
}

fn not_behind_a_failure(job: &Job, failures: &Failures) -> Result<()> {
    let failures = failures.lock();
    for ((source, _), before) in job.draft.points.iter().zip(&job.failures) {
        if failures.get(source).is_some_and(|f| f.0 != *before) {
            return Err(behind_a_failure(source));
        }
    }
    Ok(())
}

fn sync_all(committer: &Committer, written: &Receiver<Written>) {
    for commit in written {
        let synced = commit
            .mark
            .map_or(Ok(()), |mark| committer.wait_synced(mark));
        if synced.is_ok() {
            let times = &committer.times;
            times.at(commit.level).record(commit.watch.elapsed());
        }
        commit.done.settle(synced.map(|()| commit.verdicts));
    }
}
