//! Several commits in flight from async code: `submit` returns a future that needs no runtime.
//!
//! The store writes submitted batches in their order and lets several share a sync; a message is
//! acknowledged when the commit that has its id is done.
//!
//! `cargo run --release --example submit`

mod support;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firstseen::{Action, Durability, Options, Policy, Scope, Store, Submitted, Table, days};
use support::{Delivery, R, Sub, block_on};

/// Commits that may be in flight.
const FLYING_MAX: usize = 8;

async fn consume(store: Store, ids: Scope, orders: Table, mut sub: Sub) -> R {
    let mut flying = VecDeque::new();
    loop {
        let msgs = sub.next(100).await?;
        let is_end = msgs.is_empty();
        if !is_end {
            let mut batch = store.batch();
            for m in &msgs {
                batch
                    .once(&ids, m.id.as_deref())
                    .put(&orders, &m.key, &m.payload);
            }
            flying.push_back((batch.submit(), msgs));
        }
        while flying.len() >= FLYING_MAX || is_end {
            let Some((commit, msgs)) = flying.pop_front() else {
                return Ok(());
            };
            settle(commit, &msgs).await?;
        }
    }
}

async fn settle(commit: Submitted, msgs: &[Delivery]) -> R {
    let verdicts = commit.await?;
    for (m, v) in msgs.iter().zip(verdicts.iter()) {
        match v.action() {
            Action::Proceed | Action::Ack | Action::DeadLetter => m.ack().await?,
            Action::Retry(after) => m.nak(after).await?,
            Action::Stop => return Err("not the owner".into()),
        }
    }
    Ok(())
}

/// 2,000 messages, each delivered three times: acknowledgements, and orders stored.
pub(crate) fn example() -> R<(u64, usize)> {
    let dir = tempfile::tempdir()?;
    let store = Store::open(dir.path(), Options::new().durability(Durability::Synced))?;
    let ids = store.scope("orders", Policy::remember(days(7)))?;
    let orders = store.table("orders")?;
    let sub = Sub::new(2000, 3);
    let acked = Arc::clone(&sub.acked);
    block_on(consume(store.clone(), ids, orders.clone(), sub))?;
    Ok((acked.load(Ordering::Relaxed), orders.range("")?.count()))
}

fn main() -> R {
    let (acked, orders) = example()?;
    println!("{acked} deliveries acknowledged, {orders} orders");
    Ok(())
}
