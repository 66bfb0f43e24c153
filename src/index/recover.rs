//! Opening: families, marks, runs, and the replay of what was not sealed.
//!
//! O(unsealed ids), not O(ids): a generation costs one footer a run; its filter comes later, in
//! the background. What must hold, or the store is refused:
//! - the floor: the last commit found is no less than the one known durable;
//! - commit numbers are contiguous above the marker (the last sealed commit);
//! - every family, footer and record decodes.
//!
//! Segments found with commits are frozen (still asked, sealed in the background, in order) and
//! a new one opens; also one up to the marker, since the marker is written before the runs are
//! ingested: only the drop of its log family says that a segment is sealed.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;

use crate::clock::{Clock, Timekeeper};
use crate::engine::{Access, Engine, Family, Kind, Recovery, Rep, Settings};
use crate::error::{Error, ErrorKind, Result};
use crate::poison::Poison;
use crate::resources::Resources;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{ArcSwap, Condvar, Mutex};

use super::append::Gate;
use super::books::Books;
use super::durable::Durable;
use super::floor::{Floor, Mark};
use super::footers::load_generations;
use super::log::{Sections, log_number};
use super::maintain::Maintenance;
use super::numbers::Numbers;
use super::record::Slice;
use super::room::Reserved;
use super::segment::{Segment, SetPool, SetSize};
use super::space::Space;
use super::view::View;
use super::{Classes, Counts, IdHash, Index, Limits, Name, meta, names, random};

/// Far beyond any clock, and far from where sums with it overflow.
const MARK_MS_MAX: u64 = u64::MAX / 4;

/// What an open needs.
pub(crate) struct Opening {
    pub(crate) settings: Settings,
    pub(crate) resources: Resources,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
    pub(crate) clock_jump_ms: u64,
    pub(crate) accept_short: bool,
    pub(crate) slices_per_class: u32,
    pub(crate) generations_max: u32,
    /// Only to be read.
    pub(crate) is_reader: bool,
}

/// An open index, and what else was found.
pub(crate) struct Opened {
    pub(crate) index: Index,
    pub(crate) tables: Vec<(u32, Arc<Family>)>,
    /// Expected and found commit number, if the store came back short and that was accepted.
    pub(crate) short: Option<(u64, u64)>,
    /// Keeps the directory ours.
    pub(crate) lock: Option<File>,
}

/// The families of a store by kind.
#[derive(Default)]
pub(super) struct Families {
    pub(super) rows: Vec<Arc<Family>>,
    pub(super) logs: Vec<(u64, Arc<Family>)>,
    pub(super) generations: Vec<(Slice, Arc<Family>)>,
    pub(super) tables: Vec<(u32, Arc<Family>)>,
}

impl Families {
    pub(super) fn sort(all: Vec<Arc<Family>>) -> Result<Families> {
        let mut sorted = Families::default();
        for family in all {
            match Name::parse(family.name()) {
                Some(Name::Rows) => sorted.rows.push(family),
                Some(Name::Log(number)) => sorted.logs.push((number, family)),
                Some(Name::Generation(slice)) => sorted.generations.push((slice, family)),
                Some(Name::Table(number)) => sorted.tables.push((number, family)),
                None => return Err(Error::damaged(format!("unknown family {}", family.name()))),
            }
        }
        sorted.logs.sort_by_key(|l| l.0);
        sorted.generations.sort_by_key(|g| std::cmp::Reverse(g.0));
        Ok(sorted)
    }

    /// A family of rows, made if the store is new.
    fn rows(&self, engine: &Engine, name: &str, is_new: bool) -> Result<Arc<Family>> {
        match self.rows.iter().find(|f| f.name() == name) {
            Some(family) => Ok(Arc::clone(family)),
            None if is_new => engine.create(name, Kind::Rows, ""),
            None => Err(Error::damaged(format!("the family {name} is missing"))),
        }
    }
}

/// Opens or creates the index in a home.
pub(crate) fn open(opening: Opening) -> Result<Opened> {
    let home = opening.settings.home.clone();
    let lock = home.lock()?;
    // First, since a store of another format is left as it is.
    let mark = Floor::read(&home)?;
    home.prepare()?;
    let has_data = home.has_data()?;
    let mark = match mark {
        Some(mark) => mark,
        None if !has_data => Floor::create(&home, 0, false)?,
        None => return Err(Error::damaged("the floor file is missing")),
    };
    if mark.is_fresh() {
        // Whoever made it was stopped before it was a store: nothing was ever committed.
        home.clear_unfinished()?;
    }
    let recovery = if mark.unsynced {
        Recovery::Unsynced
    } else {
        Recovery::Synced
    };
    let (engine, found) = Engine::open(
        opening.settings.clone(),
        recovery,
        Access::Write,
        |name| Name::parse(name).map(Name::kind),
        names::table_name,
    )?;
    let families = Families::sort(found)?;
    assemble(opening, engine, families, mark, lock)
}

