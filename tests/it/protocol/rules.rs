//! The rules of the write path, of sealing and of "which record wins", each with its switch.
//!
//! A rule is named after what holds while it is on; its text cites the step of the protocol it
//! stands for, and `Marked` says that the protocol marks it as load-bearing. `Plain` rules are
//! written there too, or follow from it. A step that demands several things has several rules.

/// Whether the protocol marks the rule as one whose removal breaks a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Weight {
    /// Marked.
    Marked,
    /// Stated or implied, not marked.
    Plain,
    /// Stated, and spare given the others: exploring without it must find nothing.
    Spare,
}

macro_rules! rules {
    ($($name:ident, $weight:ident, $cites:literal;)*) => {
        /// One switch of the models.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub(super) enum Rule {
            $(#[doc = $cites] $name,)*
        }

        impl Rule {
            /// Every rule, in the order of the protocol.
            pub(super) const ALL: &[Rule] = &[$(Rule::$name),*];

            /// The rule's own name.
            pub(super) fn name(self) -> &'static str {
                match self { $(Rule::$name => stringify!($name),)* }
            }

            /// Which step it stands for, and what it says.
            pub(super) fn cites(self) -> &'static str {
                match self { $(Rule::$name => $cites,)* }
            }

            /// Whether the protocol marks it.
            pub(super) fn weight(self) -> Weight {
                match self { $(Rule::$name => Weight::$weight,)* }
            }
        }
    };
}

