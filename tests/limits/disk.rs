//! A small disk: a file system in memory that can be filled, emptied and made read-only.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The disk; unmounted when dropped.
pub(crate) struct Disk {
    root: TempDir,
}

impl Disk {
    /// Mounts one of so many MiB; `None`, and a loud word, if that is not allowed here.
    pub(crate) fn mount(mib: u32, what: &str) -> Option<Disk> {
        let root = tempfile::tempdir().unwrap();
        let size = format!("size={mib}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "firstseen"])
            .arg(root.path())
            .output();
        let why = match mounted {
            Ok(output) if output.status.success() => return Some(Disk { root }),
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        super::skipped(what, &format!("no file system can be mounted here: {why}"));
        None
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Where a store goes.
    pub(crate) fn store(&self) -> PathBuf {
        self.root().join("store")
    }

    pub(crate) fn remount(&self, how: &str) -> bool {
        let how = format!("remount,{how}");
        let status = Command::new("mount")
            .args(["-o", &how])
            .arg(self.root())
            .status();
        status.unwrap().success()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a failed test may still have files open.
        let unmounted = Command::new("umount").arg("-l").arg(self.root()).status();
        drop(unmounted);
    }
}

fn ballast(root: &Path) -> PathBuf {
    root.join("ballast")
}

/// Fills the disk to the last page.
pub(crate) fn fill(root: &Path) {
    let path = ballast(root);
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    for piece in [vec![0x5a; 1 << 20], vec![0x5a; 4096]] {
        while file.write_all(&piece).is_ok() {}
    }
}

/// Fills the disk and leaves so many bytes.
pub(crate) fn fill_leaving(root: &Path, bytes: u64) {
    fill(root);
    let file = File::options().write(true).open(ballast(root)).unwrap();
    let size = file.metadata().unwrap().len();
    file.set_len(size - bytes).unwrap();
}

/// Makes room again.
pub(crate) fn empty(root: &Path) {
    let _ = fs::remove_file(ballast(root));
}
