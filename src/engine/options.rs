//! Every column family's options, explicit, by kind (E2).
//!
//! | kind | holds | shape |
//! | --- | --- | --- |
//! | rows | catalog, marks, resume points, audit | small memtable, level compaction |
//! | table | the caller's rows | RocksDB's usual: bloom filters, LZ4, level compaction |
//! | log | one segment's commits | memtable larger than the segment, nothing compacted |
//! | generation | ingested runs | no memtable use, no compaction, 4 KB blocks, no filter |
//!
//! A log family normally lives and dies in its memtable; a generation is only ingested into.

use std::collections::HashMap;

use rocksdb::{
    BlockBasedOptions, Cache, ChecksumType, DBCompactionStyle, DBCompressionType, DBRecoveryMode,
    LogLevel, Options, WriteBufferManager,
};

use crate::error::Result;

use super::db::{Kind, Recovery, Settings};
use super::fault::map;

/// What the stores of one process share in RocksDB.
#[derive(Clone)]
pub(crate) struct Caches {
    cache: Cache,
    buffers: WriteBufferManager,
}

impl Caches {
    /// A block cache, and a bound on all memtables together that makes RocksDB flush, never
    /// stall.
    pub(crate) fn new(cache_bytes: usize, memtable_bytes: usize) -> Caches {
        Caches {
            cache: Cache::new_lru_cache(cache_bytes),
            buffers: WriteBufferManager::new_write_buffer_manager(memtable_bytes, false),
        }
    }

    pub(crate) fn cache_used_bytes(&self) -> usize {
        self.cache.get_usage()
    }

    pub(crate) fn memtable_used_bytes(&self) -> usize {
        self.buffers.get_usage()
    }
}

/// Options of tables that a caller tuned, by table name (the `raw` door).
#[derive(Clone, Default)]
pub(crate) struct FamilyTuning(HashMap<String, Options>);

impl FamilyTuning {
    #[cfg(feature = "raw")]
    pub(crate) fn set(&mut self, table: &str, options: Options) {
        self.0.insert(table.to_string(), options);
    }
}

/// The largest memtable of families that are not logs, if their options are ours.
pub(super) const MEMTABLE_BYTES_MAX: usize = 32 << 20;

/// The options of the database itself.
pub(super) fn database(s: &Settings, recovery: Recovery) -> Result<Options> {
    let mut base = Options::default();
    // Not wrapped by the crate; must come first, since it makes a new options object.
    let mut o = base
        .get_options_from_string("track_and_verify_wals=true")
        .map_err(map)?;
    #[cfg(any(test, feature = "testing"))]
    if let Some(env) = s.home.env() {
        o.set_env(env);
    }
    o.create_if_missing(true);
    o.create_missing_column_families(false);
    o.set_wal_recovery_mode(match recovery {
        Recovery::Synced => DBRecoveryMode::TolerateCorruptedTailRecords,
        Recovery::Unsynced => DBRecoveryMode::PointInTime,
        Recovery::Exact => DBRecoveryMode::AbsoluteConsistency,
        Recovery::Anything => DBRecoveryMode::SkipAnyCorruptedRecord,
    });
    o.set_max_total_wal_size(s.wal_bytes_max);
    o.set_max_background_jobs(2);
    o.set_max_open_files(s.open_files_max);
    // Else each family starts sixteen threads at open, for a file or two.
    o.set_max_file_opening_threads(1);
    o.set_write_buffer_manager(&s.caches.buffers);
    o.set_manual_wal_flush(false);
    o.set_unordered_write(false);
    o.set_bytes_per_sync(1 << 20);
    o.set_keep_log_file_num(4);
    o.set_max_log_file_size(4 << 20);
    o.set_log_level(LogLevel::Warn);
    o.set_stats_dump_period_sec(0);
    o.set_stats_persist_period_sec(0);
    o.set_paranoid_checks(true);
    Ok(o)
}

/// The options of one family.
pub(super) fn family(s: &Settings, kind: Kind, name: &str) -> Options {
    if kind == Kind::Table
        && let Some(tuned) = s.tuning.0.get(name)
    {
        return tuned.clone();
    }
    let mut o = Options::default();
    #[cfg(any(test, feature = "testing"))]
    if let Some(env) = s.home.env() {
        o.set_env(env);
    }
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&s.caches.cache);
    blocks.set_format_version(5);
    blocks.set_checksum_type(ChecksumType::XXH3);
    o.set_compaction_style(DBCompactionStyle::Level);
    o.set_write_buffer_manager(&s.caches.buffers);
    match kind {
        Kind::Rows => rows(&mut o, &mut blocks),
        Kind::Table => table(&mut o, &mut blocks),
        Kind::Log => log(&mut o, s),
        Kind::Generation => generation(&mut o, &mut blocks),
    }
    o.set_block_based_table_factory(&blocks);
    o
}

fn rows(o: &mut Options, blocks: &mut BlockBasedOptions) {
    blocks.set_bloom_filter(10.0, false);
    o.set_write_buffer_size(4 << 20);
    o.set_max_write_buffer_number(2);
    o.set_compression_type(DBCompressionType::Lz4);
}

fn table(o: &mut Options, blocks: &mut BlockBasedOptions) {
    blocks.set_bloom_filter(10.0, false);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    o.set_write_buffer_size(MEMTABLE_BYTES_MAX);
    o.set_max_write_buffer_number(4);
    o.set_memtable_whole_key_filtering(true);
    o.set_memtable_prefix_bloom_ratio(0.02);
    o.set_level_compaction_dynamic_level_bytes(true);
    o.set_compression_type(DBCompressionType::Lz4);
    o.set_bottommost_compression_type(DBCompressionType::Zstd);
}

fn log(o: &mut Options, s: &Settings) {
    o.set_write_buffer_size(s.log_buffer_bytes);
    o.set_max_write_buffer_number(4);
    o.set_disable_auto_compactions(true);
    o.set_level_zero_slowdown_writes_trigger(1 << 20);
    o.set_level_zero_stop_writes_trigger(1 << 20);
    o.set_compression_type(DBCompressionType::None);
}

fn generation(o: &mut Options, blocks: &mut BlockBasedOptions) {
    blocks.set_block_size(4 << 10);
    o.set_write_buffer_size(1 << 20);
    o.set_disable_auto_compactions(true);
    o.set_level_zero_slowdown_writes_trigger(1 << 20);
    o.set_level_zero_stop_writes_trigger(1 << 20);
    o.set_compression_type(DBCompressionType::None);
    o.set_level_compaction_dynamic_level_bytes(false);
}
