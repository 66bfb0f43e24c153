//! Copies of the library's files for model checkers, without the files' own unit tests: those
//! run with the library, over the real primitives.

use std::path::Path;
use std::{fs, io};

/// Copies a file, or all that is in a folder, to where `name` says, as `change` makes it.
pub(crate) fn copy(
    from: &Path,
    to: &Path,
    change: &impl Fn(&Path, String) -> String,
) -> io::Result<()> {
    if from.is_dir() {
        for entry in fs::read_dir(from)? {
            let inner = entry?;
            copy(&inner.path(), &to.join(inner.file_name()), change)?;
        }
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let text = fs::read_to_string(from)?.replace("#[cfg(test)]", "#[cfg(any())]");
    fs::write(to, change(to, text))
}
