//! Work that is dear to compute is done for first seen messages only: hold, compute, commit.
//!
//! Between `hold` and `commit` the new ids are ours, in memory: another consumer that meets one
//! waits. Dropping the batch frees them, with nothing recorded.
//!
//! `cargo run --release --example hold`

mod support;

use firstseen::{Options, Policy, Scope, Store, Table, days};
use support::{Kafka, Msg, R};

/// Returns how many prices were computed.
fn hold(store: &Store, ids: &Scope, orders: &Table, msgs: &[Msg]) -> R<usize> {
    let mut priced = 0;
    let mut batch = store.batch();
    for m in msgs {
        batch.once(ids, m.key());
    }
    for (i, v) in batch.hold()?.iter().enumerate() {
        if v.is_first() {
            batch
                .item(i)
                .put(orders, msgs[i].payload(), price(&msgs[i]));
            priced += 1;
        }
    }
    let _ = batch.commit()?;
    Ok(priced)
}

/// Stands for a slow calculation.
fn price(m: &Msg) -> [u8; 8] {
    (m.payload().len() as u64 * 100).to_le_bytes()
}

/// Two deliveries of the same ten orders: prices computed by each, and orders stored.
pub(crate) fn example() -> R<(usize, usize, usize)> {
    let dir = tempfile::tempdir()?;
    let store = Store::open(dir.path(), Options::new())?;
    let ids = store.scope("orders", Policy::remember(days(7)))?;
    let orders = store.table("orders")?;
    let mut kafka = Kafka::default();
    for n in 0..10 {
        let key = format!("order-{n}");
        kafka.send(Some(&key), &key);
    }
    let msgs = kafka.poll(100)?;
    let first = hold(&store, &ids, &orders, msgs)?;
    let second = hold(&store, &ids, &orders, msgs)?;
    Ok((first, second, orders.range("")?.count()))
}

fn main() -> R {
    let (first, second, orders) = example()?;
    println!("priced {first}, then {second} of the same messages; {orders} orders");
    Ok(())
}
