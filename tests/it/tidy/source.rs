//! Rust source as text: code told from comments and literals, and the paths that it names.
//!
//! A small scanner and no parser, so that the test needs no dependency. It knows no macros: what
//! a macro expands to is not seen.

use std::collections::BTreeSet;

/// The paths that code names from the crate's root, without `crate::`. A module `depth` levels
/// down also gets there by as many `super::`; but so does a test module within it get to its own
/// parent, so there only the names of the root's modules count.
pub(super) fn named_from_root(
    code: &str,
    depth: usize,
    is_module: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for rest in after(code, "crate::") {
        use_tree(&mut rest.chars().peekable(), "", &mut named);
    }
    let mut climbed = BTreeSet::new();
    for rest in after(code, &"super::".repeat(depth)) {
        let call = rest.trim_start_matches(in_word).starts_with('(');
        if !call && !rest.starts_with("super::") {
            use_tree(&mut rest.chars().peekable(), "", &mut climbed);
        }
    }
    climbed.retain(|path| is_module(path.split("::").next().unwrap_or(path)));
    named.extend(climbed);
    named
}

/// What follows each `root` that begins a path.
fn after<'a>(code: &'a str, root: &str) -> impl Iterator<Item = &'a str> {
    let ends = code.match_indices(root).filter(|(at, _)| {
        let before = &code[..*at];
        !before.ends_with(in_word) && !before.ends_with("::")
    });
    ends.map(|(at, root)| &code[at + root.len()..])
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Reads `a::b` or `a::{b, c::d}` and adds its paths, each after `prefix`.
fn use_tree(chars: &mut Chars<'_>, prefix: &str, paths: &mut BTreeSet<String>) {
    let mut path = prefix.to_owned();
    let blank = |c: &char| c.is_whitespace();
    loop {
        while chars.next_if(blank).is_some() {}
        if chars.next_if_eq(&'{').is_some() {
            loop {
                use_tree(chars, &path, paths);
                // What follows a path: blanks, `as other`, then a comma or the end.
                let end = chars.find(|c| matches!(c, ',' | '}'));
                if end != Some(',') {
                    return;
                }
            }
        }
        let mut word = String::new();
        while let Some(c) = chars.next_if(|&c| in_word(c) || c == '*') {
            word.push(c);
        }
        if !word.is_empty() {
            let joint = if path.is_empty() { "" } else { "::" };
            path = format!("{path}{joint}{word}");
        }
        let goes_on = !word.is_empty() && chars.next_if_eq(&':').is_some();
        if !(goes_on && chars.next_if_eq(&':').is_some()) {
            paths.insert(path);
            return;
        }
    }
}

/// The numbers of the lines that have `what` as a whole word.
pub(super) fn lines_with(text: &str, what: &str) -> Vec<usize> {
    let whole = |line: &str, at: usize| {
        let starts = !line[..at].ends_with(in_word) || !what.starts_with(in_word);
        let ends = !line[at + what.len()..].starts_with(in_word) || !what.ends_with(in_word);
        starts && ends
    };
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.match_indices(what).any(|(at, _)| whole(line, at)))
        .map(|(number, _)| number)
        .collect()
}

/// The text with comments and the insides of literals blanked, line by line as before.
pub(super) fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after_word = out.ends_with(in_word);
        let skipped = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => quoted(rest, '"'),
            'r' if !after_word || out.ends_with('b') => raw_string(rest),
            '\'' => char_literal(rest),
            _ => 0,
        };
        if skipped == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            out.extend(
                rest[..skipped]
                    .chars()
                    .map(|c| if c == '\n' { '\n' } else { ' ' }),
            );
            rest = &rest[skipped..];
        }
    }
    out
}

/// The length of a block comment, which may hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        match (rest.starts_with(b"/*"), rest.starts_with(b"*/")) {
            (true, _) => (depth, at) = (depth + 1, at + 2),
            (_, true) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a literal between two `quote`s, the first at the start.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// The length of `r#".."#`, or 0 for a word that begins with r.
fn raw_string(text: &str) -> usize {
    let hashes = text[1..].chars().take_while(|c| *c == '#').count();
    if !text[1 + hashes..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let inside = 2 + hashes;
    text[inside..]
        .find(&end)
        .map_or(text.len(), |at| inside + at + end.len())
}

/// The length of a character literal, or 0 for a lifetime.
fn char_literal(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), _) => quoted(text, '\''),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}
