//! One open approximate scope: its filters, and what of it is on disk.
//!
//! Two files, in the store's folder `approx`: the snapshot, and a mark that is there while the
//! scope is open. A mark that is there at an opening says that the process ended without closing
//! it, and so that the snapshot lacks what came after its beginning.
//!
//! Invariants
//! 1. The mark is durable before the first id is answered, and goes only once a snapshot of all
//!    that was answered is durable.
//! 2. A snapshot has all ids whose call returned before it was begun: its `from`.
//! 3. What a crash took is told until it would be forgotten anyway, through any number of
//!    further openings.
//!
//! Concurrency: `saving` orders who writes the files; answering ids takes none of it. Failure: a
//! snapshot that can't be written leaves the last one; the next is tried an interval later.

use std::fs::File;
use std::io::BufReader;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clock::Stopwatch;
use crate::engine::Home;
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{CachePadded, Mutex};

use super::options::Approximate;
use super::ring::{Ring, Seen, Slice};
use super::sketch::{Sketch, standard_error};
use super::snapshot::{self, Head, Reader};
use super::told::{ApproximateStats, Distinct, Recovery};
use super::{FOLDER, mark_file, snapshot_file};

/// What the mark's file holds: only its being there says something.
const MARK: &[u8] = b"FSopen\x01\x00";

/// An open approximate scope.
pub(crate) struct State {
    pub(crate) name: String,
    made_for: Approximate,
    seed: u64,
    ring: Ring,
    short: Option<(u64, u64)>,
    probably: CachePadded<AtomicU64>,
    saving: Mutex<Saving>,
    saved: Mutex<Saved>,
}

/// Who holds it writes the files.
struct Saving {
    /// Answers that were there when the last snapshot was begun.
    answers: u64,
    dropped: bool,
}

#[derive(Clone, Copy)]
struct Saved {
    since: Stopwatch,
    at_ms: u64,
    count: u64,
    failed: u64,
}

impl State {
    /// Makes it, or brings it back from its snapshot.
    ///
    /// # Errors
    /// `Invalid` if it was made for something else; `Damaged`; `Busy` without memory; I/O errors.
    pub(super) fn open(
        home: &Home,
        name: &str,
        made_for: &Approximate,
        seed: u64,
        now_ms: u64,
    ) -> Result<State> {
        made_for.bytes()?;
        let found = match home.directory() {
            Some(_) => bring_back(home, name, made_for, now_ms)?,
            None => None,
        };
        let is_new = found.is_none();
        let (ring, head) = match found {
            Some(found) => found,
            None => made(name, made_for, seed, now_ms)?,
        };
        ring.work_out_rate();
        let state = State {
            name: name.to_string(),
            made_for: made_for.clone(),
            seed: head.seed,
            ring,
            short: head.short,
            probably: CachePadded::default(),
            saving: Mutex::new(Saving {
                // What a crash took is to be stored, also if nothing comes any more.
                answers: head.short.map_or(0, |_| u64::MAX),
                dropped: false,
            }),
            saved: Mutex::new(Saved {
                since: Stopwatch::start(),
                at_ms: head.from_ms,
                count: 0,
                failed: 0,
            }),
        };
        if home.directory().is_some() {
            if is_new {
                home.make_folder(FOLDER)?;
                state.write(home, now_ms)?;
            }
            home.replace(&mark_file(name), MARK)?;
        }
        Ok(state)
    }

    /// Whether it was made for this.
    pub(super) fn check_made_for(&self, wanted: &Approximate) -> Result<()> {
        check_like(&self.name, &self.made_for, wanted)
    }

    /// The hash that stands for an id here.
    pub(crate) fn hash(&self, id: &[u8]) -> u64 {
        xxh3_64_with_seed(id, self.seed)
    }

    /// Asks for the memory that an insert of the hash looks at.
    pub(crate) fn prefetch(&self, hash: u64) {
        self.ring.prefetch(hash);
    }

    /// The atomic check-and-insert of an id by its hash.
    ///
    /// # Errors
    /// `Closed`, or `Invalid` once it was dropped.
    pub(crate) fn insert(&self, hash: u64, now_ms: u64) -> Result<bool> {
        match self.ring.insert(hash, now_ms) {
            Seen::First => Ok(true),
            Seen::Probably => {
                self.probably.fetch_add(1, Ordering::Relaxed);
                Ok(false)
            }
            Seen::Closed => Err(self.closed()),
        }
    }

