//! A consumer on tokio that acknowledges while it polls, and a handler for an effect elsewhere.
//!
//! The source is a broker in this process, over channels: it forgets a message when it is
//! acknowledged, and delivers again what was not in time. Commits are submitted and awaited,
//! several in flight, so that the executor never waits for a disk; what blocks is given to
//! `spawn_blocking` (docs/async.md).
//!
//! `cargo run --release --example tokio`

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::time::Duration;

use firstseen::{
    Action, Begun, Durability, Failed, FailureKind, Handled, Handler, Message, Options, Policy,
    Scope, Source, Store, Submitted, Table, days,
};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, UnboundedSender};
use tokio::task::{JoinHandle, spawn_blocking};

/// What the example returns.
type R<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Messages there are, each sent twice by its producer.
const MESSAGES: u64 = 3_000;
/// Deliveries that a consumer may have unacknowledged.
const UNACKED_MAX: usize = 2_000;
/// Messages in a batch, and batches in flight.
const BATCH: usize = 100;
const FLYING_MAX: usize = 8;

/// A delivery: its tag, for acknowledgements, and the message.
struct Delivery {
    tag: u64,
    id: String,
    payload: String,
}

/// What a consumer says of a delivery.
enum Answer {
    Ack(u64),
    /// Deliver it again after this time.
    Nak(u64, Duration),
}

/// A consumer's end of the broker.
struct Subscription {
    deliveries: Receiver<Delivery>,
    answers: UnboundedSender<Answer>,
}

impl Subscription {
    /// The next deliveries, as many as there are at once, at least one; none at the end.
    async fn next(&mut self, most: usize) -> Vec<Delivery> {
        let mut msgs = Vec::new();
        self.deliveries.recv_many(&mut msgs, most).await;
        msgs
    }

    fn ack(&self, tag: u64) -> R {
        Ok(self.answers.send(Answer::Ack(tag))?)
    }

    fn nak(&self, tag: u64, after: Duration) -> R {
        Ok(self.answers.send(Answer::Nak(tag, after))?)
    }
}

/// A broker whose messages come at least once: some acknowledgements get lost, and their messages
/// come again. It ends when all are acknowledged; how many it delivered.
fn broker(ids: Vec<String>) -> (Subscription, JoinHandle<u64>) {
    let (to, deliveries) = mpsc::channel(UNACKED_MAX);
    let (answers, from) = mpsc::unbounded_channel();
    let subscription = Subscription {
        deliveries,
        answers,
    };
    (subscription, tokio::spawn(serve(ids, to, from)))
}

async fn serve(ids: Vec<String>, to: Sender<Delivery>, mut from: UnboundedReceiver<Answer>) -> u64 {
    let mut waiting: VecDeque<String> = ids.into();
    let mut unacked: BTreeMap<u64, String> = BTreeMap::new();
    let (mut delivered, mut answered) = (0, 0_u64);
    while !(waiting.is_empty() && unacked.is_empty()) {
        while unacked.len() < UNACKED_MAX
            && let Some(id) = waiting.pop_front()
        {
            delivered += 1;
            let delivery = Delivery {
                tag: delivered,
                payload: format!("order {id}"),
                id: id.clone(),
            };
            unacked.insert(delivered, id);
            if to.send(delivery).await.is_err() {
                return delivered; // the consumer is gone
            }
        }
        let Some(answer) = from.recv().await else {
            return delivered;
        };
        answered += 1;
        match answer {
            // Every hundredth acknowledgement gets lost.
            Answer::Ack(tag) if !answered.is_multiple_of(100) => {
                unacked.remove(&tag);
            }
            Answer::Ack(tag) => waiting.extend(unacked.remove(&tag)),
            Answer::Nak(tag, after) => {
                tokio::time::sleep(after).await;
                waiting.extend(unacked.remove(&tag));
            }
        }
    }
    delivered
}

