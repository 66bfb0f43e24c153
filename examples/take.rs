//! A closure that reads and writes a guarded row, run for a first sight only.
//!
//! The row stays locked until the commit, so two buyers never take the same piece; an error of
//! the closure frees the id, so that the message may come again.
//!
//! `cargo run --release --example take`

mod support;

use firstseen::{Error, Options, Policy, Scope, Store, Table, Verdict, days};
use support::R;

/// Why nothing was taken.
#[derive(Debug)]
pub(crate) enum Fail {
    Store(Error),
    SoldOut,
}

impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        Fail::Store(error)
    }
}

impl std::fmt::Display for Fail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fail::Store(error) => error.fmt(f),
            Fail::SoldOut => f.write_str("sold out"),
        }
    }
}

impl std::error::Error for Fail {}

/// Takes `n` pieces; what is left, or `None` if this message took them before.
fn take(ids: &Scope, stock: &Table, id: &str, sku: &str, n: i64) -> Result<Option<i64>, Fail> {
    let verdict = ids.once(id, |tx| {
        let left = tx
            .get(stock, sku)?
            .and_then(|v| v.as_counter())
            .unwrap_or(0)
            - n;
        if left < 0 {
            return Err(Fail::SoldOut);
        }
        tx.put(stock, sku, left.to_le_bytes());
        Ok(left)
    })?;
    Ok(match verdict {
        Verdict::First(left) => Some(left),
        _ => None,
    })
}

/// Ten pieces of tea; four threads deliver the same 20 messages, each for one piece. Returns how
/// many messages took one, how often one was sold out, and what is left.
pub(crate) fn example() -> R<(usize, usize, Option<i64>)> {
    let dir = tempfile::tempdir()?;
    let store = Store::open(dir.path(), Options::new())?;
    let ids = store.scope("orders", Policy::remember(days(7)))?;
    let stock = store.guarded_table("stock")?;
    let mut batch = store.batch();
    batch.always().put(&stock, "tea", 10_i64.to_le_bytes());
    let _ = batch.commit()?;

    let deliver = || -> R<(usize, usize)> {
        let (mut taken, mut sold_out) = (0, 0);
        for n in 0..20 {
            match take(&ids, &stock, &format!("order-{n}"), "tea", 1) {
                Ok(Some(_)) => taken += 1,
                Ok(None) => {}
                Err(Fail::SoldOut) => sold_out += 1,
                Err(fail) => return Err(fail.into()),
            }
        }
        Ok((taken, sold_out))
    };
    let counts = std::thread::scope(|s| {
        let threads: Vec<_> = (0..4).map(|_| s.spawn(deliver)).collect();
        let counts = threads
            .into_iter()
            .map(|t| t.join().map_err(|_| "a thread panicked")?);
        counts.collect::<R<Vec<_>>>()
    })?;
    let taken = counts.iter().map(|c| c.0).sum();
    let sold_out = counts.iter().map(|c| c.1).sum();
    Ok((
        taken,
        sold_out,
        stock.get("tea")?.and_then(|v| v.as_counter()),
    ))
}

fn main() -> R {
    let (taken, sold_out, left) = example()?;
    println!("{taken} messages took one piece, {sold_out} times it was sold out; left: {left:?}");
    Ok(())
}
