//! The inside of an open store: what its handles, its threads and its close work on.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::approx::Approximates;
use crate::background::Background;
use crate::catalog::{Caps, Catalog};
use crate::claims::Claims;
use crate::clock::{self, ClockState, Stopwatch, millis};
use crate::commit::{AuditRules, Committer, Doubts, DraftCaps, Lane, TOP_EVERY, load_claims};
use crate::copy::Copy;
use crate::engine::{Home, Settings};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{self, Index, Limits, Opened, Opening};
use crate::meter::Duplicates;
use crate::options::{Durability, Options};
use crate::renewals::Renewals;
use crate::resources::Resources;
use crate::stats::{Health, Stats, Top};
use crate::sync::Mutex;
use crate::sync::atomic::Ordering;
use crate::trace::span;
use crate::watch::Watch;

/// An open store without its handles.
pub(crate) struct Core {
    pub(crate) committer: Arc<Committer>,
    pub(crate) lane: Lane,
    pub(crate) renewals: Renewals,
    pub(crate) durability: Durability,
    pub(crate) claims_durability: Durability,
    pub(crate) caps: DraftCaps,
    pub(crate) resources: Resources,
    pub(crate) approximates: Approximates,
    recovered_short: Option<(u64, u64)>,
    buffer_interval: Duration,
    background: bool,
    floor_renewed: Mutex<Stopwatch>,
    space_checked: Mutex<Stopwatch>,
    stop_checked: Mutex<Stopwatch>,
    claims_swept: Mutex<Stopwatch>,
    audit_swept: Mutex<Stopwatch>,
    top_kept: Mutex<Stopwatch>,
    /// Looks for surges, if somebody wants to know.
    watch: Option<Watch>,
    /// Declared last: the directory is ours until everything else is gone.
    _lock: Option<File>,
}

/// What closing does with what is not durable yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CloseMode {
    Sync,
    #[cfg(feature = "testing")]
    Crash,
}

/// How often the floor rises in unsynced use.
const FLOOR_EVERY: Duration = Duration::from_secs(1);
/// How often free space is looked at: in that time nobody fills the default reserve.
const SPACE_EVERY: Duration = Duration::from_millis(20);
/// How often RocksDB's write stop is looked at.
const STOP_EVERY: Duration = Duration::from_millis(200);
/// How often claims that have expired are removed.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// How often audit entries that are too old are removed.
const AUDIT_EVERY: Duration = Duration::from_secs(3600);
/// Bounds of a log's memtable.
const LOG_BUFFER_BYTES_MIN: usize = 4 << 20;
const LOG_BUFFER_BYTES_MAX: usize = 256 << 20;
/// Descriptors left to the rest of the process.
const FILES_SPARED: u64 = 64;

impl Core {
    pub(crate) fn open(home: Home, options: &Options) -> Result<Arc<Core>> {
        Core::assemble(home, options, index::open, false)
    }

    /// Opens a store to be read only, once; `look` tries it again.
    pub(crate) fn open_to_read(home: Home, options: &Options) -> Result<Arc<Core>> {
        Core::assemble(home, options, index::open_to_read, true)
    }