rules! {
    // Holding ids and locking rows.
    OneHoldTable, Marked, "write path 3: one in-flight table, which knows no segments";
    FirstPassNeverWaits, Marked, "write path 3: pass 1 releases everything on a foreign hold";
    SecondPassSorted, Marked, "write path 3: pass 2 waits only while holding smaller ids";
    RepeatWithinBatch, Marked, "write path 3: an owner that meets itself is a repeat, no wait";
    IdsBeforeRows, Plain, "write path 6: ids are held before rows are locked";
    RowsSorted, Plain, "write path 6: a batch locks its rows in order";
    ClosureTriesLocks, Plain, "write path 6: a closure waits only for its recorded set, sorted";
    RowsLocked, Plain, "write path 6: rows of guarded tables are locked before they are read";
    RowsUntilWritten, Plain, "write path 12: rows are released after the write";
    // Looking up.
    ViewAfterHold, Marked, "write path 4: the view is loaded after the hold";
    OneView, Marked, "write path 4: the view is loaded once for segments and generations";
    ReadErrorReturned, Marked, "write path 4: a read error is returned, never taken for new";
    TimeAfterLookups, Marked, "write path 5: effective time is read after all lookups";
    MarkAfterHold, Marked, "write path 5: the written mark is read after the hold";
    // Committing.
    GateOfCurrent, Plain, "write path 8: the gate entered is that of the still current segment";
    OneWriteInFlight, Plain, "write path 8 (I3): one write at a time, so n is WAL order";
    NumberWhileHeld, Marked, "record 6: n is drawn while the id is held";
    OneBatch, Plain, "write path 9: log record and mutations are one write batch";
    ErrorPoisons, Plain, "write path 11: a failed write poisons and keeps the holds";
    FullLeavesNothing, Plain, "write path 11: a full disk leaves nothing whole of a write";
    UnknownAnsweredAtOpen, Plain, "write path 11: Unknown is answered by what the open found";
    SetBeforeGate, Marked, "write path 12: ids enter the set before the gate is left";
    SetBeforeRelease, Marked, "write path 12 (I2): ids enter the set before the hold goes";
    WrittenBeforeRelease, Marked, "write path 12: `written` rises before the hold goes";
    RaisedByMax, Spare, "write path 12: `written` becomes max(written, n)";
    DuplicateWaits, Plain, "write path 13 (I5): a Synced duplicate waits for its original";
    MarkBeforeFlush, Plain, "write path 13: `durable` becomes the mark captured before the flush";
    // Sealing.
    GateEmpty, Marked, "sealing 3: wait for the segment's gate to be empty";
    FlushBeforeIngest, Marked, "sealing 4: flush the WAL and persist the mark before any ingest";
    SkipAgain, Marked, "sealing 5: a re-seal skips the expired that an earlier seal skipped";
    SkipEnded, Marked, "sealing 5: nothing is sealed into a slice that has ended";
    RandomRunIds, Marked, "sealing 5: every run carries a random run id";
    OldestSegmentFirst, Marked, "sealing 6: segments are ingested oldest first";
    MarkerBeforeIngest, Plain, "sealing 4 and 9: marker and floor come before the first ingest";
    MarkerSynced, Marked, "sealing 9: the marker row is committed with sync";
    MarkerBeforeFloor, Marked, "sealing 9: the marker is durable before the floor names it";
    FloorRenewed, Marked, "sealing 9: the floor is renewed before the log goes";
    MarkerBeforeDrop, Marked, "sealing 10: the log goes only after marker and floor";
    OneSegmentAtATime, Marked, "sealing 10: a log is gone before the next segment's ingest";
    DropAfterMark, Marked, "dropping: the mark is persisted before a generation goes";
    DropEarliestFirst, Spare, "dropping: only the generation with the earliest slice end goes";
    // Which record wins.
    ClaimsOutrank, Marked, "record 1: claims are asked before segments";
    NewestSegmentFirst, Marked, "record 1: segments are asked new to old";
    LatestSliceFirst, Marked, "record 1: generations are asked latest slice first";
    FirstHitStands, Marked, "record 1: the first hit is the record, expired or tombstone too";
    PlacedAboveHit, Marked, "record 3: a write is placed at max(own slice, hit's placement)";
    OverFlag, Marked, "record 3: a write that had a hit is flagged `over`";
    ClaimKeepsPlace, Marked, "record 3: a claim stores the placement it was taken over";
    TombstoneAtHit, Marked, "record 3: a tombstone goes to its hit's placement";
    ForgetOnlyLive, Spare, "record 3: forgetting an unknown or expired id writes nothing";
    FilterHoldsAll, Marked, "record 4: tombstones and `over` records stand in every filter";
    MergeKeepsTombstones, Marked, "record 4: no merge removes a tombstone";
    MergeKeepsOver, Marked, "record 4: no merge removes an `over` record";
    LaterRunWins, Marked, "record 5: within a generation the later run wins";
    MergedRunOrder, Marked, "record 5: a merged run takes its inputs' highest order number";
    // Generations, filters, runs.
    ViewsPinRuns, Plain, "runs: merged inputs are removed after the last view that lists them";
    StraysGoAtOpen, Plain, "runs: inputs a crash left beside their merged run go at open";
    EmptyMergeLeavesKey, Plain, "runs: a merge with nothing left still ingests its run key";
    SnapshotListsEveryRun, Plain, "filters: a snapshot counts only if it lists every run";
    // Recovery, copies, time.
    ContiguousNumbers, Spare, "recovery: commit numbers are contiguous above the marker";
    FloorAlwaysChecked, Plain, "recovery: the marker is held against the floor in every mode";
    WalsVerified, Plain, "recovery: a hole between two logs is seen, whatever the bit says";
    StickyBitFirst, Plain, "recovery: the bit is durable before the first unsynced commit";
    FloorOfTheCopy, Plain, "checkpoints: a copy's floor comes from its own marker";
    NewIncarnation, Plain, "checkpoints: a copy gets a new incarnation";
    PersistedTimeRemoves, Marked, "time: what removes records compares with the persisted mark";
    TimeNeverBelowMark, Plain, "time: effective time is never below the persisted mark";
}

/// The rules in force: one bit each.
#[derive(Clone, Copy)]
pub(super) struct Rules(u128);

impl Rules {
    /// The protocol as it stands.
    pub(super) const ALL: Rules = Rules(u128::MAX);

    /// No rule at all: the canary.
    pub(super) const NONE: Rules = Rules(0);

    /// These rules, less one.
    pub(super) fn without(self, rule: Rule) -> Rules {
        Rules(self.0 & !(1 << rule as u8))
    }

    /// Whether `rule` is in force.
    pub(super) fn on(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u8) != 0
    }
}