/// What follows the opening of the database. Without the lock the store is only read.
pub(super) fn assemble(
    opening: Opening,
    engine: Engine,
    families: Families,
    mark: Mark,
    lock: Option<File>,
) -> Result<Opened> {
    let is_reader = opening.is_reader;
    // Until the format row is durable the creation never finished; after that the floor file
    // says so, that a wiped folder may not pass for a new store.
    let meta_family = families.rows.iter().find(|f| f.name() == names::META);
    let format = meta_family.map(|f| meta::format(f)).transpose()?.flatten();
    let is_new = format.is_none() && mark.is_fresh() && families.logs.is_empty();
    if is_reader && (is_new || families.logs.is_empty()) {
        return Err(Error::invalid(
            "the store was never made whole: open it to make it",
        ));
    }
    if format.is_none() && !is_new {
        return Err(short(mark.n, 0).context("the store's catalog is gone"));
    }
    let meta_rows = families.rows(&engine, names::META, is_new)?;
    let points = families.rows(&engine, names::POINTS, is_new)?;
    let audit = families.rows(&engine, names::AUDIT, is_new)?;
    if is_new {
        write_format(&engine, &meta_rows)?;
    }
    let seed = meta::number(&meta_rows, meta::SEED_KEY)?
        .ok_or_else(|| Error::damaged("the stored hash seed is missing"))?;
    let ids = IdHash::new(seed);
    let high_water = meta::number(&meta_rows, meta::MARK_KEY)?.unwrap_or(0);
    let marker = meta::number(&meta_rows, meta::MARKER_KEY)?.unwrap_or(0);
    if marker == u64::MAX || high_water > MARK_MS_MAX {
        return Err(Error::damaged(
            "the stored marks are of no commit or time there can be",
        ));
    }
    let classes = meta::classes(&meta_rows)?;
    let classes = Classes::new(classes, opening.slices_per_class, opening.generations_max);
    let time = Timekeeper::new(opening.clock, opening.clock_jump_ms, high_water);

    let generations = load_generations(
        &engine,
        &families.generations,
        &classes,
        &opening.resources,
        is_reader,
    )?;
    let pool = Arc::new(SetPool::default());
    let counts = Counts::default();
    let replay = Replay::run(&families.logs, marker, &ids, &pool, &counts)?;
    let short = replay.check(mark.n, opening.accept_short)?;
    let last_n = replay.numbers.last_n;
    let floor = Floor::new(engine.home().clone(), mark);
    if !is_reader {
        // Also if a kill came between the format row and this, last time.
        floor.note_made()?;
        if let Some((_, found)) = short {
            floor.lower(found)?;
        }
    }
    let order = generations
        .iter()
        .flat_map(|g| &g.runs)
        .map(|r| r.info.key.order)
        .max();
    let next_segment = replay.next_segment.max(order.map_or(0, |o| o + 1));
    let index = Index {
        time: Arc::new(time),
        ids,
        classes,
        poison: Arc::new(if is_reader {
            Poison::reader()
        } else {
            Poison::default()
        }),
        counts,
        meta: meta_rows,
        points,
        audit,
        books: Books::found(&families.rows),
        durable: Durable::new(last_n),
        floor,
        view: ArcSwap::from_pointee(View::new(replay.frozen, generations)),
        swap: Mutex::new(()),
        gate: Mutex::new(Gate::new(last_n + 1)),
        room: Mutex::new(Reserved::default()),
        room_changed: Condvar::new(),
        spares: Mutex::new(VecDeque::new()),
        pool,
        maintenance: Mutex::new(Maintenance {
            next_segment,
            ..Maintenance::default()
        }),
        garbage_waits: Mutex::new(None),
        trouble: Mutex::new(None),
        dropped_scopes: Mutex::default(),
        space: Space::new(),
        closing: AtomicBool::new(false),
        write_stopped: AtomicBool::new(false),
        #[cfg(feature = "testing")]
        fail_next: Mutex::new(None),
        engine,
        resources: opening.resources,
        limits: opening.limits,
    };
    if is_reader {
        index.begin_to_read(&replay.empty)?;
    } else {
        index.begin(replay.empty)?;
    }
    Ok(Opened {
        index,
        tables: families.tables,
        short,
        lock,
    })
}

