//! Names of column families: they say what is in them, so that the family list is
//! authoritative.
//!
//! | name | what |
//! | --- | --- |
//! | `meta`, `points`, `audit` | catalog and marks; resume points; what was done by request |
//! | `claims`, `dead`, `producers`, `prepared` | made when first used, see `books` |
//! | `log1.<number>` | one segment's commits |
//! | `gen1.<class>.<slice end>` | one generation |
//! | `table.<number>.<name>` | one table of the caller |
//!
//! Numbers are hexadecimal, of fixed width; the 1 is the format of what is inside.

use crate::engine::Kind;

use super::record::Slice;

pub(crate) const META: &str = "meta";
pub(crate) const POINTS: &str = "points";
pub(crate) const AUDIT: &str = "audit";

/// Families of rows that a store makes when it first needs them, in the order of
/// [`super::books::Book`].
pub(super) const BOOKS: [&str; 4] = ["claims", "dead", "producers", "prepared"];

pub(crate) fn log(number: u64) -> String {
    format!("log1.{number:016x}")
}

pub(crate) fn generation(slice: Slice) -> String {
    format!("gen1.{:02x}.{:016x}", slice.class, slice.end_ms)
}

/// A table's name is in its family's, so that its options can be chosen before the catalog is
/// read.
pub(crate) fn table(number: u32, name: &str) -> String {
    format!("{TABLE_PREFIX}{number:08x}.{name}")
}

const TABLE_PREFIX: &str = "table.";

/// Number and name of a table's family.
fn table_parts(family: &str) -> Option<(u32, &str)> {
    let (number, name) = family.strip_prefix(TABLE_PREFIX)?.split_once('.')?;
    let parsed = u32::from_str_radix(number, 16).ok()?;
    (format!("{parsed:08x}") == number).then_some((parsed, name))
}

/// The name of the table that a family holds.
pub(crate) fn table_name(family: &str) -> Option<String> {
    table_parts(family).map(|t| t.1.to_string())
}

/// What a family's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Rows,
    Log(u64),
    Generation(Slice),
    Table(u32),
}

impl Name {
    pub(crate) fn parse(name: &str) -> Option<Name> {
        if [META, POINTS, AUDIT].contains(&name) || BOOKS.contains(&name) {
            return Some(Name::Rows);
        }
        // Of tables and segments there is always a next one.
        if let Some((number, _)) = table_parts(name) {
            return (number < u32::MAX).then_some(Name::Table(number));
        }
        let parsed = if let Some(number) = name.strip_prefix("log1.") {
            let number = u64::from_str_radix(number, 16).ok()?;
            (number < u64::MAX).then_some(Name::Log(number))?
        } else {
            let (class, end) = name.strip_prefix("gen1.")?.split_once('.')?;
            let class = u8::from_str_radix(class, 16).ok()?;
            let slice = Slice {
                class,
                end_ms: u64::from_str_radix(end, 16).ok()?,
            };
            slice.is_possible().then_some(Name::Generation(slice))?
        };
        (parsed.text() == name).then_some(parsed)
    }

    fn text(self) -> String {
        match self {
            Name::Rows | Name::Table(_) => String::new(),
            Name::Log(number) => log(number),
            Name::Generation(slice) => generation(slice),
        }
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Name::Rows => Kind::Rows,
            Name::Log(_) => Kind::Log,
            Name::Generation(_) => Kind::Generation,
            Name::Table(_) => Kind::Table,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_golden_and_read_back() {
        let slice = Slice {
            class: 3,
            end_ms: 0x0102,
        };
        for (name, parsed) in [
            ("log1.000000000000000a", Name::Log(10)),
            ("gen1.03.0000000000000102", Name::Generation(slice)),
            ("table.00000007.a.b", Name::Table(7)),
            ("audit", Name::Rows),
            ("claims", Name::Rows),
            ("prepared", Name::Rows),
        ] {
            assert_eq!(Name::parse(name), Some(parsed));
        }
        assert_eq!(log(10), "log1.000000000000000a");
        assert_eq!(generation(slice), "gen1.03.0000000000000102");
        assert_eq!(table(7, "a.b"), "table.00000007.a.b");
        assert_eq!(table_name("table.00000007.a.b").as_deref(), Some("a.b"));
        for wrong in [
            "log1.a",
            "gen2.03.0000000000000102",
            "table.+0000007.a",
            "table.00000007",
            "",
            "other",
        ] {
            assert_eq!(Name::parse(wrong), None, "{wrong}");
        }
    }
}
