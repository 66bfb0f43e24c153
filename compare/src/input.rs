//! A file of ids, one a line: the user's own data instead of random ids.
//!
//! Lines are bytes; an id is a line without its end. How many of them are different is counted
//! beforehand, so a system that gives another number of first-seen ids fails its run. Nothing
//! expires meanwhile.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::measure::{Latencies, now, processor_time};
use crate::run::{Timed, check};
use crate::systems::{Result, System};

/// The longest id that every system takes.
const ID_BYTES_MAX: usize = 4096;

/// The ids of a file.
pub struct Input {
    bytes: Vec<u8>,
    /// Where each id lies.
    places: Vec<(usize, usize)>,
    /// How many are different.
    pub different: u64,
}

impl Input {
    pub fn len(&self) -> u64 {
        self.places.len() as u64
    }

    fn ids(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|(from, to)| &self.bytes[*from..*to])
    }
}

/// Reads a file of ids.
///
/// # Errors
///
/// It can't be read, holds no id, or a line is empty or too long.
pub fn read(file: &Path) -> Result<Input> {
    let said = |why: String| format!("{}: {why}", file.display());
    let bytes = fs::read(file).map_err(|e| said(e.to_string()))?;
    let mut places = Vec::new();
    let mut from = 0;
    while from < bytes.len() {
        let end = bytes[from..].iter().position(|b| *b == b'\n');
        let end = end.map_or(bytes.len(), |at| from + at);
        let to = if bytes[from..end].ends_with(b"\r") {
            end - 1
        } else {
            end
        };
        let line = places.len() + 1;
        match to - from {
            0 => return Err(said(format!("line {line} is empty")).into()),
            n if n > ID_BYTES_MAX => {
                let why = format!("line {line} has {n} bytes, {ID_BYTES_MAX} are the most");
                return Err(said(why).into());
            }
            _ => places.push((from, to)),
        }
        from = end + 1;
    }
    if places.is_empty() {
        return Err(said("no ids".to_owned()).into());
    }
    let mut input = Input {
        bytes,
        places,
        different: 0,
    };
    let different: HashSet<&[u8]> = input.ids().collect();
    input.different = different.len() as u64;
    Ok(input)
}

/// Gives a system all ids of the file, in its order.
///
/// # Errors
///
/// The system failed, or saw another number of different ids.
pub fn drive(
    input: &Input,
    batch: usize,
    system: &dyn System,
    mut latencies: Latencies,
) -> Result<Timed> {
    let mut worker = system.worker()?;
    let processor = processor_time(system.server());
    let (mut firsts, mut given) = (Some(0), 0);
    let mut ids: Vec<&[u8]> = Vec::with_capacity(batch);
    let mut rest = input.ids().peekable();
    while rest.peek().is_some() {
        ids.clear();
        ids.extend(rest.by_ref().take(batch));
        let start = now();
        let answer = worker.insert_any(&ids)?;
        latencies.record(start.elapsed());
        firsts = firsts.zip(answer).map(|(sum, n)| sum + n);
        given += ids.len() as u64;
        system.at(given);
    }
    let start = now();
    system.drain()?;
    latencies.add(start.elapsed());
    check(firsts, input.different)?;
    Ok(Timed {
        latencies,
        ids: given,
        inserted: input.different,
        processor: processor_time(system.server()).saturating_sub(processor),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Task;
    use crate::systems::Kind;
    use crate::workload::{Size, Workload};

    fn file(text: &[u8]) -> Result<Input> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("ids.txt");
        fs::write(&file, text)?;
        read(&file)
    }

    fn why(text: &[u8]) -> String {
        file(text).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn lines_are_ids_as_they_are() -> Result<()> {
        let input = file(b"order 1\r\n\xff\xfe\norder 1\nlast")?;
        let ids: Vec<&[u8]> = input.ids().collect();
        assert_eq!(ids, [&b"order 1"[..], b"\xff\xfe", b"order 1", b"last"]);
        assert_eq!((input.len(), input.different), (4, 3));
        Ok(())
    }

    #[test]
    fn what_is_no_id_is_named_with_its_line() {
        assert!(why(b"a\n\nb\n").ends_with("line 2 is empty"));
        assert!(why(b"").ends_with("no ids"));
        let long = [&b"a\n"[..], &[b'x'; 5000]].concat();
        assert!(why(&long).contains("line 2 has 5000 bytes"));
        assert!(read(Path::new("/no/such/file")).is_err());
    }

    #[test]
    fn a_wrong_count_of_different_ids_is_an_error() -> Result<()> {
        let mut input = file(b"a\nb\na\n")?;
        let task = Task {
            system: Kind::Hashset,
            workload: Workload::Input,
            size: Size { ids: 3, preload: 0 },
            seed: 1,
            generations: 8,
            input: None,
        };
        let fresh = || Kind::Hashset.open(Path::new(""), task.setup());
        let timed = drive(&input, 2, fresh()?.as_ref(), Latencies::new(2))?;
        assert_eq!((timed.ids, timed.inserted), (3, 2));
        input.different = 3;
        assert!(drive(&input, 2, fresh()?.as_ref(), Latencies::new(2)).is_err());
        Ok(())
    }
}