    fn assemble(
        home: Home,
        options: &Options,
        open: impl FnOnce(Opening) -> Result<Opened>,
        is_reader: bool,
    ) -> Result<Arc<Core>> {
        options.validate()?;
        let directory = home.directory().map(|d| d.display().to_string());
        let directory = directory.unwrap_or_default();
        let span = span!(
            INFO,
            "open",
            { directory = directory.as_str() },
            [replayed_ids]
        );
        let resources = options.resources.clone().unwrap_or_default();
        let limits = Limits {
            filter_bits: options.filter_bits_per_id,
            segment_ids_max: options.segment_ids_max,
            segment_age: options.segment_age_max,
            background: options.background,
            free_bytes_min: options.free_bytes_min,
        };
        let settings = settings(home, options, &resources);
        let opened = open(Opening {
            settings,
            resources: resources.clone(),
            limits,
            clock: options.clock.clone(),
            clock_jump_ms: millis(options.clock_jump_max),
            accept_short: options.accept_recovered_short,
            slices_per_class: options.slices_per_class,
            generations_max: options.generations_max,
            is_reader,
        })?;
        let index = Arc::new(opened.index);
        let caps = Caps {
            scopes: options.scopes_max.into(),
            tables: options.tables_max as usize,
        };
        let catalog = Arc::new(Catalog::load(Arc::clone(&index), opened.tables, caps)?);
        let claims = Claims::new(index::random_number()?, options.claims_max);
        load_claims(&index, &catalog, &claims)?;
        let audit = AuditRules {
            rows_max: options.audit_rows_max,
            age_max_ms: millis(options.audit_age_max),
            actor: options.actor.clone(),
        };
        let how = (options.wait_max, options.closures_twice);
        let duplicates = (options.top.capacity > 0).then(|| Duplicates::new(options.top));
        let counts_sources = duplicates.is_some();
        let doubts = Doubts::new(options.doubts);
        let committer = Committer::new(index, catalog, claims, doubts, duplicates, how, audit);
        committer.load_prepared()?;
        committer.dead.load(&committer.index)?;
        let watch = options.surge.as_ref();
        let watch = watch.map(|hook| Watch::start(hook, options.surge_interval, &committer));
        let core = Core {
            committer: Arc::new(committer),
            lane: Lane::default(),
            renewals: Renewals::default(),
            durability: options.durability,
            claims_durability: options.claims_durability,
            caps: DraftCaps {
                items: options.batch_items_max,
                bytes: options.batch_bytes_max,
                sources: counts_sources,
            },
            resources,
            approximates: Approximates::default(),
            recovered_short: opened.short,
            buffer_interval: options.buffer_interval,
            background: options.background,
            floor_renewed: Mutex::new(Stopwatch::start()),
            space_checked: Mutex::new(Stopwatch::start()),
            stop_checked: Mutex::new(Stopwatch::start()),
            claims_swept: Mutex::new(Stopwatch::start()),
            audit_swept: Mutex::new(Stopwatch::start()),
            top_kept: Mutex::new(Stopwatch::start()),
            watch: watch.transpose()?,
            _lock: opened.lock,
        };
        core.index().check_free()?;
        let replayed = &core.index().counts.replayed;
        span.record("replayed_ids", replayed.load(Ordering::Relaxed));
        Ok(Arc::new(core))
    }

    /// Lets the shared threads serve this store.
    pub(crate) fn register(&self, me: Weak<dyn Background>) {
        let pool = &self.resources.shared().pool;
        pool.quicken(self.buffer_interval);
        pool.register(me);
    }

    pub(crate) fn index(&self) -> &Arc<Index> {
        &self.committer.index
    }

    /// # Errors
    /// `Invalid` if the store was opened to be read only.
    pub(crate) fn check_may_write(&self) -> Result<()> {
        match self.index().poison.is_reader() {
            true => self.index().poison.check(),
            false => Ok(()),
        }
    }

    pub(crate) fn health(&self) -> Health {
        let index = self.index();
        if index.poison.is_reader() {
            return Health::Ready;
        }
        if let Some(why) = index.poison.why() {
            return Health::Degraded(why.to_string());
        }
        if let Some(why) = index.space.why().or_else(|| index.trouble()) {
            return Health::Degraded(why);
        }
        if index.has_new_failures() {
            let why = "RocksDB's background work failed; whether it goes on is not known yet";
            return Health::Degraded(why.to_string());
        }
        if let ClockState::Frozen { by } = index.time.state() {
            let ahead = by.as_secs();
            return Health::Degraded(format!("expiry is frozen: the clock is {ahead} s ahead"));
        }
        match index.filters_waiting() {
            (0, _) => Health::Ready,
            (waiting, filters) => Health::Warming {
                filters_ready: filters - waiting,
                filters,
            },
        }
    }

