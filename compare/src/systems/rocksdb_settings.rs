//! What the RocksDB systems share: the pinned options, opening, settling, closing.
//!
//! The pinned options are part of the comparison's definition, so that a ratio means the same
//! everywhere: skip-list memtables of 128 MB, four of them, write-ahead log on and not synced
//! (but in synced workloads), LZ4, filters of 10 bits a key, two background jobs. Ids and rows are
//! two column families.

use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DBCompressionType, Options, WriteOptions,
};

use super::Setup;

/// The column family of the business rows; ids are in the default one.
pub const ROWS: &str = "rows";

/// The pinned options of a database and its column families.
pub fn pinned(setup: Setup) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_write_buffer_size(128 << 20);
    options.set_max_write_buffer_number(4);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_max_background_jobs(2);
    let mut table = BlockBasedOptions::default();
    table.set_bloom_filter(10.0, false);
    table.set_block_cache(&Cache::new_lru_cache(setup.peer_cache() as usize));
    options.set_block_based_table_factory(&table);
    options
}

/// The pinned options, and what RocksDB's tuning guide adds for looking keys up before writing:
/// a filter over each memtable, so that a new key seldom walks a skip list to be missed.
pub fn reading(setup: Setup) -> Options {
    let mut options = pinned(setup);
    options.set_memtable_prefix_bloom_ratio(0.05);
    options.set_memtable_whole_key_filtering(true);
    options
}

/// Both column families with the same options.
pub fn families(options: &Options) -> Vec<ColumnFamilyDescriptor> {
    vec![
        ColumnFamilyDescriptor::new(rocksdb::DEFAULT_COLUMN_FAMILY_NAME, options.clone()),
        ColumnFamilyDescriptor::new(ROWS, options.clone()),
    ]
}

/// Whether a write returns only when its log is on the disk.
pub fn writing(setup: Setup) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(setup.synced());
    options
}

/// Opens a plain database.
pub fn open(dir: &Path, options: &Options) -> Result<rocksdb::DB, rocksdb::Error> {
    rocksdb::DB::open_cf_descriptors(options, dir, families(options))
}

/// What is the same for any of the database types; a macro because they share no trait for it.
macro_rules! any_database {
    () => {
        fn worker(&self) -> $crate::systems::Result<Box<dyn $crate::systems::Worker + '_>> {
            Ok(Box::new(self))
        }

        any_database!(but the worker);
    };
    (but the worker) => {
        fn settle(&self) -> $crate::systems::Result<()> {
            self.db.flush()?;
            self.db.compact_range::<&[u8], &[u8]>(None, None);
            Ok(())
        }

        fn close(self: Box<Self>) -> $crate::systems::Result<()> {
            use $crate::systems::rocksdb_settings::ROWS;
            self.db.flush()?;
            let rows = self.db.cf_handle(ROWS).ok_or("no family of rows")?;
            self.db.flush_cf(&rows)?;
            let mut wait = rocksdb::WaitForCompactOptions::default();
            wait.set_flush(true);
            self.db.wait_for_compact(&wait)?;
            Ok(())
        }

        fn row(&self, id: &$crate::ids::Id) -> $crate::systems::Result<Option<Vec<u8>>> {
            use $crate::systems::rocksdb_settings::ROWS;
            let rows = self.db.cf_handle(ROWS).ok_or("no family of rows")?;
            Ok(self.db.get_cf(&rows, id)?)
        }
    };
}

pub(super) use any_database;
