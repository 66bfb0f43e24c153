//! What of a database's directory tells whether somebody changed it meanwhile.
//!
//! A process that looks into a store that another one writes reads the MANIFEST first, the logs
//! after it. Between the two a log may be deleted that was flushed meanwhile: its commits are
//! then in neither. Logs go in their order, so nothing is missed if all that were there before
//! are there after (P1). New ones don't matter: they are later than what was seen.

use std::fs;

use crate::error::Result;

use super::Home;

/// The directory of a database at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// The name of the MANIFEST in force, and how long it is: it only grows.
    pub(crate) manifest: (String, u64),
    /// The write-ahead logs, sorted.
    pub(crate) logs: Vec<String>,
}

impl Footprint {
    /// The footprint of a home's database. What is not there has none.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub(crate) fn of(home: &Home) -> Result<Footprint> {
        let data = home.data_path();
        let mut logs = Vec::new();
        for entry in fs::read_dir(&data)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".log") {
                logs.push(name);
            }
        }
        logs.sort_unstable();
        let current = fs::read_to_string(data.join("CURRENT")).unwrap_or_default();
        let name = current.trim_end().to_string();
        let bytes = fs::metadata(data.join(&name)).map_or(0, |meta| meta.len());
        Ok(Footprint {
            manifest: (name, bytes),
            logs,
        })
    }

    /// Whether none of its logs was deleted by the time of a later footprint (P1).
    pub(crate) fn kept_logs(&self, later: &Footprint) -> bool {
        !self.logs.is_empty() && self.logs.iter().all(|log| later.logs.contains(log))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_went_is_noticed_and_a_new_one_is_none() {
        let at = |logs: &[&str]| Footprint {
            logs: logs.iter().map(ToString::to_string).collect(),
            ..Footprint::default()
        };
        assert!(at(&["1.log", "2.log"]).kept_logs(&at(&["1.log", "2.log", "3.log"])));
        assert!(!at(&["1.log", "2.log"]).kept_logs(&at(&["2.log", "3.log"])));
        assert!(!at(&[]).kept_logs(&at(&["1.log"])));
    }
}