    pub(crate) fn stats(&self) -> Result<Stats> {
        let time = &self.index().time;
        let mut stats = self.committer.stats(time.now_ms(), time.state())?;
        stats.health = self.health();
        if let Some(watch) = &self.watch {
            stats.surges = watch.stats();
        }
        let shared = self.resources.shared();
        stats.cache_bytes = shared.caches.cache_used_bytes() as u64;
        stats.memtable_bytes = shared.caches.memtable_used_bytes() as u64;
        stats.background.threads = shared.pool.threads() as u64;
        stats.recovered_short = self.recovered_short;
        stats.approximate_bytes = self.approximates.bytes();
        stats.top = self.top()?;
        Ok(stats)
    }

    /// Judges the rates of duplicates, if their interval has passed.
    pub(crate) fn look_for_surges(&self) {
        if let Some(watch) = &self.watch {
            watch.look(&self.committer);
        }
    }

    /// Where duplicates come from, if that is counted: by this store, or by the one looked at.
    pub(crate) fn top(&self) -> Result<Option<Top>> {
        if self.index().poison.is_reader() {
            return self.committer.kept_top();
        }
        let duplicates = self.committer.duplicates.as_ref();
        Ok(duplicates.map(|d| d.top(self.index().time.now_ms())))
    }

    pub(crate) fn checkpoint(&self, dir: &Path) -> Result<()> {
        if self.index().engine.home().directory().is_none() {
            return Err(Error::invalid("a store in memory has no checkpoints"));
        }
        self.committer.flush_buffer()?;
        let copy = Copy::begin(dir)?;
        self.index().checkpoint(copy.dir())?;
        let now_ms = self.index().time.now_ms();
        let home = self.index().engine.home();
        self.approximates.copy_to(home, &copy.home(), now_ms)?;
        copy.finish()
    }

    /// Ends background work and submissions; makes everything durable.
    fn close(&self, mode: CloseMode) -> Result<()> {
        self.index().begin_close();
        self.lane.close();
        self.renewals.close();
        if self.index().poison.is_reader() {
            return Ok(());
        }
        match mode {
            CloseMode::Sync => {
                let now_ms = self.index().time.now_ms();
                let home = self.index().engine.home();
                let saved = self.approximates.close(home, now_ms);
                // Its own loss is none, and what keeps it from being written is told by the close.
                let _ = self.committer.keep_top();
                self.committer.close().and(saved)
            }
            #[cfg(feature = "testing")]
            CloseMode::Crash => {
                self.index().poison.set("the test crashed it".to_string());
                self.committer.discard_buffered();
                self.approximates.abandon();
                Ok(())
            }
        }
    }

    /// Closes, then waits until nobody uses the store any more.
    pub(crate) fn close_and_wait(self: Arc<Self>, wait: Duration) -> Result<()> {
        let by = clock::deadline(wait);
        let closed = self.close(CloseMode::Sync);
        closed.and(self.wait_unused(by))
    }

    #[cfg(feature = "testing")]
    pub(crate) fn crash(self: Arc<Self>, wait: Duration) -> Result<()> {
        let by = clock::deadline(wait);
        self.close(CloseMode::Crash)?;
        self.wait_unused(by)
    }

    /// Closes when the last handle goes; waits for background work, not for scans.
    pub(crate) fn close_unattended(self: Arc<Self>, wait: Duration) -> Result<()> {
        let by = clock::deadline(wait);
        let closed = self.close(CloseMode::Sync);
        self.let_go(by);
        closed
    }

    /// Whether there is something to sweep or to keep.
    fn sweep_is_due(&self) -> bool {
        let claims =
            self.committer.claims.len() > 0 && self.claims_swept.lock().elapsed() >= SWEEP_EVERY;
        let top =
            self.committer.duplicates.is_some() && self.top_kept.lock().elapsed() >= TOP_EVERY;
        claims || top || self.audit_swept.lock().elapsed() >= AUDIT_EVERY
    }

