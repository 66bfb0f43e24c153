//! A file system of our own in a file, whose power can be cut.
//!
//! The cut is the file system's own shutdown call, without a flush of its log: from then on
//! nothing reaches the file, and what was not synced is gone with the unmount. The next mount
//! replays the log, as after a power failure.
//!
//! - P1: whoever mounts runs in a mount namespace of its own ([`NAMESPACE`]). When its last
//!   process is gone, killed or not, the kernel unmounts, and frees the loop device with it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What starts a program in a mount namespace of its own.
pub(crate) const NAMESPACE: [&str; 4] = ["unshare", "--mount", "--propagation", "private"];

/// Above the least that XFS takes, and sparse.
const IMAGE_BYTES: u64 = 512 << 20;

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    Ext4,
    Xfs,
}

impl FileSystem {
    pub(crate) fn named(name: &str) -> FileSystem {
        match name {
            "ext4" => FileSystem::Ext4,
            "xfs" => FileSystem::Xfs,
            other => panic!("no such file system: {other}"),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
        }
    }

    fn maker(self) -> (&'static str, &'static [&'static str]) {
        match self {
            FileSystem::Ext4 => ("mkfs.ext4", &["-q", "-F"]),
            FileSystem::Xfs => ("mkfs.xfs", &["-q", "-f"]),
        }
    }

    /// Why it can't be used here, if it can't.
    pub(crate) fn obstacle(self) -> Option<String> {
        if !rustix::process::geteuid().is_root() {
            return Some("mounting needs root".to_string());
        }
        if !Path::new("/dev/loop-control").exists() {
            return Some("there are no loop devices".to_string());
        }
        let (maker, _) = self.maker();
        for program in [maker, "mount", "umount", NAMESPACE[0]] {
            let look = format!("command -v {program}");
            let found = Command::new("sh").args(["-c", &look]).output();
            if !found.is_ok_and(|o| o.status.success()) {
                return Some(format!("there is no {program}"));
            }
        }
        None
    }
}

/// A mounted file system; unmounted when it is dropped.
pub(crate) struct Disk {
    image: PathBuf,
    at: PathBuf,
    mounted: bool,
}

impl Disk {
    /// Makes one in a folder, and mounts it.
    pub(crate) fn new(kind: FileSystem, folder: &Path) -> Disk {
        let (image, at) = (folder.join("image"), folder.join("mounted"));
        let file = File::create(&image).expect("an image can be made");
        file.set_len(IMAGE_BYTES).expect("an image can be sparse");
        let _ = std::fs::create_dir(&at);
        let (maker, words) = kind.maker();
        run(Command::new(maker).args(words).arg(&image)).expect("a file system can be made");
        let mut disk = Disk {
            image,
            at,
            mounted: false,
        };
        disk.mount();
        disk
    }

    pub(crate) fn path(&self) -> &Path {
        &self.at
    }

    pub(crate) fn mount(&mut self) {
        let mut mount = Command::new("mount");
        run(mount.args(["-o", "loop"]).arg(&self.image).arg(&self.at)).expect("it mounts");
        self.mounted = true;
    }

    /// Unmounts it, as soon as the last process that had it open is gone.
    #[expect(clippy::disallowed_methods, reason = "the kernel needs a moment")]
    pub(crate) fn unmount(&mut self) -> Result<(), String> {
        let mut result = Ok(());
        for _ in 0..100 {
            result = run(Command::new("umount").arg(&self.at));
            if result.is_ok() {
                self.mounted = false;
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        result
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = self.unmount();
        }
    }
}

/// Cuts the power of the file system mounted there.
pub(crate) fn cut(at: &Path) {
    /// Both file systems take the same call.
    const SHUT_DOWN: rustix::ioctl::Opcode = 0x8004_587D;
    const WITHOUT_LOG_FLUSH: u32 = 2;
    let folder = File::open(at).expect("it is mounted");
    // SAFETY: the call reads one u32, and changes nothing in this process.
    let done = unsafe {
        let call = rustix::ioctl::Setter::<SHUT_DOWN, u32>::new(WITHOUT_LOG_FLUSH);
        rustix::ioctl::ioctl(&folder, call)
    };
    done.expect("a mounted file system can be shut down");
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}
