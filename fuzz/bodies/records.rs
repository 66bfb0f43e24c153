//! Stored bytes of any kind: each decoder refuses them or reads them, never with a panic, and
//! what it reads is what the store would write for it.
//!
//! The first byte says which decoder, and whether the bytes get the marks and checksums without
//! which nothing would come further than to a checksum.

use firstseen::fuzzing::{Stored, again};
use xxhash_rust::xxh3::xxh3_64;

const WITH_CHECKSUMS: u8 = 0x80;
const SLOT_BYTES: usize = 45;

pub(crate) fn run(data: &[u8]) {
    let Some((&which, bytes)) = data.split_first() else {
        return;
    };
    let stored = Stored::ALL[usize::from(which & !WITH_CHECKSUMS) % Stored::ALL.len()];
    if which & WITH_CHECKSUMS == 0 {
        check(stored, bytes);
    } else if let Some(bytes) = completed(stored, bytes) {
        check(stored, &bytes);
    }
}

fn check(stored: Stored, bytes: &[u8]) {
    let Some((shown, written)) = again(stored, bytes) else {
        return;
    };
    if stored.is_canonical() {
        assert_eq!(written, bytes, "{stored:?}: {shown} has other bytes");
    }
    let stored = match stored {
        // Of a floor file the slot that counts is written again.
        Stored::Floor => Stored::Slot,
        stored => stored,
    };
    let read = again(stored, &written);
    assert_eq!(read, Some((shown, written)), "{stored:?}");
}

/// The bytes with what a decoder asks for before it looks at them.
fn completed(stored: Stored, bytes: &[u8]) -> Option<Vec<u8>> {
    match stored {
        Stored::Slot => Some(slot(bytes)),
        Stored::Floor => {
            let (first, second) = bytes.split_at(bytes.len() / 2);
            let mut file = slot(first);
            file.resize(4096, 0);
            file.extend(slot(second));
            file.resize(8192, 0);
            Some(file)
        }
        Stored::Filter => Some(filter(bytes)),
        Stored::Filters => Some(filters(bytes)),
        Stored::Footer if bytes.len() > 12 => {
            let mut footer = bytes.to_vec();
            footer[12] = 1;
            footer.resize(12 + 37, 0);
            Some(footer)
        }
        Stored::Page if bytes.len() > 8 => {
            let mut page = bytes.to_vec();
            page[8] = 1;
            Some(page)
        }
        _ => None,
    }
}

fn slot(bytes: &[u8]) -> Vec<u8> {
    let mut slot = b"FSf1".to_vec();
    slot.extend(bytes);
    slot.resize(SLOT_BYTES - 8, 0);
    summed(slot)
}

fn filter(bytes: &[u8]) -> Vec<u8> {
    let (ids, blocks) = bytes.split_at(bytes.len().min(8));
    let mut filter = b"FSfilt\x01\x00".to_vec();
    filter.extend(ids);
    filter.resize(16, 0);
    let count = blocks.len().div_ceil(64).max(1);
    filter.extend((count as u64).to_le_bytes());
    filter.extend(blocks);
    filter.resize(24 + 64 * count, 0);
    summed(filter)
}

/// Of each piece the first 28 bytes are a run's key and id.
fn filters(bytes: &[u8]) -> Vec<u8> {
    let mut runs = bytes.chunks(80).filter(|run| run.len() >= 28).peekable();
    let mut file = b"FSs1".to_vec();
    file.extend((runs.clone().count() as u32).to_le_bytes());
    while let Some(run) = runs.next() {
        let filter = filter(&run[28..]);
        file.extend(&run[..28]);
        file.extend((filter.len() as u64).to_le_bytes());
        file.extend(filter);
        if runs.peek().is_none() && run[27] == 0xff {
            // Bytes behind the last run.
            file.push(0);
        }
    }
    summed(file)
}

fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = xxh3_64(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}
