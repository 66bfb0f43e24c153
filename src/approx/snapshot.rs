//! The snapshot of an approximate scope: its form, written and read as a stream.
//!
//! All numbers are little-endian. Why not the front filter's stored form: that one is of one
//! filter, encoded whole in memory, which would double what is fixed by configuration.
//!
//! ```text
//!  0  magic    8      "FSappr", version u16 = 1
//!  8  window   u64    milliseconds
//! 16  expected u64
//! 24  rate     u64    the bits of an IEEE double
//! 32  slices   u32
//! 36  precision u8
//! 37  count    u8     slices that follow
//! 38  name     u16    its length
//! 40  blocks   u64    of each filter
//! 48  seed     u64    of the hash
//! 56  from     u64    effective time when it was begun, milliseconds since 1970
//! 64  current  u64    the slice that filled
//! 72  short    2×u64  from and until, of what a crash took; 0 and 0: nothing
//! 88  name            UTF-8
//!     check    u64    xxh3 of all above
//! then each slice:
//!     number   u64
//!     ids      u64
//!     registers       2^precision bytes
//!     blocks          eight words u64 each
//! and at the end:
//!     check    u64    xxh3 of all slices
//! ```
//!
//! Invariants
//! 1. Bytes that are short, long or damaged, or of another version, are an error, never an empty
//!    scope.
//! 2. Nothing is allocated for what a damaged head says: the file's length must agree first.

use std::io::{Read, Write};
use std::time::Duration;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::error::{Error, Result};

use super::options::Approximate;
use super::ring::{Ring, Slice};
use super::sketch::Sketch;

const MAGIC: &[u8; 6] = b"FSappr";
const VERSION: u16 = 1;
const HEAD_BYTES: usize = 88;
const SUM_BYTES: usize = 8;

/// The head of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Head {
    pub(super) made_for: Approximate,
    pub(super) name: String,
    pub(super) count: u8,
    pub(super) blocks: u64,
    pub(super) seed: u64,
    pub(super) from_ms: u64,
    pub(super) current: u64,
    pub(super) short: Option<(u64, u64)>,
}

impl Head {
    fn encode(&self) -> Vec<u8> {
        let made_for = &self.made_for;
        let (from, until) = self.short.unwrap_or_default();
        let mut out = Vec::with_capacity(HEAD_BYTES + self.name.len() + SUM_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&made_for.window_ms.to_le_bytes());
        out.extend_from_slice(&made_for.expected.to_le_bytes());
        out.extend_from_slice(&made_for.error_rate.to_bits().to_le_bytes());
        out.extend_from_slice(&made_for.slices.to_le_bytes());
        out.extend_from_slice(&[made_for.precision, self.count]);
        out.extend_from_slice(&(self.name.len() as u16).to_le_bytes());
        for number in [
            self.blocks,
            self.seed,
            self.from_ms,
            self.current,
            from,
            until,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(self.name.as_bytes());
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Bytes of one slice; none if a damaged head says what can't be.
    fn slice_bytes(&self) -> Option<u64> {
        let registers = 1u64.checked_shl(self.made_for.precision.into())?;
        self.blocks.checked_mul(64)?.checked_add(16 + registers)
    }

    /// The length of the whole file.
    fn file_bytes(&self) -> Option<u64> {
        let head = HEAD_BYTES + self.name.len() + 2 * SUM_BYTES;
        let slices = self.slice_bytes()?.checked_mul(self.count.into())?;
        slices.checked_add(head as u64)
    }
}

/// Writes a snapshot of these slices, whose number is the head's.
pub(super) fn write(
    out: &mut dyn Write,
    head: &Head,
    ring: &Ring,
    slices: &[Slice],
) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::with_capacity(256 << 10, out);
    out.write_all(&head.encode())?;
    let mut sum = Xxh3::new();
    let mut put = |bytes: &[u8]| {
        sum.update(bytes);
        out.write_all(bytes)
    };
    for slice in slices {
        put(&slice.number.to_le_bytes())?;
        put(&slice.ids.to_le_bytes())?;
        put(&slice.sketch.bytes())?;
        let mut line = [0; 64];
        for (i, word) in ring.words_of(slice).enumerate() {
            let at = 8 * (i % 8);
            line[at..at + 8].copy_from_slice(&word.to_le_bytes());
            if at == 56 {
                put(&line)?;
            }
        }
    }
    out.write_all(&sum.digest().to_le_bytes())?;
    out.flush()
}

/// A snapshot that is being read.
pub(super) struct Reader<R> {
    input: R,
    pub(super) head: Head,
}

fn damaged(what: &str) -> Error {
    Error::damaged(what)
}

fn exactly(input: &mut impl Read, into: &mut [u8]) -> Result<()> {
    input.read_exact(into).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => damaged("it ends too early"),
        _ => e.into(),
    })
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

