//! Tables for people: columns as wide as they must be, numbers to the right, colours only on a
//! terminal that may have them.

use std::io::{self, IsTerminal};
use std::time::Duration;

/// A column's heading, and whether what is in it stands to the right.
pub(crate) type Column = (&'static str, bool);

/// The lines of a table.
pub(crate) fn lines(columns: &[Column], rows: &[Vec<String>]) -> Vec<String> {
    let wide = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.max().unwrap_or(0).max(columns[at].0.chars().count())
    };
    let widths: Vec<usize> = (0..columns.len()).map(wide).collect();
    let line = |cells: &[&str]| {
        let cells = cells.iter().zip(columns).zip(&widths);
        let padded = cells.map(|((cell, (_, right)), width)| match right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:width$}"),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    let names: Vec<&str> = columns.iter().map(|c| c.0).collect();
    let mut all = vec![bold(&line(&names))];
    for row in rows {
        all.push(line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    all
}

/// Whether standard output shows colours: a terminal, and nobody said no (`NO_COLOR`).
fn has_colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
}

/// A heading.
pub(crate) fn bold(text: &str) -> String {
    styled(text, "1")
}

/// What speaks against something.
pub(crate) fn alarming(text: &str) -> String {
    styled(text, "31")
}

fn styled(text: &str, code: &str) -> String {
    match has_colours() {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_string(),
    }
}

/// A length of time for people, as `10 minutes`.
pub(crate) fn span(time: Duration) -> String {
    indicatif::HumanDuration(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [["a", "1"], ["long one", "200"]].map(|row| row.map(String::from).to_vec());
        let table = lines(&[("name", false), ("n", true)], &rows);
        assert_eq!(table[1..], ["a           1", "long one  200"]);
        assert!(table[0].contains("name        n"), "{table:?}");
    }
}
