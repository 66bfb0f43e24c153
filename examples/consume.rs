//! A consumer of a log: ids, rows, refusals, poison messages and the position in one commit.
//!
//! The store decides where to go on; the broker's own offset is only a hint. So a crash between
//! the store's commit and the broker's costs nothing but reading some messages again.
//!
//! `cargo run --release --example consume`

mod support;

use std::path::Path;

use firstseen::{Options, Policy, Store, days};
use support::{Kafka, R};

const SOURCE: &str = "orders/3";

/// Consumes until there is nothing left, or the connection breaks. Returns the duplicates seen.
fn run(kafka: &Kafka, dir: &Path) -> R<usize> {
    let store = Store::open(dir, Options::new())?;
    let ids = store.scope(
        "orders",
        Policy::remember(days(7)).redelivery_horizon(days(3)),
    )?;
    let (orders, stock) = (store.table("orders")?, store.guarded_table("stock")?);
    let refused = store.table("refused")?;
    if let Some(next) = store.resume_point(SOURCE)?.and_then(|p| p.as_u64()) {
        kafka.seek(next);
    }
    let mut batch = store.batch(); // owns its bytes; used again for every poll
    let mut duplicates = 0;
    loop {
        let msgs = kafka.poll(100)?;
        let Some(last) = msgs.last() else {
            return Ok(duplicates);
        };
        for m in msgs {
            let mut item = batch.once(&ids, m.key()); // a missing key is decided by policy
            match parse(m.payload()) {
                Ok(o) => {
                    item.put(&orders, &o.key, m.payload())
                        .add(&stock, &o.sku, -o.quantity, 0..) // refused below 0
                        .if_refused(|w| {
                            w.put(&refused, &o.key, m.payload());
                        });
                }
                Err(why) => {
                    item.dead_letter(&why, m.payload()); // in the same commit
                }
            }
        }
        batch.resume_at(SOURCE, last.offset() + 1); // the next one to read
        let verdicts = batch.commit()?; // any error: leave, reopen, replay from the resume point
        duplicates += verdicts.iter().filter(|v| v.is_duplicate()).count();
        kafka.commit(last.offset() + 1); // for lag displays only
    }
}

struct Order {
    key: String,
    sku: String,
    quantity: i64,
}

fn parse(payload: &[u8]) -> Result<Order, String> {
    let text = std::str::from_utf8(payload).map_err(|e| e.to_string())?;
    let [key, sku, quantity] = text.split(' ').collect::<Vec<_>>()[..] else {
        return Err(format!("{text:?} is no order"));
    };
    let quantity = quantity.parse().map_err(|e| format!("{quantity:?}: {e}"))?;
    Ok(Order {
        key: key.to_string(),
        sku: sku.to_string(),
        quantity,
    })
}

/// What is in the store at the end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) duplicates: usize,
    pub(crate) orders: usize,
    pub(crate) refused: usize,
    pub(crate) poison: usize,
    pub(crate) stock: Option<i64>,
}

/// 1,000 orders of one piece, every third sent twice, and 900 pieces in stock; the connection
/// breaks in the middle, and the broker has forgotten half of the commits.
pub(crate) fn example() -> R<Outcome> {
    let dir = tempfile::tempdir()?;
    {
        let store = Store::open(dir.path(), Options::new())?;
        let mut batch = store.batch();
        let stock = store.guarded_table("stock")?;
        batch.always().put(&stock, "tea", 900_i64.to_le_bytes());
        let _ = batch.commit()?;
    }
    let mut kafka = Kafka::default();
    for n in 0..1000 {
        let key = format!("order-{n}");
        for _ in 0..if n % 3 == 0 { 2 } else { 1 } {
            kafka.send(Some(&key), &format!("{key} tea 1"));
        }
    }
    kafka.send(Some("odd"), "not an order");
    kafka.break_after(5);
    let broken = run(&kafka, dir.path());
    println!(
        "the first run ended: {:?}",
        broken.map_err(|e| e.to_string())
    );
    kafka.commit(150);
    kafka.reconnect();
    let duplicates = run(&kafka, dir.path())?;

    let store = Store::open(dir.path(), Options::new())?;
    let ids = store.existing_scope("orders")?.ok_or("the scope is gone")?;
    let rows = |name| -> R<usize> { Ok(store.table(name)?.range("")?.count()) };
    let stock = store.guarded_table("stock")?.get("tea")?;
    Ok(Outcome {
        duplicates,
        orders: rows("orders")?,
        refused: rows("refused")?,
        poison: ids.dead_letters()?.count(),
        stock: stock.and_then(|v| v.as_counter()),
    })
}

fn main() -> R {
    println!("{:#?}", example()?);
    Ok(())
}
