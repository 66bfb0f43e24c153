//! Brokers in memory, just enough of them for the examples: a log with offsets, a subscription
//! with acknowledgements, and an executor.

#![allow(dead_code, reason = "each example uses its part")]

use std::cell::Cell;
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// What the examples return.
pub(crate) type R<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// A message of a log.
pub(crate) struct Msg {
    key: Option<Vec<u8>>,
    payload: Vec<u8>,
    offset: u64,
}

impl Msg {
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}

/// One partition of a log, read from a position that the reader chooses.
#[derive(Default)]
pub(crate) struct Kafka {
    log: Vec<Msg>,
    next: Cell<usize>,
    committed: Cell<u64>,
    polls_left: Cell<Option<u32>>,
}

impl Kafka {
    pub(crate) fn send(&mut self, key: Option<&str>, payload: &str) {
        let offset = self.log.len() as u64;
        let key = key.map(|k| k.as_bytes().to_vec());
        let payload = payload.as_bytes().to_vec();
        self.log.push(Msg {
            key,
            payload,
            offset,
        });
    }

    /// Makes the connection break after so many polls.
    pub(crate) fn break_after(&self, polls: u32) {
        self.polls_left.set(Some(polls));
    }

    /// A new connection: it begins where the group last committed.
    pub(crate) fn reconnect(&self) {
        self.polls_left.set(None);
        self.next.set(self.committed.get() as usize);
    }

    pub(crate) fn poll(&self, count: usize) -> R<&[Msg]> {
        match self.polls_left.get() {
            Some(0) => return Err("the connection broke".into()),
            left => self.polls_left.set(left.map(|n| n - 1)),
        }
        let from = self.next.get();
        let to = (from + count).min(self.log.len());
        self.next.set(to);
        Ok(&self.log[from..to])
    }

    pub(crate) fn seek(&self, next: u64) {
        self.next.set(next as usize);
    }

    pub(crate) fn commit(&self, next: u64) {
        self.committed.set(next);
    }
}

/// A message of a subscription; until it is acknowledged it is delivered again.
pub(crate) struct Delivery {
    pub(crate) id: Option<String>,
    pub(crate) key: String,
    pub(crate) payload: Vec<u8>,
    acked: Arc<AtomicU64>,
}

impl Delivery {
    pub(crate) async fn ack(&self) -> R {
        self.acked.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) async fn nak(&self, _after: Duration) -> R {
        Err("nothing here is in progress elsewhere".into())
    }
}

/// A subscription that delivers every message `times` over.
pub(crate) struct Sub {
    messages: u64,
    times: u64,
    sent: u64,
    pub(crate) acked: Arc<AtomicU64>,
}

impl Sub {
    pub(crate) fn new(messages: u64, times: u64) -> Sub {
        Sub {
            messages,
            times,
            sent: 0,
            acked: Arc::default(),
        }
    }

    /// The next deliveries; none when all were sent.
    pub(crate) async fn next(&mut self, count: u64) -> R<Vec<Delivery>> {
        let end = (self.sent + count).min(self.messages * self.times);
        let sent = std::mem::replace(&mut self.sent, end)..end;
        let deliveries = sent.map(|n| {
            let n = n % self.messages;
            Delivery {
                id: Some(format!("msg-{n}")),
                key: format!("order-{n}"),
                payload: n.to_string().into_bytes(),
                acked: Arc::clone(&self.acked),
            }
        });
        Ok(deliveries.collect())
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread; in a service a runtime does this.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
