//! Producers that number their messages: no id is kept, one row a producer is enough.
//!
//! `cargo run --release --example sequences`

mod support;

use firstseen::{Action, Options, Producer, SequencePolicy, Sequences, Store, Table};
use support::R;

/// A click, as a web server sends it.
struct Click {
    server: &'static str,
    number: u64,
    page: &'static str,
}

/// Counts clicks; how many messages counted.
fn count(store: &Store, events: &Sequences, clicks: &Table, epoch: u64, all: &[Click]) -> R<usize> {
    let mut batch = store.batch();
    for click in all {
        let producer = Producer {
            name: click.server,
            epoch,
        };
        batch
            .sequence(events, producer, click.number)
            .add(clicks, click.page, 1, ..);
    }
    let verdicts = batch.commit()?;
    if verdicts.iter().any(|v| v.action() == Action::Stop) {
        return Err("another run of this server is at work".into());
    }
    Ok(verdicts.iter().filter(|v| v.is_first()).count())
}

/// Two servers send 100 clicks each, some twice and out of order; then one starts again, and its
/// former run still tries to send. Returns how often a message counted, whether the former run
/// was fenced, and what was counted of a page.
pub(crate) fn example() -> R<(usize, bool, Option<i64>)> {
    let dir = tempfile::tempdir()?;
    let store = Store::open(dir.path(), Options::new())?;
    let events = store.sequences("clicks", SequencePolicy::new())?;
    let clicks = store.guarded_table("clicks")?;
    let click = |server, number| Click {
        server,
        number,
        page: ["home", "cart"][(number % 2) as usize],
    };
    let mut counted = 0;
    for first in (0..100).step_by(10) {
        // Each delivery brings the last one's end again.
        let numbers = (first.max(5) - 5..first + 10).rev();
        let all: Vec<Click> = numbers
            .flat_map(|n| [click("web-1", n), click("web-2", n)])
            .collect();
        counted += count(&store, &events, &clicks, 1, &all)?;
    }
    counted += count(&store, &events, &clicks, 2, &[click("web-1", 0)])?;
    let former = count(&store, &events, &clicks, 1, &[click("web-1", 100)]);
    let home = clicks.get("home")?.and_then(|v| v.as_counter());
    Ok((counted, former.is_err(), home))
}

fn main() -> R {
    let (counted, fenced, home) = example()?;
    println!("{counted} clicks counted, {home:?} of the home page; former run fenced: {fenced}");
    Ok(())
}
