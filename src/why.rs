//! Why something is done against the rule, and who does it: what the audit keeps.

use crate::error::{Error, Result};

/// The longest name of an actor, in bytes.
pub(crate) const WHO_BYTES_MAX: usize = 255;

/// A reason, and who gives it. Text alone converts; the actor is then the store's
/// ([`Options::actor`](crate::Options::actor)).
///
/// ```
/// use firstseen::Why;
/// let why = Why::new("the effect was rolled back").by("alice");
/// # let _ = why;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Why<'a> {
    pub(crate) text: &'a str,
    pub(crate) who: Option<&'a str>,
}

impl<'a> Why<'a> {
    /// A reason; not empty.
    #[must_use]
    pub fn new(text: &'a str) -> Why<'a> {
        Why { text, who: None }
    }

    /// Who does it, instead of the store's actor; at most 255 bytes.
    #[must_use]
    pub fn by(mut self, who: &'a str) -> Why<'a> {
        self.who = Some(who);
        self
    }

    /// # Errors
    /// `Invalid` without a reason, or with too long a name.
    pub(crate) fn check(&self, what: &str) -> Result<()> {
        if self.text.is_empty() {
            return Err(Error::invalid(format!("{what} needs a reason")));
        }
        if self.who.is_some_and(|who| who.len() > WHO_BYTES_MAX) {
            let text = format!("an actor's name must have at most {WHO_BYTES_MAX} bytes");
            return Err(Error::invalid(text));
        }
        Ok(())
    }
}

/// The same, for an act that is handed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grounds {
    text: String,
    who: Option<String>,
}

impl Grounds {
    pub(crate) fn of(why: &Why<'_>) -> Grounds {
        Grounds {
            text: why.text.to_string(),
            who: why.who.map(str::to_string),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn why(&self) -> Why<'_> {
        Why {
            text: &self.text,
            who: self.who.as_deref(),
        }
    }
}

impl<'a> From<&'a str> for Why<'a> {
    fn from(text: &'a str) -> Why<'a> {
        Why::new(text)
    }
}

impl<'a> From<&'a String> for Why<'a> {
    fn from(text: &'a String) -> Why<'a> {
        Why::new(text)
    }
}
