//! Copies the library's sources into the build's folder, with the switches of `switches.rs`, for
//! `src/lib.rs` to compile over its own `crate::sync` and `crate::engine`.
//!
//! What is left out has a stand-in here: the engine but for its files and batches, the pool's
//! threads, the memory of tables.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[path = "copies.rs"]
mod copies;
#[path = "switches.rs"]
mod switches;

/// What is not copied.
const LEFT_OUT: [&str; 11] = [
    "background.rs",
    "backup",
    "bin",
    "engine",
    "fuzzing.rs",
    "lib.rs",
    "look.rs",
    "memory.rs",
    "raw.rs",
    "stores.rs",
    "sync.rs",
];
/// Files of the engine that don't know RocksDB.
const ENGINE_PARTS: [&str; 3] = ["files.rs", "inject.rs", "rep.rs"];

fn main() -> io::Result<()> {
    let library = Path::new("../src");
    println!("cargo::rerun-if-changed=../src");
    println!("cargo::rerun-if-changed=copies.rs");
    println!("cargo::rerun-if-changed=switches.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    let to = out.join("library");
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    let change = |path: &Path, text: String| {
        let file = path.strip_prefix(&to).unwrap_or(path);
        switched(&file.to_string_lossy(), text)
    };
    let mut modules = vec!["engine_parts".to_string()];
    for entry in fs::read_dir(library)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !LEFT_OUT.contains(&name.as_str()) {
            copies::copy(&entry.path(), &to.join(&name), &change)?;
            modules.push(name.trim_end_matches(".rs").to_string());
        }
    }
    for part in ENGINE_PARTS {
        let from = library.join("engine").join(part);
        copies::copy(&from, &to.join("engine_parts").join(part), &change)?;
    }
    let parts = ENGINE_PARTS.map(|part| {
        let name = part.trim_end_matches(".rs");
        format!("pub(crate) mod {name};\n")
    });
    fs::write(to.join("engine_parts/mod.rs"), parts.concat())?;
    modules.sort();
    modules.dedup();
    let declared = modules
        .iter()
        .map(|name| format!("pub(crate) mod {name};\n"));
    fs::write(to.join("modules.rs"), declared.collect::<String>())
}

fn switched(file: &str, mut text: String) -> String {
    for switch in switches::SWITCHES.iter().filter(|s| s.file == file) {
        let (rule, found) = (switch.rule, text.matches(switch.from).count());
        assert_eq!(
            found, 1,
            "{rule}: {file} has {found} times {:?}",
            switch.from
        );
        text = text.replace(switch.from, switch.to);
    }
    text
}