    fn closed(&self) -> Error {
        match self.saving.lock().dropped {
            true => Error::invalid(format!("approximate scope {:?} was dropped", self.name)),
            false => Error::closed(),
        }
    }

    /// The chance that a new id is taken for a seen one now.
    pub(crate) fn error_rate(&self) -> f64 {
        self.ring.rate()
    }

    pub(crate) fn distinct(&self, now_ms: u64) -> Distinct {
        self.ring.advance(now_ms);
        let slices = self.ring.remembered();
        let sketches = slices.iter().map(|slice| &*slice.sketch);
        let all = Sketch::union(self.made_for.precision, sketches);
        let shape = &self.ring.shape;
        let oldest = self.ring.current().saturating_sub(shape.slices.into());
        Distinct {
            estimate: all.estimate(),
            standard_error: standard_error(self.made_for.precision),
            since: at(oldest.saturating_mul(shape.slice_ms)),
        }
    }

    pub(crate) fn stats(&self, now_ms: u64) -> ApproximateStats {
        self.ring.advance(now_ms);
        let (most, remembered) = self.ring.ids();
        let saved = *self.saved.lock();
        ApproximateStats {
            first: self.ring.first.load(Ordering::Relaxed),
            probably: self.probably.load(Ordering::Relaxed),
            remembered,
            fill: most as f64 / self.ring.shape.slice_ids as f64,
            error_rate: self.error_rate(),
            error_rate_stated: self.made_for.error_rate,
            beyond_expected: self.ring.beyond.load(Ordering::Relaxed),
            bytes: self.bytes(),
            rotations: self.ring.turns.load(Ordering::Relaxed),
            snapshot_at: at(saved.at_ms),
            snapshots: saved.count,
            snapshots_failed: saved.failed,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.ring.shape.bytes().unwrap_or(u64::MAX)
    }

    /// What of the window is known.
    pub(crate) fn recovery(&self, now_ms: u64) -> Recovery {
        match self.still_short(now_ms) {
            None => Recovery::Whole,
            Some((from, until)) => Recovery::Short {
                from: at(from),
                until: at(until),
            },
        }
    }

    fn still_short(&self, now_ms: u64) -> Option<(u64, u64)> {
        still_short(self.short, &self.ring, now_ms)
    }

    /// Whether background work has something to do here.
    pub(super) fn is_due(&self) -> bool {
        let elapsed = self.saved.lock().since.elapsed();
        elapsed >= self.made_for.snapshot_every || self.ring.has_stale()
    }

    /// Cleans what is remembered no more; writes a snapshot if the last one is old.
    pub(super) fn maintain(&self, home: &Home, now_ms: u64) -> Result<()> {
        self.ring.clean_stale();
        let is_old = {
            let mut saved = self.saved.lock();
            saved.since.restart_after(self.made_for.snapshot_every)
        };
        match is_old {
            true => self.save(home, now_ms),
            false => Ok(()),
        }
    }

    /// Writes a snapshot, if anything was answered since the last one.
    pub(crate) fn save(&self, home: &Home, now_ms: u64) -> Result<()> {
        if home.directory().is_none() {
            return Ok(());
        }
        let mut saving = self.saving.lock();
        if saving.dropped {
            return Ok(());
        }
        let answers = self.answers();
        if answers == saving.answers {
            return Ok(());
        }
        self.write(home, now_ms)?;
        saving.answers = answers;
        Ok(())
    }

    fn answers(&self) -> u64 {
        self.ring.first.load(Ordering::Acquire) + self.probably.load(Ordering::Acquire)
    }

    /// Takes nothing in from here on, and leaves a whole snapshot.
    pub(super) fn close(&self, home: &Home, now_ms: u64) -> Result<()> {
        self.ring.close();
        self.save(home, now_ms)?;
        let saving = self.saving.lock();
        match home.directory().is_some() && !saving.dropped {
            true => home.remove_durably(&mark_file(&self.name)),
            false => Ok(()),
        }
    }

    /// As in a crash: nothing more is taken in, and nothing is written.
    #[cfg(feature = "testing")]
    pub(super) fn abandon(&self) {
        self.ring.close();
        self.saving.lock().dropped = true;
    }

    /// Takes nothing in any more, and removes what is on disk.
    pub(super) fn remove(&self, home: &Home) -> Result<()> {
        let mut saving = self.saving.lock();
        saving.dropped = true;
        self.ring.close();
        super::remove_files(home, &self.name)
    }

    /// Writes a snapshot into this store or a copy of it.
    pub(super) fn write(&self, home: &Home, now_ms: u64) -> Result<()> {
        let slices = self.ring.remembered();
        let written = home.replace_by(&snapshot_file(&self.name), |out| {
            snapshot::write(out, &self.head(&slices, now_ms), &self.ring, &slices)
        });
        let mut saved = self.saved.lock();
        match &written {
            Ok(()) => {
                saved.at_ms = now_ms;
                saved.count += 1;
            }
            Err(_) => saved.failed += 1,
        }
        written
    }

    fn head(&self, slices: &[Slice], now_ms: u64) -> Head {
        Head {
            made_for: self.made_for.clone(),
            name: self.name.clone(),
            count: slices.len() as u8,
            blocks: self.ring.shape.blocks,
            seed: self.seed,
            from_ms: now_ms,
            current: self.ring.current(),
            short: self.still_short(now_ms),
        }
    }
}

/// A new scope.
fn made(name: &str, made_for: &Approximate, seed: u64, now_ms: u64) -> Result<(Ring, Head)> {
    let shape = made_for.shape(made_for.blocks());
    let current = now_ms / shape.slice_ms;
    let head = Head {
        made_for: made_for.clone(),
        name: name.to_string(),
        count: 0,
        blocks: shape.blocks,
        seed,
        from_ms: now_ms,
        current,
        short: None,
    };
    Ok((Ring::new(shape, current)?, head))
}

/// The scope of a snapshot, if there is one.
fn bring_back(
    home: &Home,
    name: &str,
    made_for: &Approximate,
    now_ms: u64,
) -> Result<Option<(Ring, Head)>> {
    let was_open = home.has_file(&mark_file(name));
    let file = snapshot_file(name);
    let context = |e: Error| {
        e.context(format_args!(
            "approximate scope {name:?}, {file} (`drop_approximate` begins it anew)"
        ))
    };
    let Some(opened) = home.open_file(&file)? else {
        return match was_open {
            true => Err(context(Error::damaged("the snapshot is missing"))),
            false => Ok(None),
        };
    };
    let reader = reader(opened).map_err(context)?;
    let mut head = reader.head.clone();
    check_like(name, &head.made_for, made_for)?;
    if head.name != name {
        return Err(context(Error::damaged("it is of another scope")));
    }
    let shape = made_for.shape(head.blocks);
    let current = (now_ms / shape.slice_ms).max(head.current);
    let mut ring = Ring::new(shape, current)?;
    reader.slices(Some(&mut ring)).map_err(context)?;
    head.short = still_short(head.short, &ring, now_ms);
    if was_open {
        let from_ms = head.short.map_or(head.from_ms, |(from, _)| from);
        head.short = Some((from_ms, now_ms));
        log::warn!("approximate scope {name:?} was not closed: ids may be first again");
    }
    Ok(Some((ring, head)))
}

/// What of a loss would still be remembered.
fn still_short(short: Option<(u64, u64)>, ring: &Ring, now_ms: u64) -> Option<(u64, u64)> {
    let shape = &ring.shape;
    let forgotten = |until: u64| until / shape.slice_ms + u64::from(shape.slices) + 1;
    short.filter(|(_, until)| now_ms / shape.slice_ms < forgotten(*until))
}

/// Begins to read a snapshot's file.
pub(super) fn reader(file: File) -> Result<Reader<BufReader<File>>> {
    let bytes = file.metadata()?.len();
    Reader::open(BufReader::with_capacity(256 << 10, file), bytes)
}

fn check_like(name: &str, made_for: &Approximate, wanted: &Approximate) -> Result<()> {
    if made_for.is_like(wanted) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "approximate scope {name:?} was made for {}, not {}; `drop_approximate` begins it anew",
        made_for.described(),
        wanted.described()
    )))
}

fn at(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}
