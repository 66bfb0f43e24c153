//! The one door for callers who hold RocksDB's own types (feature `raw`).
//!
//! It follows the `rocksdb` crate's versions: a new one there is a breaking change here. A
//! build has exactly one RocksDB, so use these names rather than another version's.
//!
//! What goes in is a batch of rows for one table
//! ([`Writes::apply`](crate::Writes::apply)) and a table's options
//! ([`Options::table_options`](crate::Options::table_options)); a writable `DB` never comes out.

#[cfg(feature = "testing")]
pub use rocksdb::Env as RocksEnv;
pub use rocksdb::Options as RocksOptions;
pub use rocksdb::WriteBatch as RocksBatch;
