//! `resume-points`: where each source is to be read on.

use firstseen::Position;
use serde_json::{Value, json};

use crate::args::ResumePoints;
use crate::failure::{Ending, Failure};
use crate::place;
use crate::show::{Lines, hex};

pub(crate) fn run(args: &ResumePoints) -> Result<Ending, Failure> {
    let store = place::look(&args.store)?;
    let mut lines = Lines::new();
    for point in store.resume_points()? {
        let (source, next) = point?;
        lines.print(&if args.json {
            json!({ "source": source, "next": position(&next) }).to_string()
        } else {
            format!("{:>20}  {source}", position(&next).to_string())
        })?;
    }
    lines.finish()?;
    place::end_look(store)?;
    Ok(Ending::Done)
}

/// A number as one, bytes as text in hexadecimal digits.
pub(crate) fn position(at: &Position) -> Value {
    match (at.as_u64(), at.as_bytes()) {
        (Some(number), _) => json!(number),
        (None, bytes) => json!(hex(bytes.unwrap_or_default())),
    }
}
