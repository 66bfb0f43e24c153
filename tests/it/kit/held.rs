//! The model's batches that hold their ids.

use super::draft::{Draft, check, own};
use super::model::{Model, failed, preview, settle};
use super::op::{Batch, Finish, Item, bare, give_out, id};
use super::said::{Said, UNDECIDED, list};

/// A batch that holds its ids.
#[derive(Clone, Debug)]
pub(super) struct Held {
    now_ms: u64,
    /// Ids that others held when it was decided.
    foreign: Vec<(usize, Vec<u8>)>,
    items: Vec<(usize, Item)>,
    ids: Vec<(usize, Vec<u8>)>,
    first: Vec<usize>,
}

impl Held {
    pub(super) fn ids(&self) -> &[(usize, Vec<u8>)] {
        &self.ids
    }
}

impl Model {
    pub(super) fn hold(&mut self, items: &[(usize, Item)]) -> String {
        self.held = None;
        let batch = Batch {
            items: bare(items),
            ..Batch::default()
        };
        if let Err(kind) = self.misused(&batch) {
            return failed(kind);
        }
        let foreign = self.foreign();
        let mut draft = Draft::new(self, self.now_ms, &foreign);
        let said = preview(&mut draft, &batch.items);
        let mut ids = Vec::new();
        // What somebody else has is not held under either form.
        let is_held = |(scope, item): &&(usize, Item)| {
            check(*scope, item) == Ok(false) && !draft.is_in_progress(*scope, item)
        };
        for (scope, item) in items.iter().filter(is_held) {
            let named = [own(item), item.also.map(id)];
            ids.extend(named.into_iter().flatten().map(|id| (*scope, id)));
        }
        let first = (0..said.len())
            .filter(|i| said[*i] == Said::First)
            .collect();
        self.held = Some(Held {
            now_ms: self.now_ms,
            foreign,
            items: batch.items,
            ids,
            first,
        });
        list(&said)
    }

    pub(super) fn finish(&mut self, finish: &Finish) -> String {
        let Some(mut held) = self.held.take() else {
            return "nothing held".to_string();
        };
        if !finish.committed {
            return "dropped".to_string();
        }
        give_out(&finish.writes, &held.first, |i, write| {
            held.items[i].1.writes.push(write)
        });
        for i in &held.first {
            held.items[*i].1.results.first = finish.result;
        }
        let batch = Batch {
            items: held.items,
            points: finish.points.clone(),
            ..Batch::default()
        };
        // It may have met a claim, which no resume point passes.
        let said = preview(
            &mut Draft::new(self, held.now_ms, &held.foreign),
            &batch.items,
        );
        if self.misused(&batch).is_ok()
            && !batch.points.is_empty()
            && said.contains(&Said::InProgress)
        {
            self.totals.undecided += 1;
            return failed(UNDECIDED);
        }
        let draft = Draft::new(self, held.now_ms, &held.foreign);
        let checked = self.misused(&batch);
        let checked = checked.and_then(|()| self.check_locks(&batch));
        let outcome = checked.and_then(|()| settle(draft, &batch.items, &[]));
        let outcome = outcome.and_then(|(said, effects)| {
            self.commit(effects, &batch.points)?;
            Ok(said)
        });
        match outcome {
            Ok(said) => {
                said.iter().for_each(|s| self.totals.count(s));
                list(&said)
            }
            Err(kind) => failed(kind),
        }
    }
}
