//! Effects outside the store: a payment under an `Idempotency-Key`, and a long job.
//!
//! The id is claimed before the other side is called, and its outcome recorded after it, with the
//! ledger's row in the same commit. A repeat gets the first answer; a client that comes while the
//! first call runs is told when to ask again; a timeout is an outcome of its own, not a guess.
//!
//! `cargo run --release --example pay`

mod support;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firstseen::{Decided, Failure, Id, Options, Policy, Scope, Store, Table, Verdict, days};
use support::{R, block_on};

/// A payment provider that counts what it charged.
#[derive(Default)]
pub(crate) struct Psp {
    charged: Mutex<HashMap<Vec<u8>, u32>>,
}

enum PspErr {
    Declined,
    Timeout,
}

impl Psp {
    async fn charge(&self, key: &[u8], body: &[u8]) -> Result<Vec<u8>, PspErr> {
        match body {
            b"a stolen card" => return Err(PspErr::Declined),
            b"a slow bank" => return Err(PspErr::Timeout),
            _ => {}
        }
        let mut charged = self.charged.lock().expect("nobody panics with it");
        *charged.entry(key.to_vec()).or_default() += 1;
        Ok([b"receipt for ", body].concat())
    }
}

/// In a service: the runtime's own.
async fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::thread::Result<T> {
    std::thread::spawn(work).join()
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Box<dyn std::error::Error + Send + Sync> {
    "the work panicked".into()
}

#[derive(Clone)]
struct App {
    pays: Scope,
    jobs: Scope,
    ledger: Table,
    psp: Arc<Psp>,
}

/// An HTTP answer: status, body, and when to come again.
#[derive(Debug, PartialEq, Eq)]
struct Response {
    status: u16,
    body: Vec<u8>,
    retry_after: Option<Duration>,
}

fn reply(status: u16, body: impl AsRef<[u8]>) -> Response {
    Response {
        status,
        body: body.as_ref().to_vec(),
        retry_after: None,
    }
}

async fn pay(app: App, key: Option<String>, body: Vec<u8>) -> R<Response> {
    let Some(key) = key else {
        return Ok(reply(400, "Idempotency-Key is required"));
    };
    let (pays, k, b) = (app.pays.clone(), key.clone(), body.clone());
    let claimed = spawn_blocking(move || pays.claim(Id::new(&k).payload(&b))).await;
    let mut claim = match claimed.map_err(panicked)?? {
        Verdict::First(claim) => claim,
        Verdict::Duplicate(seen) => return Ok(reply(201, seen.result().unwrap_or_default())),
        Verdict::Failed(seen) => return Ok(reply(402, seen.result().unwrap_or_default())),
        Verdict::PayloadMismatch(_) => return Ok(reply(422, "key was used with another body")),
        Verdict::InProgress(p) => {
            let retry_after = Some(p.retry_after());
            return Ok(Response {
                retry_after,
                ..reply(409, "in progress")
            });
        }
        _ => return Ok(reply(503, "try later")),
    };
    claim.start();
    let charged = app.psp.charge(key.as_bytes(), &body).await;
    let ended = spawn_blocking(move || match charged {
        Ok(receipt) => {
            claim.complete(&receipt, |w| {
                w.put(&app.ledger, &key, &receipt);
            })?;
            Ok(reply(201, &receipt))
        }
        Err(PspErr::Declined) => {
            claim.fail(Failure::Permanent, "declined")?;
            Ok(reply(402, "declined"))
        }
        Err(PspErr::Timeout) => {
            claim.outcome_unknown("psp timeout")?;
            Ok(reply(503, "try later"))
        }
    });
    ended.await.map_err(panicked)?
}

/// A job of minutes: its result, or `None` if it is somebody else's or failed.
async fn transcode(jobs: Scope, id: String) -> R<Option<Vec<u8>>> {
    let scope = jobs.clone();
    let claimed = spawn_blocking(move || scope.claim(&id)).await;
    let mut claim = match claimed.map_err(panicked)?? {
        Verdict::First(claim) => claim,
        Verdict::Duplicate(seen) => return Ok(seen.result().map(<[u8]>::to_vec)),
        _ => return Ok(None),
    };
    claim.start(); // renews itself, however long it takes
    if claim.attempt() == 1 {
        // The first machine has a bad disk; the id is free again.
        let failed = spawn_blocking(move || claim.fail(Failure::Retryable, "I/O error")).await;
        failed.map_err(panicked)??;
        return Ok(None);
    }
    let done = format!("film of attempt {}", claim.attempt()).into_bytes();
    let result = done.clone();
    let ended = spawn_blocking(move || claim.complete(&result, |_| {})).await;
    ended.map_err(panicked)??;
    Ok(Some(done))
}

/// The answers to a row of requests, what was charged, and the ledger's rows.
pub(crate) fn example() -> R<(Vec<u16>, u32, usize)> {
    let dir = tempfile::tempdir()?;
    let store = Store::open(dir.path(), Options::new())?;
    let policy = Policy::remember(days(1)).payloads().attempts_max(5);
    let app = App {
        pays: store.scope("payments", policy)?,
        jobs: store.scope("jobs", Policy::remember(days(7)))?,
        ledger: store.table("ledger")?,
        psp: Arc::default(),
    };
    let ask = |key: Option<&str>, body: &str| -> R<u16> {
        let asked = pay(app.clone(), key.map(str::to_string), body.into());
        Ok(block_on(asked)?.status)
    };
    let mut statuses = vec![
        ask(Some("k1"), "10 EUR")?,
        ask(Some("k1"), "10 EUR")?,
        ask(Some("k1"), "11 EUR")?,
        ask(None, "10 EUR")?,
        ask(Some("k2"), "a stolen card")?,
        ask(Some("k2"), "a stolen card")?,
        ask(Some("k3"), "a slow bank")?,
        ask(Some("k3"), "a slow bank")?,
    ];
    // The bank's statement is there in the evening: nothing was charged.
    app.pays
        .decide("k3", Decided::Retry, "not on the statement")?;
    let running = app.pays.claim("k4")?;
    statuses.push(ask(Some("k4"), "10 EUR")?);
    drop(running);
    statuses.push(ask(Some("k4"), "10 EUR")?);

    let film = || block_on(transcode(app.jobs.clone(), "film".to_string()));
    let films = [film()?, film()?, film()?];
    let expected = Some(b"film of attempt 2".to_vec());
    assert_eq!(films, [None, expected.clone(), expected]);

    let charged = app.psp.charged.lock().expect("nobody panics with it");
    Ok((
        statuses,
        charged.values().sum(),
        app.ledger.range("")?.count(),
    ))
}

fn main() -> R {
    let (statuses, charged, ledger) = example()?;
    println!("answers {statuses:?}: {charged} charges, {ledger} rows in the ledger");
    Ok(())
}
