//! The steps of a caller, from the hold to the release.

use super::super::explore::{Broken, Label};
use super::super::rules::Rule;
use super::record::{Place, Rec, Write};
use super::state::{Caller, Phase, State};
use super::workload::{Op, Workload};

impl State {
    pub(super) fn caller_steps(&self, setup: &Workload, out: &mut Vec<(Label, Self)>) {
        for (c, caller) in self.callers.iter().enumerate() {
            if caller.done as usize == setup.programs[c].len() {
                continue;
            }
            let next = match caller.phase {
                Phase::Ready if prepares(setup) => Some(self.prepare(setup, c)),
                Phase::Ready | Phase::Prepared => self.hold(setup, c),
                Phase::Held => Some(self.load_view(setup, c)),
                Phase::Looking => {
                    out.extend(self.fail_read(setup, c));
                    Some(self.resolve(setup, c))
                }
                Phase::Leading => self.release_early(setup, c),
                Phase::Syncing => Some(self.sync(c)),
                Phase::Queued => None,
            };
            out.extend(next);
        }
    }

    /// What a caller does too early when a rule is off.
    fn prepare(&self, setup: &Workload, c: usize) -> (Label, Self) {
        let mut next = self.clone();
        if !setup.rules.on(Rule::ViewAfterHold) {
            next.callers[c].view = self.view(setup, self.op(setup, c).id());
        }
        if !setup.rules.on(Rule::NumberWhileHeld) {
            next.callers[c].n = self.next_n;
            next.next_n += 1;
        }
        next.callers[c].phase = Phase::Prepared;
        (
            Label::caller(c, "loads its view or draws its n before the hold"),
            next,
        )
    }

    /// Step 3.
    fn hold(&self, setup: &Workload, c: usize) -> Option<(Label, Self)> {
        let rules = setup.rules;
        let id = self.op(setup, c).id();
        let current = self.current();
        let foreign = |(other, caller): (usize, &Caller)| {
            let one_table = rules.on(Rule::OneHoldTable) || caller.table == current;
            caller.phase >= Phase::Held && self.op(setup, other).id() == id && one_table
        };
        if self.callers.iter().enumerate().any(foreign) {
            return None;
        }
        let mut next = self.clone();
        let caller = &mut next.callers[c];
        caller.phase = Phase::Held;
        if !rules.on(Rule::OneHoldTable) {
            caller.table = current;
        }
        if !rules.on(Rule::TimeAfterLookups) {
            caller.time = self.now;
        }
        if !rules.on(Rule::OneView) {
            caller.view.hit = self.generations_hit(setup, id);
        }
        if !rules.on(Rule::ViewAfterHold) {
            caller.phase = Phase::Looking;
        }
        Some((Label::caller(c, "holds id").number(id as u8), next))
    }

    /// Step 4, first half.
    fn load_view(&self, setup: &Workload, c: usize) -> (Label, Self) {
        let mut next = self.clone();
        let view = &mut next.callers[c].view;
        if setup.rules.on(Rule::OneView) {
            *view = self.view(setup, self.op(setup, c).id());
        } else {
            view.segments = self.listed();
        }
        next.callers[c].phase = Phase::Looking;
        (Label::caller(c, "loads the view"), next)
    }

    /// A read of a generation fails: the call returns the error and may come again.
    fn fail_read(&self, setup: &Workload, c: usize) -> Option<(Label, Self)> {
        if !setup.read_errors || self.callers[c].view.hit.is_none() {
            return None;
        }
        let (label, mut next) = self.release(c, "has a read error");
        if !setup.rules.on(Rule::ReadErrorReturned) {
            next = self.clone();
            next.callers[c].view.hit = None;
        }
        Some((label, next))
    }

