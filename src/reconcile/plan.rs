//! From findings to a repair: all of them kept first, then applied in small commits.
//!
//! A plan is the dry run: it has counts, a sample, and every finding that can be repaired, in a
//! temporary file. Applying it forgets and records exactly those ids, each with its audit entry
//! in the same commit. What has changed since the comparison is left as it is: an id is
//! forgotten only if its record is still the one that was compared, and recorded only if it is
//! still unknown.

use crate::clock::since_epoch;
use crate::commit::{AUDIT_ROWS_A_COMMIT, Amended, Amendment, Telling};
use crate::error::{Error, Result};
use crate::id::Id;
use crate::scope::Scope;
use crate::why::Why;

use super::compare::Reconciliation;
use super::spill::{Spill, SpillWriter};
use super::{Counts, Finding, FindingClass};

/// What a comparison found, and what may be done about it; see [`Reconciliation::plan`].
#[derive(Debug)]
pub struct RepairPlan {
    scope: Scope,
    counts: Counts,
    sample: Vec<Finding>,
    amendments: Spill,
}

/// What to repair, why, and who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Repair<'a> {
    why: Why<'a>,
    forget: bool,
    record: bool,
}

impl<'a> Repair<'a> {
    /// Forgets ids whose effect is missing, and records unknown ids whose effect is there.
    pub fn all(why: impl Into<Why<'a>>) -> Repair<'a> {
        Repair {
            why: why.into(),
            forget: true,
            record: true,
        }
    }

    /// Only forgets ids whose effect is missing.
    pub fn forget(why: impl Into<Why<'a>>) -> Repair<'a> {
        Repair {
            record: false,
            ..Repair::all(why)
        }
    }

    /// Only records unknown ids whose effect is there.
    pub fn record(why: impl Into<Why<'a>>) -> Repair<'a> {
        Repair {
            forget: false,
            ..Repair::all(why)
        }
    }
}

/// What a repair did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// Ids forgotten: their redelivery is first seen.
    pub forgotten: u64,
    /// Ids recorded: their redelivery is a duplicate.
    pub recorded: u64,
    /// Left as they are, since they changed after the comparison: forgotten, expired, seen or
    /// recorded meanwhile.
    pub changed: u64,
    /// Not recorded, since they would have expired by now.
    pub expired: u64,
    /// Left, since another caller holds them: compare again later.
    pub in_progress: u64,
    /// Not recorded, since the scope's policy takes no id so long.
    pub bad: u64,
}

/// An amendment is spilled as: 0 and the first sight it is for (forget), or 1 and the first
/// sight it gets (record), u64 LE; then the id.
const FORGET: u8 = 0;
const RECORD: u8 = 1;

impl Reconciliation {
    /// Reads all that is left, and keeps what can be repaired: counts, and the first findings
    /// as a sample. Nothing is changed.
    ///
    /// # Errors
    /// What the comparison met; `Full` without room for the plan.
    pub fn plan(mut self, sample: usize) -> Result<RepairPlan> {
        let mut writer = SpillWriter::new(&self.place)?;
        let mut first = Vec::new();
        let mut record = Vec::new();
        let now_ms = self.scope.shared.core()?.committer.index.time.now_ms();
        for found in &mut self {
            let finding = found?;
            if let Some((how, ms)) = amendment(&finding, now_ms) {
                record.clear();
                record.push(how);
                record.extend_from_slice(&ms.to_le_bytes());
                record.extend_from_slice(&finding.id);
                writer.put(&record)?;
            }
            if first.len() < sample {
                first.push(finding);
            }
        }
        Ok(RepairPlan {
            counts: self.counts(),
            scope: self.scope,
            sample: first,
            amendments: writer.finish()?,
        })
    }
}

fn amendment(finding: &Finding, now_ms: u64) -> Option<(u8, u64)> {
    match (finding.class, &finding.seen) {
        (FindingClass::EffectMissing, Some(seen)) => {
            Some((FORGET, since_epoch(seen.first_seen_at())))
        }
        (FindingClass::IdUnknown, _) => {
            let at = finding.effect_at.map_or(now_ms, since_epoch);
            Some((RECORD, at))
        }
        _ => None,
    }
}

fn decode(record: &[u8]) -> Option<(Amendment, &[u8])> {
    let (how, rest) = record.split_first()?;
    let (ms, id) = rest.split_first_chunk::<8>()?;
    let first_ms = u64::from_le_bytes(*ms);
    let how = match *how {
        FORGET => Amendment::Forget {
            first_ms: Some(first_ms),
        },
        RECORD => Amendment::Record { first_ms },
        _ => return None,
    };
    Some((how, id))
}

impl RepairPlan {
    /// How the comparison came out.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The first findings, as many as were asked for.
    #[must_use]
    pub fn sample(&self) -> &[Finding] {
        &self.sample
    }

    /// Repairs what was found, in commits of up to 1,000 ids, each with its audit entries. After
    /// an error some commits may have been made; applying the plan again goes on, since what is
    /// done counts as changed then. Durable at the store's level, `Written` for `Buffered`.
    ///
    /// Whether an effect has come or gone since the comparison only the caller can know: stop
    /// what writes effects without ids, or leave a grace that covers it.
    ///
    /// # Errors
    /// `Invalid` without a reason; as [`Scope::forget`].
    pub fn apply(&self, repair: &Repair<'_>) -> Result<Repaired> {
        repair.why.check("a repair")?;
        let caps = self.scope.shared.caps;
        let ids_max = AUDIT_ROWS_A_COMMIT.min(caps.items);
        let mut repaired = Repaired::default();
        let mut chunk = Chunk::default();
        let mut records = self.amendments.read()?;
        while let Some(record) = records.next()? {
            let (how, id) = decode(record)
                .ok_or_else(|| Error::damaged("a planned repair is of an unknown form"))?;
            let is_wanted = match how {
                Amendment::Forget { .. } => repair.forget,
                Amendment::Record { .. } => repair.record,
            };
            if !is_wanted {
                continue;
            }
            if chunk.how.len() == ids_max || chunk.bytes + id.len() > caps.bytes {
                chunk.apply(&self.scope, &repair.why, &mut repaired)?;
            }
            chunk.bytes += id.len();
            chunk.ids.push(id.into());
            chunk.how.push(how);
        }
        chunk.apply(&self.scope, &repair.why, &mut repaired)?;
        Ok(repaired)
    }
}

/// What one commit amends.
#[derive(Default)]
struct Chunk {
    ids: Vec<Box<[u8]>>,
    how: Vec<Amendment>,
    bytes: usize,
}

impl Chunk {
    fn apply(&mut self, scope: &Scope, why: &Why<'_>, repaired: &mut Repaired) -> Result<()> {
        if self.how.is_empty() {
            return Ok(());
        }
        let ids = self.ids.iter().map(Id::new);
        let fates = scope.amend(ids, &self.how, (why, Telling::Each))?;
        for (fate, how) in fates.iter().zip(&self.how) {
            *match (fate, how) {
                (Amended::Done, Amendment::Forget { .. }) => &mut repaired.forgotten,
                (Amended::Done, Amendment::Record { .. }) => &mut repaired.recorded,
                (Amended::Differs, _) => &mut repaired.changed,
                (Amended::Expired, _) => &mut repaired.expired,
                (Amended::Held, _) => &mut repaired.in_progress,
                (Amended::Bad, _) => &mut repaired.bad,
            } += 1;
        }
        *self = Chunk::default();
        Ok(())
    }
}