impl<R: Read> Reader<R> {
    /// Reads the head of a file of so many bytes.
    ///
    /// # Errors
    /// `Damaged`.
    pub(super) fn open(mut input: R, file_bytes: u64) -> Result<Reader<R>> {
        let mut fixed = [0; HEAD_BYTES];
        exactly(&mut input, &mut fixed)?;
        let version = u16::from_le_bytes([fixed[6], fixed[7]]);
        if !fixed.starts_with(MAGIC) {
            return Err(damaged("it does not begin as one"));
        }
        if version != VERSION {
            let text = format!("it is of version {version}; this release reads {VERSION}");
            return Err(Error::damaged(text));
        }
        let name_bytes = usize::from(u16::from_le_bytes([fixed[38], fixed[39]]));
        let mut rest = vec![0; name_bytes + SUM_BYTES];
        exactly(&mut input, &mut rest)?;
        let (name, sum) = rest.split_at(name_bytes);
        if number(sum, 0) != xxh3_64(&[&fixed[..], name].concat()) {
            return Err(damaged("its head is damaged"));
        }
        let head = head(&fixed, name)?;
        if head.file_bytes() != Some(file_bytes) {
            return Err(damaged("it is not of its length"));
        }
        Ok(Reader { input, head })
    }

    /// Reads the slices, into a ring if there is one.
    ///
    /// # Errors
    /// `Damaged`: the ring is of no use then.
    pub(super) fn slices(mut self, mut ring: Option<&mut Ring>) -> Result<()> {
        let mut sum = Xxh3::new();
        let mut registers = vec![0; 1 << self.head.made_for.precision];
        for _ in 0..self.head.count {
            let mut fixed = [0; 16];
            exactly(&mut self.input, &mut fixed)?;
            sum.update(&fixed);
            exactly(&mut self.input, &mut registers)?;
            sum.update(&registers);
            let sketch = Sketch::from_bytes(&registers)
                .ok_or_else(|| damaged("a distinct count is damaged"))?;
            let ring = ring.as_deref_mut();
            let mut into = ring.and_then(|ring| {
                let slot = ring.restore(number(&fixed, 0), number(&fixed, 8), sketch)?;
                Some((ring, slot))
            });
            for block in 0..self.head.blocks as usize {
                let mut line = [0; 64];
                exactly(&mut self.input, &mut line)?;
                sum.update(&line);
                if let Some((ring, slot)) = &mut into {
                    for word in 0..8 {
                        ring.set_word(*slot, block * 8 + word, number(&line, word * 8));
                    }
                }
            }
        }
        let mut stored = [0; SUM_BYTES];
        exactly(&mut self.input, &mut stored)?;
        match u64::from_le_bytes(stored) == sum.digest() {
            true => Ok(()),
            false => Err(damaged("its checksum is wrong")),
        }
    }
}

/// The head of bytes whose checksum is right.
fn head(fixed: &[u8; HEAD_BYTES], name: &[u8]) -> Result<Head> {
    let short = (number(fixed, 72), number(fixed, 80));
    let made_for = Approximate {
        window_ms: number(fixed, 8),
        slices: u32::from_le_bytes([fixed[32], fixed[33], fixed[34], fixed[35]]),
        expected: number(fixed, 16),
        error_rate: f64::from_bits(number(fixed, 24)),
        precision: fixed[36],
        snapshot_every: Duration::from_millis(1),
    };
    made_for
        .validate()
        .map_err(|e| Error::damaged(e.to_string()))?;
    let name = String::from_utf8(name.to_vec()).map_err(|_| damaged("its name is not UTF-8"))?;
    Ok(Head {
        made_for,
        name,
        count: fixed[37],
        blocks: number(fixed, 40),
        seed: number(fixed, 48),
        from_ms: number(fixed, 56),
        current: number(fixed, 64),
        short: (short != (0, 0)).then_some(short),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Vec<u8> {
        let made_for = Approximate::window(Duration::from_millis(0x1234))
            .slices(2)
            .expected(3)
            .error_rate(0.25)
            .distinct_precision(4);
        let shape = made_for.shape(1);
        let ring = Ring::new(shape, 7).expect("there is memory");
        ring.insert(0x3123_4567_89AB_CDEF, 7 * shape.slice_ms);
        let slices = ring.remembered();
        let head = Head {
            made_for,
            name: "ids".to_string(),
            count: 1,
            blocks: 1,
            seed: 0x55,
            from_ms: 0x66,
            current: 7,
            short: Some((0x11, 0x22)),
        };
        let mut out = Vec::new();
        write(&mut out, &head, &ring, &slices).expect("memory takes it");
        out
    }

    #[test]
    fn golden_bytes() {
        let mut head = b"FSappr\x01\0\x34\x12\0\0\0\0\0\0".to_vec();
        head.extend_from_slice(b"\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\xD0\x3F");
        head.extend_from_slice(b"\x02\0\0\0\x04\x01\x03\0");
        for number in [1u64, 0x55, 0x66, 7, 0x11, 0x22] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        head.extend_from_slice(b"ids");
        let mut slice = b"\x07\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
        slice.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for word in crate::front::Filter::mask(0x3123_4567_89AB_CDEF).words() {
            slice.extend_from_slice(&word.to_le_bytes());
        }
        let expected = [
            &head[..],
            &xxh3_64(&head).to_le_bytes(),
            &slice,
            &xxh3_64(&slice).to_le_bytes(),
        ];
        assert_eq!(stored(), expected.concat());
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_damage() {
        let good = stored();
        let read = |bytes: &[u8]| {
            let reader = Reader::open(bytes, bytes.len() as u64)?;
            let shape = reader.head.made_for.shape(reader.head.blocks);
            reader.slices(Some(&mut Ring::new(shape, 7)?))
        };
        read(&good).expect("as written");
        for cut in 0..good.len() {
            assert!(read(&good[..cut]).is_err(), "cut at {cut}");
        }
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&bytes).is_err(), "bit {bit}");
        }
    }
}
