//! Copies the active set, and what it needs, from the library's sources, as they are.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[path = "../models/copies.rs"]
mod copies;

const PARTS: [&str; 4] = ["active", "active.rs", "hash.rs", "record.rs"];

fn main() -> io::Result<()> {
    let index = Path::new("../src/index");
    println!("cargo::rerun-if-changed=../src/index");
    println!("cargo::rerun-if-changed=../models/copies.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    let to = out.join("index");
    for part in PARTS {
        copies::copy(&index.join(part), &to.join(part), &|_, text| text)?;
    }
    let modules = "pub(crate) mod active;\npub(crate) mod hash;\npub(crate) mod record;\n";
    fs::write(to.join("modules.rs"), modules)
}