    fn wait_unused(self: Arc<Self>, by: Instant) -> Result<()> {
        let engine = self.index().engine.presence();
        self.let_go(by);
        while engine.is_open() {
            if clock::left(by).is_zero() {
                return Err(Error::new(
                    ErrorKind::Busy,
                    "the store is closed, but calls or held batches still use its directory",
                ));
            }
            clock::pause(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Drops the core here and not on a background thread, which may hold it for the length of
    /// one round: a process that ends meanwhile would take RocksDB away from under it.
    fn let_go(self: Arc<Self>, by: Instant) {
        let mut me = self;
        while let Err(shared) = Arc::try_unwrap(me) {
            if clock::left(by).is_zero() {
                return;
            }
            clock::pause(Duration::from_millis(1));
            me = shared;
        }
    }
}

/// How a store's database is opened.
pub(crate) fn settings(home: Home, options: &Options, resources: &Resources) -> Settings {
    let shared = resources.shared();
    Settings {
        home,
        caches: shared.caches.clone(),
        tuning: options.tuning.clone(),
        log_buffer_bytes: log_buffer_bytes(shared.segment_bytes_most()),
        wal_bytes_max: options.wal_bytes_max,
        open_files_max: open_files_max(shared.pool.stores()),
    }
}

/// The size of a log's memtable that makes RocksDB flush it: above what a segment's log takes,
/// also with one id a commit, since a log normally lives and dies in its memtable. Not more,
/// since after a full disk RocksDB waits for so much free space before it goes on.
fn log_buffer_bytes(segment_bytes: usize) -> usize {
    (2 * segment_bytes).clamp(LOG_BUFFER_BYTES_MIN, LOG_BUFFER_BYTES_MAX)
}

/// What RocksDB may keep open for one more store, from the process's limit.
fn open_files_max(stores: usize) -> i32 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    match limit {
        None => -1,
        Some(limit) => {
            let ours = limit.saturating_sub(FILES_SPARED) / 2 / (stores as u64 + 1);
            i32::try_from(ours.clamp(32, 1 << 20)).unwrap_or(i32::MAX)
        }
    }
}

impl Background for Core {
    fn tick(&self) -> bool {
        if self.index().is_closing() {
            return false;
        }
        // A failure poisons the store, which says so.
        let _ = self.committer.flush_buffer();
        if !self.background {
            return false;
        }
        self.look_for_surges();
        if self.space_checked.lock().restart_after(SPACE_EVERY)
            && let Err(error) = self.index().check_free()
        {
            log::warn!("free space is not known: {error}");
        }
        if self.stop_checked.lock().restart_after(STOP_EVERY) {
            self.index().check_write_stop();
            self.index().check_failures();
        }
        let index = self.index();
        let floor_is_due = self.floor_renewed.lock().elapsed() >= FLOOR_EVERY
            && index.written() > index.floor_n()
            && !index.poison.is_set();
        let approximates_are_due = self.approximates.is_due();
        // While the engine takes no writes, a probe is all there is to do for it.
        if index.space.awaits_probe() {
            return index.probe_is_due() || approximates_are_due;
        }
        floor_is_due || index.is_due() || self.sweep_is_due() || approximates_are_due
    }

    fn work(&self) {
        if self.index().is_closing() {
            return;
        }
        let guard = PoisonOnPanic(self.index());
        let time = &self.index().time;
        let home = self.index().engine.home();
        self.approximates.maintain(home, || time.now_ms());
        if self.index().space.awaits_probe() && self.index().probe().is_err() {
            // Kept in the space, or in the poison.
            return;
        }
        if self.floor_renewed.lock().restart_after(FLOOR_EVERY)
            && let Err(error) = self.index().renew_floor()
        {
            log::error!("the floor was not renewed: {error}");
        }
        if self.claims_swept.lock().restart_after(SWEEP_EVERY)
            && let Err(error) = self.committer.sweep_claims()
        {
            log::warn!("expired claims were not removed: {error}");
        }
        if self.top_kept.lock().restart_after(TOP_EVERY)
            && let Err(error) = self.committer.keep_top()
        {
            log::warn!("the top sources were not written: {error}");
        }
        if self.audit_swept.lock().restart_after(AUDIT_EVERY)
            && let Err(error) = self.committer.expire_audit()
        {
            log::warn!("audit entries that are too old were not removed: {error}");
        }
        // Kept in `stopped`, for `health()` and for callers that wait for room.
        let _ = self.index().maintain();
        drop(guard);
    }
}

/// Background work that unwinds leaves nobody sure of anything.
struct PoisonOnPanic<'a>(&'a Index);

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison.set("background work panicked".to_string());
        }
    }
}
