//! Records, retention classes, and the one order of generations.
//!
//! Slices are wider than the retention they serve, other than in the store, so that few ticks of
//! the clock reach every order of slice ends. No rule uses that proportion.

/// How many ids there are.
pub(super) const IDS: usize = 2;

/// Something for each id.
pub(super) type PerId<T> = [T; IDS];

/// Later than the clock of any workload.
const NEVER: u8 = 60;

/// How long an id is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Class {
    /// One tick, in slices of one tick.
    Short,
    /// Two ticks, in slices of four.
    Long,
    /// For ever, in the one generation that never ends.
    Ever,
}

/// A generation: slice end, then class. This is the one order for probing and for placing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Place {
    end: u8,
    class: u8,
}

impl Place {
    /// Whether nothing in it can be live at `time`.
    pub(super) fn ended(self, time: u8) -> bool {
        self.end <= time
    }
}

impl Class {
    /// When an id first seen at `time` expires.
    pub(super) fn expiry(self, time: u8) -> u8 {
        match self {
            Class::Short => time + 1,
            Class::Long => time + 2,
            Class::Ever => NEVER,
        }
    }

    /// The slice in which an id first seen at `time` expires.
    pub(super) fn place(self, time: u8) -> Place {
        let expiry = self.expiry(time);
        match self {
            Class::Short => Place {
                end: expiry + 1,
                class: 0,
            },
            // Slices end at 2, 6, 10: an id of tick 0 or 1 outlives its expiry by far.
            Class::Long => Place {
                end: ((expiry + 2) / 4 + 1) * 4 - 2,
                class: 1,
            },
            Class::Ever => Place {
                end: NEVER,
                class: 2,
            },
        }
    }
}

/// What the index knows of one id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Rec {
    /// The commit that wrote it.
    pub(super) n: u8,
    /// The generation it is, or will be, sealed into.
    pub(super) place: Place,
    /// Live while the time is below this.
    pub(super) expiry: u8,
    /// There was a hit when it was written: an older record may lie below.
    pub(super) over: bool,
    /// Forgotten.
    pub(super) tombstone: bool,
}

impl Rec {
    /// Whether the id is a duplicate at `time`.
    pub(super) fn live(self, time: u8) -> bool {
        !self.tombstone && time < self.expiry
    }

    /// Whether an older record may lie below it.
    pub(super) fn supersedes(self) -> bool {
        self.over || self.tombstone
    }
}

/// What one commit writes about its id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Write {
    /// A log record.
    Record(Rec),
    /// A log record that ends the claim on its id.
    Completion(Rec),
    /// A claim row, with the placement of the hit it was taken over.
    Claim(Option<Place>),
}

impl Write {
    /// The log record in it, if there is one.
    pub(super) fn record(self) -> Option<Rec> {
        match self {
            Write::Record(rec) | Write::Completion(rec) => Some(rec),
            Write::Claim(_) => None,
        }
    }

    /// The same write as commit `n`.
    pub(super) fn numbered(self, n: u8) -> Self {
        match self {
            Write::Record(rec) => Write::Record(Rec { n, ..rec }),
            Write::Completion(rec) => Write::Completion(Rec { n, ..rec }),
            claim => claim,
        }
    }

    /// What the claim on the id is after this write, given what it was.
    pub(super) fn claim_after(self, before: Option<Option<Place>>) -> Option<Option<Place>> {
        match self {
            Write::Record(_) => before,
            Write::Completion(_) => None,
            Write::Claim(place) => Some(place),
        }
    }
}