    /// Step 4, second half, and step 5.
    fn resolve(&self, setup: &Workload, c: usize) -> (Label, Self) {
        let caller = self.callers[c];
        let op = self.op(setup, c);
        let time = match setup.rules.on(Rule::TimeAfterLookups) {
            true => self.now,
            false => caller.time,
        };
        let hit = self.look_up(setup, op.id(), caller.view);
        let live = hit.is_some_and(|rec| rec.live(time));
        let claim = self.claims[op.id()];
        let blocked = claim.is_some() && (setup.rules.on(Rule::ClaimsOutrank) || hit.is_none());
        let write = match op {
            Op::See(..) | Op::Claim(_) if blocked => None,
            Op::See(..) | Op::Claim(_) if live => {
                return self.duplicate(setup, c, time);
            }
            Op::See(_, class) => {
                let over = hit.map(|rec| rec.place);
                Some(Write::Record(seen(
                    setup,
                    class.place(time),
                    class.expiry(time),
                    over,
                )))
            }
            Op::Claim(_) => Some(Write::Claim(hit.map(|rec| rec.place))),
            Op::Complete(_, class) => claim.map(|over| {
                let over = over.filter(|_| setup.rules.on(Rule::ClaimKeepsPlace));
                Write::Completion(seen(setup, class.place(time), class.expiry(time), over))
            }),
            Op::Forget(_) => {
                let forgets = live || !setup.rules.on(Rule::ForgetOnlyLive);
                hit.filter(|_| forgets)
                    .map(|rec| tombstone(setup, rec, time))
            }
        };
        match write {
            None => self.release(c, "has nothing to write and returns"),
            Some(_) => self.enqueue(c, time, write),
        }
    }

    fn duplicate(&self, setup: &Workload, c: usize, time: u8) -> (Label, Self) {
        let (label, mut next) = self.release(c, "returns duplicate");
        if !self.truly_live(self.op(setup, c).id(), time) {
            next.broken = Some(Broken::Lost);
        }
        (label, next)
    }

    fn enqueue(&self, c: usize, time: u8, write: Option<Write>) -> (Label, Self) {
        let mut next = self.clone();
        let Caller { done, n, table, .. } = self.callers[c];
        // The view goes with the lookup; what it pinned may go too.
        next.callers[c] = Caller {
            phase: Phase::Queued,
            n,
            table,
            time,
            write,
            ..Caller::ready(done)
        };
        (Label::caller(c, "queues its commit").number(time), next)
    }

    /// Only without `SetBeforeRelease`: the hold goes while the set does not know the id yet.
    fn release_early(&self, setup: &Workload, c: usize) -> Option<(Label, Self)> {
        let early = !setup.rules.on(Rule::SetBeforeRelease);
        let written = self
            .leader
            .is_some_and(|leader| leader.caller == c && leader.wrote());
        (early && written).then(|| self.release(c, "releases its hold before the set has the id"))
    }

    /// Step 13.
    fn sync(&self, c: usize) -> (Label, Self) {
        let (label, mut next) = self.release(c, "flushes the log and returns");
        next.flush_wal();
        (label, next)
    }

    /// Step 14.
    pub(super) fn release(&self, c: usize, what: &'static str) -> (Label, Self) {
        let mut next = self.clone();
        next.callers[c] = Caller::ready(self.callers[c].done + 1);
        (Label::caller(c, what), next)
    }
}

fn prepares(setup: &Workload) -> bool {
    !setup.rules.on(Rule::ViewAfterHold) || !setup.rules.on(Rule::NumberWhileHeld)
}

/// A record of first sight or of completion; the leader puts n in.
fn seen(setup: &Workload, own: Place, expiry: u8, over: Option<Place>) -> Rec {
    let place = match over {
        Some(place) if setup.rules.on(Rule::PlacedAboveHit) => own.max(place),
        _ => own,
    };
    let over = over.is_some() && setup.rules.on(Rule::OverFlag);
    Rec {
        n: 0,
        place,
        expiry,
        over,
        tombstone: false,
    }
}

fn tombstone(setup: &Workload, hit: Rec, time: u8) -> Write {
    let place = match setup.rules.on(Rule::TombstoneAtHit) {
        true => hit.place,
        false => super::record::Class::Short.place(time),
    };
    Write::Record(Rec {
        n: 0,
        place,
        expiry: 0,
        over: false,
        tombstone: true,
    })
}
