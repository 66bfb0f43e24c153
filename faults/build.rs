//! Compiles the shim as RocksDB itself was compiled: its headers depend on these names.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=src/shim.cc");
    let home = std::env::var_os("DEP_ROCKSDB_CARGO_MANIFEST_DIR");
    let home = PathBuf::from(home.expect("librocksdb-sys says where it is")).join("rocksdb");
    cc::Build::new()
        .cpp(true)
        .file("src/shim.cc")
        .include(&home)
        .include(home.join("include"))
        .define("NDEBUG", "1")
        .define("HAVE_ALIGNED_NEW", None)
        .define("HAVE_UINT128_EXTENSION", None)
        .define("OS_LINUX", None)
        .define("ROCKSDB_PLATFORM_POSIX", None)
        .define("ROCKSDB_LIB_IO_POSIX", None)
        .define("ROCKSDB_SCHED_GETCPU_PRESENT", None)
        .define("ROCKSDB_AUXV_GETAUXVAL_PRESENT", None)
        .define("ROCKSDB_FALLOCATE_PRESENT", None)
        .define("ROCKSDB_RANGESYNC_PRESENT", None)
        .flag("-std=c++20")
        .flag("-include")
        .flag("cstdint")
        .flag("-Wno-unused-parameter")
        .compile("faults_shim");
}
