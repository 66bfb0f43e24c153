//! Real order lines take from a guarded stock table, each exactly once, however often and in
//! whatever order they are delivered.
//!
//! Every line of `examples/data/online_retail_10k.csv` is an id, whole. Two threads get all lines
//! three times over, shuffled. At the end the stock must equal the one computed directly from the
//! distinct lines; if not, the program ends with an error.
//!
//! `cargo run --release --example stock`

mod support;

use std::collections::{BTreeMap, HashSet};

use firstseen::{Options, Policy, Scope, Store, Table, days};
use support::R;

/// Pieces of each product at the beginning.
const STOCK: i64 = 100_000;
const DELIVERIES: usize = 3;
const BATCH: usize = 100;

/// An order line and what it takes from where.
struct Line {
    row: Vec<u8>,
    sku: Vec<u8>,
    quantity: i64,
}

/// The lines of the file, without header and byte-order mark. Descriptions are bytes, not UTF-8.
fn lines() -> R<Vec<Line>> {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/data/online_retail_10k.csv"
    );
    let bytes = std::fs::read(file)?;
    let rows = bytes.split(|b| *b == b'\n').map(<[u8]>::trim_ascii_end);
    rows.skip(1)
        .filter(|row| !row.is_empty())
        .map(line)
        .collect()
}

fn line(row: &[u8]) -> R<Line> {
    let [_, sku, _, quantity, ..] = &fields(row)[..] else {
        return Err("a line has too few fields".into());
    };
    let quantity = std::str::from_utf8(quantity)?.parse()?;
    Ok(Line {
        row: row.to_vec(),
        sku: sku.clone(),
        quantity,
    })
}

/// The fields of a row; commas within quotes are part of a field.
fn fields(row: &[u8]) -> Vec<Vec<u8>> {
    let mut fields = vec![Vec::new()];
    let mut is_quoted = false;
    for byte in row {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => fields.push(Vec::new()),
            byte => fields
                .iter_mut()
                .last()
                .into_iter()
                .for_each(|f| f.push(*byte)),
        }
    }
    fields
}

/// Takes from stock what the lines say; returns how many were first seen.
fn take(store: &Store, ids: &Scope, stock: &Table, lines: &[&Line]) -> firstseen::Result<usize> {
    let mut first = 0;
    let mut batch = store.batch();
    for lines in lines.chunks(BATCH) {
        for line in lines {
            batch
                .once(ids, &line.row)
                .add(stock, &line.sku, -line.quantity, 0..);
        }
        first += batch.commit()?.iter().filter(|v| v.is_first()).count();
    }
    Ok(first)
}

type Stock = BTreeMap<Vec<u8>, i64>;

/// What the stock must be at the end.
fn expected(lines: &[Line]) -> Stock {
    let mut seen = HashSet::new();
    let mut stock = Stock::new();
    for line in lines {
        let left = stock.entry(line.sku.clone()).or_insert(STOCK);
        if seen.insert(&line.row) {
            *left -= line.quantity;
        }
    }
    stock
}

fn stock_of(table: &Table) -> firstseen::Result<Stock> {
    let rows = table
        .range("")?
        .map(|row| row.map(|(sku, left)| (sku.to_vec(), left.as_counter().unwrap_or_default())));
    rows.collect()
}

/// Lines delivered, lines first seen, and whether the stock is what it must be.
pub(crate) fn example() -> R<(usize, usize, bool)> {
    let lines = lines()?;
    let expected = expected(&lines);
    let dir = tempfile::tempdir()?;
    let store = Store::open(dir.path(), Options::new())?;
    let ids = store.scope("order lines", Policy::remember(days(7)))?;
    let stock = store.guarded_table("stock")?;
    let mut batch = store.batch();
    for sku in expected.keys() {
        batch.always().put(&stock, sku, STOCK.to_le_bytes());
    }
    let _ = batch.commit()?;

    let mut deliveries = lines.iter().collect::<Vec<_>>().repeat(DELIVERIES);
    fastrand::shuffle(&mut deliveries);
    let (one, other) = deliveries.split_at(deliveries.len() / 2);
    let (one, other) = std::thread::scope(|s| {
        let other = s.spawn(|| take(&store, &ids, &stock, other));
        (take(&store, &ids, &stock, one), other.join())
    });
    let first = one? + other.map_err(|_| "a thread panicked")??;
    Ok((deliveries.len(), first, stock_of(&stock)? == expected))
}

fn main() -> R {
    let (delivered, first, is_right) = example()?;
    println!("{delivered} order lines delivered by two threads, {first} first seen");
    if !is_right {
        return Err("the stock differs from the one computed from the distinct lines".into());
    }
    println!("the stock is exactly what the distinct lines leave");
    Ok(())
}
