//! The spans around commits and background work, as a subscriber of `tracing` sees them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use firstseen::{Clock, ManualClock, Store};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::{quiet, secs, week};

/// A span's name and fields.
type Seen = (&'static str, BTreeMap<&'static str, String>);

/// Keeps every span, and how many are entered.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<(Vec<Seen>, i64)>>);

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("firstseen")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = BTreeMap::new();
        span.record(&mut Fields(&mut fields));
        let mut kept = self.0.lock().unwrap();
        kept.0.push((span.metadata().name(), fields));
        Id::from_u64(kept.0.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut kept = self.0.lock().unwrap();
        let at = span.into_u64() as usize - 1;
        values.record(&mut Fields(&mut kept.0[at].1));
    }

    fn enter(&self, _: &Id) {
        self.0.lock().unwrap().1 += 1;
    }

    fn exit(&self, _: &Id) {
        self.0.lock().unwrap().1 -= 1;
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
}

#[test]
fn commits_and_background_work_have_spans_with_their_numbers() {
    let kept = Kept::default();
    let clock = ManualClock::new();
    // With one dispatcher alone, tracing asks a place for its interest by the thread that comes
    // there first, which may be another test's and have none.
    let _second = tracing::Dispatch::new(kept.clone());
    tracing::subscriber::with_default(kept.clone(), || {
        let options = quiet().clock(Clock::Manual(clock.clone()));
        let store = Store::in_memory(options).unwrap();
        let ids = week(&store);
        for batch in [["a", "b"], ["b", "c"]] {
            let _ = ids.insert_all(batch.iter()).unwrap();
            store.seal().unwrap();
        }
        store.compact().unwrap();
        clock.advance(secs(20 * 86_400));
        store.accept_clock().unwrap();
        store.seal().unwrap();
    });
    let (spans, entered) = std::mem::take(&mut *kept.0.lock().unwrap());
    assert_eq!(entered, 0, "each is left");
    let of = |name: &str| -> Vec<&BTreeMap<&str, String>> {
        let named = spans.iter().filter(|s| s.0 == name);
        named.map(|s| &s.1).collect()
    };
    let field = |name: &str, field: &str| -> Vec<String> {
        let all = of(name);
        all.iter().map(|fields| fields[field].clone()).collect()
    };
    assert_eq!(field("open", "replayed_ids"), ["0"]);
    assert_eq!(field("commit", "items"), ["2", "2"]);
    assert_eq!(field("commit", "first"), ["2", "1"]);
    assert_eq!(field("seal", "ids"), ["2", "1"]);
    assert_eq!(
        (field("merge", "runs"), field("merge", "ids")),
        (vec!["2".into()], vec!["3".into()])
    );
    assert_eq!(field("drop", "ids"), ["3"]);
}
