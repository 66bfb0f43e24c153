//! Which workload shows what a rule is for.
//!
//! Each rule has a home: the workload in which its removal alone breaks the promise named beside
//! it. Spare rules have none. They stay in the protocol for what they save, and are tested by
//! exploring without them:
//!
//! - `ForgetOnlyLive`: a tombstone over an expired record lands on that record's placement and
//!   changes no verdict; it only costs a write.
//! - `DropEarliestFirst`: every record of a generation that has ended by the persisted mark has
//!   expired, so an older one that shows up below it is as expired as the one that went.
//! - `RaisedByMax`: with one write in flight n is WAL order, so the last n is the highest.
//! - `ContiguousNumbers`: a hole between two logs is what `WalsVerified` sees already. The engine
//!   calls that check experimental, so ours stays; without the engine's it is the only one.

use super::explore::{Broken, Outcome, explore};
use super::rules::{Rule, Rules};
use super::{copies, floor, group, index, rows};

/// A workload of one of the models.
#[derive(Clone, Copy)]
pub(super) enum Home {
    Index(index::Workload),
    Group(group::Workload),
    Floor(floor::Workload),
    Rows(rows::Workload),
    Copies(copies::Workload),
}

impl Home {
    /// Every workload of every model.
    pub(super) fn all() -> Vec<Home> {
        let mut all: Vec<Home> = index::ALL.iter().copied().map(Home::Index).collect();
        all.extend(group::ALL.iter().copied().map(Home::Group));
        all.extend(floor::ALL.iter().copied().map(Home::Floor));
        all.extend(rows::ALL.iter().copied().map(Home::Rows));
        all.extend(copies::ALL.iter().copied().map(Home::Copies));
        all
    }

    /// Explores it under `rules`.
    pub(super) fn explore(self, rules: Rules) -> Outcome {
        match self {
            Home::Index(workload) => explore::<index::State>(&workload.under(rules)),
            Home::Group(workload) => explore::<group::State>(&workload.under(rules)),
            Home::Floor(workload) => explore::<floor::State>(&workload.under(rules)),
            Home::Rows(workload) => explore::<rows::State>(&workload.under(rules)),
            Home::Copies(workload) => explore::<copies::State>(&workload.under(rules)),
        }
    }

    /// Model and workload, for the report.
    pub(super) fn name(self) -> String {
        let (model, workload) = match self {
            Home::Index(workload) => ("index", workload.name),
            Home::Group(workload) => ("group", workload.name),
            Home::Floor(workload) => ("floor", workload.name),
            Home::Rows(workload) => ("rows", workload.name),
            Home::Copies(workload) => ("copies", workload.name),
        };
        format!("{model}/{workload}")
    }
}