fn write_format(engine: &Engine, family: &Family) -> Result<()> {
    let seed: [u8; 8] = random()?;
    let mut rows = Rep::default();
    rows.put(
        family.number(),
        meta::FORMAT_KEY,
        &meta::FORMAT.to_le_bytes(),
    );
    rows.put(family.number(), meta::SEED_KEY, &seed);
    engine.write(&rows.whole())?;
    engine.sync()
}

pub(super) fn short(expected: u64, found: u64) -> Error {
    Error::new(
        ErrorKind::RecoveredShort,
        format!("the store came back short: commit {expected} was durable, {found} was found"),
    )
}

impl Index {
    /// Makes the first segment current. Empty log families found are used again.
    fn begin(&self, empty: Vec<(u64, Arc<Family>)>) -> Result<()> {
        let mut m = self.maintenance.lock();
        for (number, family) in empty {
            if number < m.next_segment {
                self.engine.drop_family(&family)?;
                continue;
            }
            m.next_segment = number + 1;
            let spare = Segment::new(number, family, self.segment_size(), &self.pool)?;
            let spare = self.with_sieve(&mut m, spare);
            self.spares.lock().push_back(Arc::new(spare));
        }
        let first = self.spares.lock().pop_front();
        let current = match first {
            Some(first) => first,
            None => {
                let number = m.next_segment;
                m.next_segment += 1;
                let family = self.engine.create(&names::log(number), Kind::Log, "")?;
                let first = Segment::new(number, family, self.segment_size(), &self.pool)?;
                Arc::new(self.with_sieve(&mut m, first))
            }
        };
        let view = self.view.load().rotated(current);
        self.view.store(Arc::new(view));
        // Spares are made in the background.
        Ok(())
    }
}

/// What the log families held.
struct Replay {
    /// Newest first.
    frozen: Vec<Arc<Segment>>,
    /// Log families without a commit.
    empty: Vec<(u64, Arc<Family>)>,
    numbers: Numbers,
    next_segment: u64,
}

impl Replay {
    fn run(
        logs: &[(u64, Arc<Family>)],
        marker: u64,
        ids: &IdHash,
        pool: &Arc<SetPool>,
        counts: &Counts,
    ) -> Result<Replay> {
        let mut replay = Replay {
            frozen: Vec::new(),
            empty: Vec::new(),
            numbers: Numbers::new(marker),
            next_segment: 0,
        };
        for (number, family) in logs {
            let commits = read_log(family)?;
            if commits.is_empty() {
                replay.empty.push((*number, Arc::clone(family)));
                continue;
            }
            replay.next_segment = number + 1;
            commits.iter().for_each(|(n, _)| replay.numbers.take(*n));
            let segment = freeze(*number, family, &commits, ids, pool)?;
            let ids = segment.set().len() as u64;
            counts.replayed.fetch_add(ids, Ordering::Relaxed);
            replay.frozen.insert(0, Arc::new(segment));
        }
        replay.numbers.end();
        Ok(replay)
    }

    /// Whether less came back than was durable; an error unless that is accepted.
    fn check(&self, floor: u64, accept: bool) -> Result<Option<(u64, u64)>> {
        let Some((expected, found)) = self.numbers.short_of(floor) else {
            return Ok(None);
        };
        if accept {
            log::warn!("{}", short(expected, found));
            return Ok(Some((expected, found)));
        }
        Err(short(expected, found))
    }
}

fn read_log(family: &Arc<Family>) -> Result<Vec<(u64, Box<[u8]>)>> {
    let rows = family.rows(&[]);
    rows.map(|row| row.and_then(|(key, value)| Ok((log_number(&key)?, value))))
        .collect()
}

/// A segment as its log says it was.
fn freeze(
    number: u64,
    family: &Arc<Family>,
    commits: &[(u64, Box<[u8]>)],
    ids: &IdHash,
    pool: &Arc<SetPool>,
) -> Result<Segment> {
    let (mut count, mut words) = (0, 8);
    for (_, value) in commits {
        for section in Sections::new(value) {
            let section = section?;
            count += section.count as usize;
            words += section.words();
        }
    }
    let size = SetSize {
        ids: count.max(1),
        words,
    };
    let segment = Segment::new(number, Arc::clone(family), size, pool)?;
    let mut hashes = Vec::new();
    for (n, value) in commits {
        hashes.clear();
        for section in Sections::new(value) {
            let section = section?;
            let scope = section.meta.stamp.scope;
            hashes.extend(section.ids().map(|(id, _)| ids.of(scope, id)));
        }
        segment.take(*n, value, &hashes)?;
    }
    Ok(segment)
}
