//! Spans of the crate `tracing` around the work that takes long, with the feature `tracing`;
//! without it nothing of them is left.
//!
//! Spans are entered and left by one thread. Level: `debug` for calls, `info` for background
//! work and opening. Targets are the modules'.

/// A span that ends when it is dropped.
#[cfg(feature = "tracing")]
pub(crate) struct Span(tracing::span::EnteredSpan);

#[cfg(not(feature = "tracing"))]
pub(crate) struct Span;

impl Span {
    #[cfg(feature = "tracing")]
    pub(crate) fn new(span: tracing::Span) -> Span {
        Span(span.entered())
    }

    /// Adds what was not known at the start; the field was named there.
    #[inline]
    pub(crate) fn record(&self, field: &'static str, value: u64) {
        #[cfg(feature = "tracing")]
        self.0.record(field, value);
        #[cfg(not(feature = "tracing"))]
        let _ = (field, value);
    }
}

/// Enters a span: its level, name, fields known now, then names of fields to be recorded.
#[cfg(feature = "tracing")]
macro_rules! span {
    ($level:ident, $name:literal, {$($field:ident = $value:expr),*}, [$($later:ident),*]) => {
        $crate::trace::Span::new(tracing::span!(
            tracing::Level::$level,
            $name,
            $($field = $value,)*
            $($later = tracing::field::Empty,)*
        ))
    };
}

#[cfg(not(feature = "tracing"))]
macro_rules! span {
    ($level:ident, $name:literal, {$($field:ident = $value:expr),*}, [$($later:ident),*]) => {{
        // Looked at by the compiler only, so that a value is used with and without the feature.
        if false {
            $(let _ = &$value;)*
        }
        $crate::trace::Span
    }};
}

pub(crate) use span;