/// Consumes in batches: commits fly while the next messages are polled, and a message is
/// acknowledged when the commit that has its id is durable.
async fn consume(store: Store, ids: Scope, orders: Table, mut sub: Subscription) -> R {
    let mut flying: VecDeque<(Submitted, Vec<Delivery>)> = VecDeque::new();
    loop {
        let msgs = sub.next(BATCH).await;
        let is_end = msgs.is_empty();
        if !is_end {
            let mut batch = store.batch();
            for m in &msgs {
                batch.once(&ids, &m.id).put(&orders, &m.id, &m.payload);
            }
            flying.push_back((batch.submit(), msgs));
        }
        // While others are in flight there is time to poll; but nobody waits for an answer that
        // is due, or the broker, which waits for it, would send no more.
        while flying.len() >= FLYING_MAX || is_end || sub.deliveries.is_empty() {
            let Some((commit, msgs)) = flying.pop_front() else {
                break;
            };
            let verdicts = commit.await?;
            for (m, v) in msgs.iter().zip(verdicts.iter()) {
                match v.action() {
                    Action::Proceed | Action::Ack | Action::DeadLetter => sub.ack(m.tag)?,
                    Action::Retry(after) => sub.nak(m.tag, after)?,
                    Action::Stop => return Err("not the owner".into()),
                }
            }
        }
        if is_end {
            return Ok(());
        }
    }
}

/// Another system, which is told of each order: it breaks off now and then, before it did anything.
#[derive(Default)]
struct Partner {
    told: u64,
    asked: u64,
}

impl Partner {
    async fn tell(&mut self, _order: &str) -> Result<String, Failed> {
        self.asked += 1;
        tokio::time::sleep(Duration::from_micros(10)).await;
        if self.asked.is_multiple_of(10) {
            return Err(Failed::new(FailureKind::Retryable, "the connection broke"));
        }
        self.told += 1;
        Ok(format!("ticket {}", self.told))
    }
}

/// Handles one message whose effect is elsewhere: claim, await, end. The two commits block, so they
/// are given to a thread for that.
async fn tell(handler: &Handler, partner: &mut Partner, m: Delivery) -> R<Action> {
    let (claims, id) = (handler.clone(), m.id.clone());
    let begun = spawn_blocking(move || claims.begin(Message::new(&id).payload(&m.payload)));
    let mut work = match begun.await? {
        Begun::Work(work) => work,
        Begun::Handled(handled) => return Ok(handled.action()),
    };
    let told = partner.tell(&m.id).await;
    let ended = spawn_blocking(move || -> Handled<String> {
        if let Ok(ticket) = &told {
            work.result(ticket);
        }
        work.end(told)
    });
    Ok(ended.await?.action())
}

async fn notify(handler: Handler, mut sub: Subscription) -> R<u64> {
    let mut partner = Partner::default();
    while let Some(m) = sub.deliveries.recv().await {
        let tag = m.tag;
        match tell(&handler, &mut partner, m).await? {
            Action::Proceed | Action::Ack | Action::DeadLetter => sub.ack(tag)?,
            Action::Retry(after) => sub.nak(tag, after)?,
            Action::Stop => return Err("the store must be reopened".into()),
        }
    }
    Ok(partner.told)
}

/// Ids as producers send them that repeat themselves.
fn twice(count: u64) -> Vec<String> {
    let ids = (0..2 * count).map(|n| format!("order-{}", n % count));
    ids.collect()
}

/// Deliveries of orders, orders in the store, and orders that the partner was told of.
pub(crate) fn example() -> R<(u64, usize, u64)> {
    let dir = tempfile::tempdir()?;
    let store = Store::open(dir.path(), Options::new().durability(Durability::Synced))?;
    let ids = store.scope("orders", Policy::remember(days(7)))?;
    let orders = store.table("orders")?;
    let policy = Policy::remember(days(7)).attempts_max(5);
    let handler = store.scope("notices", policy)?.handler(Source::AckOnce);
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    let (delivered, told) = runtime.block_on(async {
        let (sub, served) = broker(twice(MESSAGES));
        consume(store.clone(), ids, orders.clone(), sub).await?;
        let delivered = served.await?;
        let (sub, _served) = broker(twice(50));
        R::Ok((delivered, notify(handler, sub).await?))
    })?;
    Ok((delivered, orders.range("")?.count(), told))
}

fn main() -> R {
    let (delivered, orders, told) = example()?;
    println!("{delivered} deliveries, {orders} orders; the partner was told of {told}");
    assert!(delivered > 2 * MESSAGES, "some came again");
    assert_eq!((orders as u64, told), (MESSAGES, 50));
    Ok(())
}
