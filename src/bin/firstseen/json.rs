//! Values of JSON rows as parts of an id.
//!
//! 1. A value's text is canonical: the same value always gives the same text (object keys sorted,
//!    no spaces, one form of each string), and values of two types never share one: `"1"`, `1`
//!    and `1.0` are three.
//! 2. No two whole numbers become one. A number that isn't a 64-bit integer is held as a 64-bit
//!    float; beyond 2^53 a float can't tell neighbours apart, and such a number is refused.
//!    Fractions that differ after their 15th digit only may be one.
//!
//! `null` is no value.

use std::fmt::Write;

use serde_json::Value;

/// From here on, not every whole number is a float.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A dotted path to a value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Path {
    text: String,
    segments: Vec<String>,
}

impl Path {
    /// `user.id`; `\.` is a dot and `\\` a backslash within a name. None if a name is empty.
    pub(crate) fn parse(text: &str) -> Option<Path> {
        let mut segments = vec![String::new()];
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '.' => segments.push(String::new()),
                '\\' => segments.last_mut()?.push(chars.next()?),
                c => segments.last_mut()?.push(c),
            }
        }
        let named = segments.iter().all(|s| !s.is_empty());
        named.then(|| Path {
            text: text.to_string(),
            segments,
        })
    }

    /// The path as it was written.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The value there, if there is one. A number selects from an array.
    pub(crate) fn find<'a>(&self, row: &'a Value) -> Option<&'a Value> {
        self.segments
            .iter()
            .try_fold(row, |value, segment| match value {
                Value::Object(fields) => fields.get(segment),
                Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
                _ => None,
            })
    }
}

/// The value's canonical text; why not, if it has none.
pub(crate) fn canonical(value: &Value) -> Result<String, String> {
    let mut text = String::new();
    write_value(&mut text, value)?;
    Ok(text)
}

fn write_value(to: &mut String, value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number) => {
            let whole = number.as_u64().is_some() || number.as_i64().is_some();
            if !whole && number.as_f64().is_none_or(|float| float.abs() >= EXACT_MAX) {
                return Err(format!(
                    "the number {number} is too large to be told from others"
                ));
            }
            // Writing to a string can't fail, here and below.
            let _ = write!(to, "{number}");
        }
        Value::Array(items) => {
            to.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    to.push(',');
                }
                write_value(to, item)?;
            }
            to.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            to.push('{');
            for (i, (name, value)) in fields.into_iter().enumerate() {
                let comma = if i > 0 { "," } else { "" };
                let _ = write!(to, "{comma}{}:", Value::from(name.as_str()));
                write_value(to, value)?;
            }
            to.push('}');
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {
            let _ = write!(to, "{value}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(row: &str) -> Result<String, String> {
        canonical(&serde_json::from_str(row).unwrap())
    }

    #[test]
    fn paths_lead_into_objects_and_arrays() {
        let row = json!({"user": {"id": 7, "a.b": true}, "items": [{"sku": "x"}]});
        let find = |path| Path::parse(path).unwrap().find(&row).cloned();
        assert_eq!(find("user.id"), Some(json!(7)));
        assert_eq!(find(r"user.a\.b"), Some(json!(true)));
        assert_eq!(find("items.0.sku"), Some(json!("x")));
        assert_eq!(find("items.1.sku"), None);
        assert_eq!(find("user.id.x"), None);
        for wrong in ["", "a..b", ".a", "a.", r"a\"] {
            assert_eq!(Path::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn one_value_has_one_text_and_types_stay_apart() {
        assert_eq!(
            text(r#"{ "b" : [1, "\u0041"], "a": null }"#).unwrap(),
            r#"{"a":null,"b":[1,"A"]}"#
        );
        assert_ne!(text("1"), text(r#""1""#));
        assert_ne!(text("1"), text("1.0"));
        assert_eq!(text("0.50"), text("0.5"));
    }

    #[test]
    fn numbers_that_would_be_confused_are_refused() {
        assert_eq!(
            text("18446744073709551615").unwrap(),
            "18446744073709551615"
        );
        assert_eq!(
            text("-9223372036854775808").unwrap(),
            "-9223372036854775808"
        );
        for number in ["18446744073709551616", "-9223372036854775809", "1e300"] {
            assert!(text(number).unwrap_err().contains("too large"), "{number}");
            assert!(text(&format!("[{number}]")).is_err(), "{number}");
        }
    }
}
