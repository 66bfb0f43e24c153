//! The ways in which a file is damaged.

use std::fs;
use std::path::Path;

use fastrand::Rng;

/// A way to damage a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Harm {
    FlipBegin,
    FlipMiddle,
    FlipEnd,
    FlipRandom,
    /// One bit in the kind of a record within a log of RocksDB, which then is one of a recycled
    /// log: its reader asks for such a one for ever.
    FlipKind,
    CutAll,
    CutHalf,
    CutTail,
    Delete,
    Replace,
    Append,
}

/// The columns of the table, with the harms that belong to each.
pub(crate) const HARMS: [(&str, &[Harm]); 7] = [
    (
        "byte flipped",
        &[
            Harm::FlipBegin,
            Harm::FlipMiddle,
            Harm::FlipEnd,
            Harm::FlipRandom,
            Harm::FlipKind,
        ],
    ),
    ("emptied", &[Harm::CutAll]),
    ("cut in half", &[Harm::CutHalf]),
    ("last bytes cut", &[Harm::CutTail]),
    ("deleted", &[Harm::Delete]),
    ("replaced by garbage", &[Harm::Replace]),
    ("garbage appended", &[Harm::Append]),
];

impl Harm {
    /// Does it to a file; says what it did.
    pub(crate) fn to(self, file: &Path, rng: &mut Rng) -> String {
        let bytes = fs::read(file).unwrap();
        let len = bytes.len();
        let flip = |at: usize, mask: u8| {
            let mut bytes = bytes.clone();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= mask;
            }
            fs::write(file, bytes).unwrap();
            format!("byte {at} of {len} ^ {mask:#04x}")
        };
        let cut = |to: usize| {
            fs::write(file, &bytes[..to]).unwrap();
            format!("cut from {len} to {to}")
        };
        match self {
            Harm::FlipBegin => flip(0, 1 << rng.u8(0..8)),
            Harm::FlipMiddle => flip(len / 2, 1 << rng.u8(0..8)),
            Harm::FlipEnd => flip(len.saturating_sub(1), 1 << rng.u8(0..8)),
            Harm::FlipKind => flip(kind_of_a_record(&bytes, rng).unwrap_or(len / 3), 4),
            Harm::FlipRandom => flip(rng.usize(0..len.max(1)), rng.u8(1..=255)),
            Harm::CutAll => cut(0),
            Harm::CutHalf => cut(len / 2),
            Harm::CutTail => cut(len.saturating_sub(rng.usize(1..=8))),
            Harm::Delete => {
                fs::remove_file(file).unwrap();
                "deleted".to_string()
            }
            Harm::Replace => {
                fs::write(file, garbage(len.max(1), rng)).unwrap();
                format!("{len} bytes of garbage")
            }
            Harm::Append => {
                let more = garbage(rng.usize(1..=64), rng);
                fs::write(file, [&bytes[..], &more].concat()).unwrap();
                format!("{} bytes appended to {len}", more.len())
            }
        }
    }
}

/// Where the kind of a whole record stands that follows another in the first block of a log.
fn kind_of_a_record(log: &[u8], rng: &mut Rng) -> Option<usize> {
    let (mut at, mut kinds) = (0, Vec::new());
    while let Some([_, _, _, _, low, high, kind]) = log.get(at..at + 7) {
        if *kind == 1 {
            kinds.push(at + 6);
        }
        at += 7 + usize::from(u16::from_le_bytes([*low, *high]));
    }
    let behind = kinds.get(1..)?;
    (!behind.is_empty()).then(|| behind[rng.usize(0..behind.len())])
}

fn garbage(len: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}
