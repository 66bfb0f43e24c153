//! Where the copies of the library's files differ from the files: doors that let scenarios in,
//! and a switch at each rule that a scenario may leave out. With every rule kept, a switch does
//! what the line it stands for does.
//!
//! The build fails if a text is not found exactly once: whoever moves a line moves its switch.

/// A text and what stands for it in the copy.
pub(crate) struct Switch {
    /// The rule, or [`DOOR`].
    pub(crate) rule: &'static str,
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

/// The rule's place where there is none: something is let in.
pub(crate) const DOOR: &str = "door";

macro_rules! switches {
    ($($rule:expr, $file:literal: $from:literal => $to:literal;)*) => {
        &[$(Switch { rule: $rule, file: $file, from: $from, to: $to }),*]
    };
}

pub(crate) const SWITCHES: &[Switch] = switches! {
    // Steps 3 to 5: hold, then load the view, then read the time.
    "view after the hold", "commit/decide.rs":
    "let room = self.index.reserve(" =>
    "crate::rules::too_early(\"view after the hold\", || self.index.view());
        crate::rules::too_early(\"time after the lookups\", || self.index.time.now_ms());
        crate::rules::too_early(\"mark after the hold\", || self.index.written());
        let room = self.index.reserve(";

    "view after the hold", "index/mod.rs":
    "let view = self.view();
        lookup::lookup(" =>
    "let view = crate::rules::in_time(\"view after the hold\", || self.view());
        lookup::lookup(";

    "time after the lookups", "commit/decide.rs":
    "decision.now_ms = self.index.time.now_ms();" =>
    "decision.now_ms = crate::rules::in_time(\"time after the lookups\", || {
            self.index.time.now_ms()
        });";

    "mark after the hold", "commit/decide.rs":
    "written: self.index.written()," =>
    "written: crate::rules::in_time(\"mark after the hold\", || self.index.written()),";

    // Approximate scopes: who says "first" holds the id's stripe from its last look on.
    "one stripe an id", "approx/ring.rs":
    "let _held = self.stripes[hash as usize % STRIPES].lock();" =>
    "let _held = crate::rules::is_kept(\"one stripe an id\")
            .then(|| self.stripes[hash as usize % STRIPES].lock());";

    // Steps 12 and 14: into the set, then the hold's release.
    "held until seen", "commit/mod.rs":
    "match self.append(log, out, level) {" =>
    "if !crate::rules::is_kept(\"held until seen\") {
                self.ids.release(decision.held.owner(), decision.held.hashes());
            }
            match self.append(log, out, level) {";

    "marked after the set", "index/append.rs":
    "for (n, member) in (first_n..).zip(members) {
            segment.take(" =>
    "if !crate::rules::is_kept(\"marked after the set\") {
            self.durable.set_written(first_n + members.len() as u64 - 1);
        }
        for (n, member) in (first_n..).zip(members) {
            segment.take(";

    // Time.
    "wall before monotonic", "clock.rs":
    "let wall = self.clock.wall_ms();
        let mono = self.clock.mono_ms();
        let now =" =>
    "let first = self.clock.mono_ms();
        let wall = self.clock.wall_ms();
        let mono = if crate::rules::is_kept(\"wall before monotonic\") {
            self.clock.mono_ms()
        } else {
            first
        };
        let now =";

    // Step 13: durable before the answer.
    "held until durable", "commit/mod.rs":
    "let mark = n.map(|n| Unsynced {" =>
    "let mut held = held;
        if !crate::rules::is_kept(\"held until durable\") {
            held.release();
        }
        let mark = n.map(|n| Unsynced {";

    "mark before the sync", "index/durable.rs":
    "failpoint!(\"commit::after_sync\");" =>
    "let mark = if crate::rules::is_kept(\"mark before the sync\") {
                    mark
                } else {
                    self.written()
                };";

    // Step 11: poison tells every waiter.
    "poison wakes", "commit/mod.rs":
    "tables.iter().for_each(|held| held.poison())" =>
    "if crate::rules::is_kept(\"poison wakes\") {
                tables.iter().for_each(|held| held.poison());
            }";

    // A write that met the end of the disk.
    "refused leaves nothing", "index/append.rs":
    "self.write_group(first_n, &segment.family, &gate.batch)?;" =>
    "let written = self.write_group(first_n, &segment.family, &gate.batch);
        if !crate::rules::is_kept(\"refused leaves nothing\") && written.is_err() {
            for (n, member) in (first_n..).zip(members) {
                segment.take(n, member.log.value(), member.log.hashes())?;
            }
        }
        written?;";

    "refused stays buffered", "commit/buffer.rs":
    "self.put_back(taken)?;" =>
    "if crate::rules::is_kept(\"refused stays buffered\") {
                        self.put_back(taken)?;
                    }";

    // The queue.
    "lead is handed on", "commit/queue.rs":
    "Some(next) => next.set(Turn::Lead)," =>
    "Some(next) if crate::rules::is_kept(\"lead is handed on\") => next.set(Turn::Lead),
            Some(_) => state.is_led = false,";

    "one leader", "commit/queue.rs":
    "if !state.is_led {" =>
    "if !state.is_led || !crate::rules::is_kept(\"one leader\") {";

    "one leader", "index/append.rs":
    "let mut gate = self.gate.lock();
        let _guard" =>
    "let mut gate = self.gate.lock();
        if !crate::rules::is_kept(\"one leader\") {
            let next_n = gate.next_n;
            drop(gate);
            crate::sync::point();
            gate = self.gate.lock();
            gate.next_n = next_n;
        }
        let _guard";

    // Buffered commits.
    "empty after the write", "commit/buffer.rs":
    "if !taken.held.is_empty() {" =>
    "if !crate::rules::is_kept(\"empty after the write\") {
            self.has_any.store(false, Ordering::Release);
        }
        if !taken.held.is_empty() {";

    "buffered goes first", "commit/reads.rs":
    "let family = table.family()?;
        match self.flush_buffer() {" =>
    "let family = table.family()?;
        let flushed = match crate::rules::is_kept(\"buffered goes first\") {
            true => self.flush_buffer(),
            false => Ok(()),
        };
        match flushed {";

    // Rotation and sealing.
    "gate", "index/room.rs":
    "let _gate = self.gate.lock();" =>
    "let _gate = crate::rules::is_kept(\"gate\").then(|| self.gate.lock());";

    "gate", "index/seal.rs":
    "self.wait_for_gate();" =>
    "if crate::rules::is_kept(\"gate\") {
            self.wait_for_gate();
        }";

    // The marks' write passes the gate as well.
    "gate", "index/mod.rs":
    "let _gate = self.gate.lock();" =>
    "let _gate = crate::rules::is_kept(\"gate\").then(|| self.gate.lock());";

    "one swap", "index/seal.rs":
    "let _swap = self.swap.lock();" =>
    "if !crate::rules::is_kept(\"one swap\") {
            let _swap = self.swap.lock();
            let view = self.view.load().with_generations(Vec::new());
            self.view.store(Arc::new(view.without_segment(segment.number)));
        }
        let _swap = crate::rules::is_kept(\"swaps one at a time\").then(|| self.swap.lock());";

    "swaps one at a time", "index/room.rs":
    "let _swap = self.swap.lock();" =>
    "let _swap = crate::rules::is_kept(\"swaps one at a time\").then(|| self.swap.lock());";

    "synced before the ingest", "index/seal.rs":
    "self.write_marks(&rows)?;" =>
    "if crate::rules::is_kept(\"synced before the ingest\") {
            self.write_marks(&rows)?;
        }";

    "notified under the lock", "index/room.rs":
    "let _reserved = self.room.lock();
        self.room_changed.notify_all();" =>
    "let _reserved = crate::rules::is_kept(\"notified under the lock\")
            .then(|| self.room.lock());
        self.room_changed.notify_all();";

    // Sieves.
    "into the sieve", "index/segment.rs":
    "counted.sieve().add_all(hashes.iter().copied());" =>
    "let kept = crate::rules::is_kept(\"into the sieve\");
            counted.sieve().add_all(hashes.iter().copied().filter(|_| kept));";

    "sieves before all", "index/lookup.rs":
    "if view.is_sieved() &&" =>
    "if (view.is_sieved() || !crate::rules::is_kept(\"sieves before all\")) &&";

    // Merges and filters.
    "swapped before removed", "index/merge.rs":
    "failpoint!(\"merge::ingested\");" =>
    "if !crate::rules::is_kept(\"swapped before removed\") {
            for run in &runs {
                let key = run.info.key;
                let family = &generation.family;
                self.engine.remove_files(family, &key.page(0), &key.footer())?;
            }
        }";

    "merged while views read", "index/maintain.rs":
    "if failed.is_err() || Arc::strong_count(&garbage.run) > 1 {" =>
    "if failed.is_err()
                || crate::rules::is_kept(\"merged while views read\")
                    && Arc::strong_count(&garbage.run) > 1
            {";

    "filter when whole", "index/snapshot.rs":
    "let filter = Arc::new(self.rebuild(generation, run)?);" =>
    "if !crate::rules::is_kept(\"filter when whole\") {
                    let empty = Filter::with_capacity(1, 16)?;
                    self.place_filter(generation.slice, run, &Arc::new(empty));
                }
                let filter = Arc::new(self.rebuild(generation, run)?);";

    // Rows.
    "rows locked", "commit/row_locks.rs":
    "self.hold_rows(&mut held, &wanted)?;
        self.flush_buffer()?;" =>
    "if crate::rules::is_kept(\"rows locked\") {
            self.hold_rows(&mut held, &wanted)?;
        }
        self.flush_buffer()?;";

    "read under the lock", "commit/tx.rs":
    "if table.guarded {
            self.lock(row_hash(table, key))?;
        }
        self.committer.flush_buffer()?;
        self.overlay.get(table, key)" =>
    "let early = (!crate::rules::is_kept(\"read under the lock\"))
            .then(|| self.overlay.get(table, key));
        if table.guarded {
            self.lock(row_hash(table, key))?;
        }
        self.committer.flush_buffer()?;
        early.unwrap_or_else(|| self.overlay.get(table, key))";

    "locked until written", "commit/tx.rs":
    "let n = match self.append(&mut log, &mut tx.rows, level) {" =>
    "if !crate::rules::is_kept(\"locked until written\") {
            tx.locks.release();
        }
        let n = match self.append(&mut log, &mut tx.rows, level) {";

    // In two phases: what is prepared is held until its end.
    "prepared stays held", "commit/prepare.rs":
    "let surplus = surplus(&decision.held, &ids.hashes);" =>
    "let surplus = match crate::rules::is_kept(\"prepared stays held\") {
            true => surplus(&decision.held, &ids.hashes),
            false => decision.held.hashes().to_vec(),
        };";

    "nobody waits for what stands", "commit/holds/mod.rs":
    "if shard.is_standing(hash) {" =>
    "if shard.is_standing(hash) && crate::rules::is_kept(\"nobody waits for what stands\") {";

    "one end", "commit/in_doubt.rs":
    "if !*is_ended {" =>
    "if !crate::rules::is_kept(\"one end\") {
                drop(is_ended);
                let row = self.end(&doubt, how, why)?;
                return Ok(Ended {
                    row,
                    is_repeat: false,
                });
            }
            if !*is_ended {";

    // Doors.
    DOOR, "store.rs": "fn open_home(" => "pub(crate) fn open_home(";
    DOOR, "index/mod.rs": "mod log;" => "pub(crate) mod log;";
    DOOR, "commit/mod.rs": "mod holds;" => "pub(crate) mod holds;";
    DOOR, "engine_parts/files.rs":
    "use super::memory::{self, Memory};" => "use crate::engine::memory::{self, Memory};";
    DOOR, "engine_parts/files.rs":
    "env: Option<rocksdb::Env>," => "env: Option<memory::Env>,";
    DOOR, "engine_parts/files.rs":
    "fn env(&self) -> Option<&rocksdb::Env>" => "fn env(&self) -> Option<&memory::Env>";
    DOOR, "engine_parts/files.rs":
    "pub(super) memory: " => "pub(crate) memory: ";
    DOOR, "engine_parts/files.rs":
    "pub(super) fn discard" => "pub(crate) fn discard";
    // What a test asked to fail, without a point of its own for the scheduler.
    DOOR, "engine_parts/inject.rs": "use super::Home;" => "use crate::engine::Home;";
    DOOR, "engine_parts/inject.rs":
    "use parking_lot::Mutex;" => "use crate::engine::fault::Mutex;";
    DOOR, "engine_parts/inject.rs":
    "pub(super) fn at<T>" => "pub(crate) fn at<T>";
    DOOR, "engine_parts/inject.rs":
    "pub(in crate::engine) fn meet" => "pub(crate) fn meet";
    DOOR, "engine_parts/files.rs":
    "pub(super) fn set_has_data" => "pub(crate) fn set_has_data";
    // The seed of the hash comes from the schedule, so that a schedule can be run again.
    DOOR, "index/mod.rs":
    "getrandom::fill(&mut bytes)
        .map_err(|e| Error::new(ErrorKind::Degraded, format!(\"no randomness: {e}\")))?;" =>
    "shuttle::rand::RngCore::fill_bytes(&mut shuttle::rand::thread_rng(), &mut bytes);";
};