/// Where the removal of a rule shows, and what it breaks there. `None` for spare rules.
pub(super) fn home(rule: Rule) -> Option<(Home, Broken)> {
    use Broken::{Double, FalseRefusal, Lost, SilentShort, Torn, WrongAnswer, Zombie};
    Some(match rule {
        Rule::FirstPassNeverWaits | Rule::SecondPassSorted | Rule::RepeatWithinBatch => {
            (Home::Rows(rows::BATCHES), Broken::Deadlock)
        }
        Rule::IdsBeforeRows | Rule::RowsSorted | Rule::ClosureTriesLocks => {
            (Home::Rows(rows::CLOSURES), Broken::Deadlock)
        }
        Rule::RowsLocked | Rule::RowsUntilWritten => {
            (Home::Rows(rows::CLOSURES), Broken::LostUpdate)
        }
        Rule::OneHoldTable | Rule::GateOfCurrent | Rule::GateEmpty => at(index::RACE, Double),
        Rule::SetBeforeGate | Rule::SetBeforeRelease => at(index::RACE, Double),
        Rule::OneView | Rule::TimeAfterLookups | Rule::NumberWhileHeld => at(index::FORGET, Double),
        Rule::ViewAfterHold => at(index::FORGET, Lost),
        Rule::ReadErrorReturned => at(index::READ, Double),
        Rule::FlushBeforeIngest => at(index::LEVELS, Torn),
        Rule::SkipAgain | Rule::PersistedTimeRemoves => at(index::CLOCK, Double),
        Rule::TimeNeverBelowMark => at(index::CLOCK, Double),
        Rule::SkipEnded => at(index::DROP, Zombie),
        Rule::DropAfterMark => at(index::DROP, Double),
        Rule::OldestSegmentFirst | Rule::OneSegmentAtATime => at(index::FORGET, Lost),
        Rule::NewestSegmentFirst | Rule::FirstHitStands => at(index::FORGET, Lost),
        Rule::TombstoneAtHit | Rule::LaterRunWins | Rule::OverFlag => at(index::FORGET, Lost),
        Rule::LatestSliceFirst | Rule::PlacedAboveHit => at(index::TAKEOVER, Double),
        Rule::FilterHoldsAll => at(index::TAKEOVER, Double),
        Rule::ClaimsOutrank | Rule::ClaimKeepsPlace => at(index::CLAIM, Double),
        Rule::MergeKeepsTombstones | Rule::MergeKeepsOver => at(index::MERGE, Lost),
        Rule::MergedRunOrder | Rule::ViewsPinRuns => at(index::STRAY, Double),
        Rule::StraysGoAtOpen | Rule::EmptyMergeLeavesKey => at(index::STRAY, Double),
        Rule::MarkAfterHold | Rule::OneWriteInFlight | Rule::MarkBeforeFlush => {
            (Home::Group(group::POWER), Lost)
        }
        Rule::WrittenBeforeRelease | Rule::DuplicateWaits => (Home::Group(group::POWER), Lost),
        Rule::OneBatch => (Home::Group(group::POWER), Torn),
        Rule::ErrorPoisons | Rule::FullLeavesNothing => (Home::Group(group::FAILURE), Double),
        Rule::UnknownAnsweredAtOpen => (Home::Group(group::FAILURE), WrongAnswer),
        Rule::MarkerBeforeIngest | Rule::FloorRenewed => {
            (Home::Floor(floor::UNSYNCED), SilentShort)
        }
        Rule::MarkerSynced | Rule::MarkerBeforeFloor | Rule::MarkerBeforeDrop => {
            (Home::Floor(floor::SOUND), FalseRefusal)
        }
        Rule::StickyBitFirst => (Home::Floor(floor::SOUND), FalseRefusal),
        Rule::FloorAlwaysChecked | Rule::WalsVerified => (Home::Floor(floor::SYNCED), SilentShort),
        Rule::RandomRunIds | Rule::SnapshotListsEveryRun => (Home::Copies(copies::RESTORE), Double),
        Rule::FloorOfTheCopy => (Home::Copies(copies::RESTORE), FalseRefusal),
        Rule::NewIncarnation => (Home::Copies(copies::RESTORE), WrongAnswer),
        Rule::ForgetOnlyLive
        | Rule::DropEarliestFirst
        | Rule::RaisedByMax
        | Rule::ContiguousNumbers => return None,
    })
}

/// The workloads that have what a spare rule is about.
pub(super) fn touched_by_spare(rule: Rule) -> Vec<Home> {
    let forgetful = [index::FORGET, index::MERGE, index::DROP];
    match rule {
        Rule::ForgetOnlyLive | Rule::DropEarliestFirst => forgetful.map(Home::Index).to_vec(),
        Rule::RaisedByMax => group::ALL.iter().copied().map(Home::Group).collect(),
        Rule::ContiguousNumbers => floor::ALL.iter().copied().map(Home::Floor).collect(),
        _ => Vec::new(),
    }
}

fn at(workload: index::Workload, broken: Broken) -> (Home, Broken) {
    (Home::Index(workload), broken)
}
