//! One trial: a program on the model and on a store, step by step, until they disagree.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::model::Model;
use super::op::Op;
use super::runner::{Runner, Setup, Work};
use super::shrink::shrunk;

/// What came of a trial.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    /// A line for each step that was run: what the store answered.
    pub(crate) history: Vec<String>,
    /// What the model said to the last step, if it was something else.
    pub(crate) expected: Option<String>,
    pub(crate) work: Work,
}

/// Runs a program; it ends with a look at everything.
pub(crate) fn run(setup: Setup<'_>, ops: &[Op]) -> Trial {
    let mut trial = Trial::default();
    let mut model = Model::new();
    // A panic is an answer, and a wrong one.
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut runner = Runner::new(setup).expect("a new store opens");
        for op in ops.iter().chain([&Op::Check]) {
            trial.history.push("a panic".to_string());
            let expected = model.step(op);
            let answer = runner.step(op);
            *trial.history.last_mut().expect("just pushed") = answer.clone();
            if answer != expected {
                trial.expected = Some(expected);
                return;
            }
        }
        trial.work = runner.work().expect("an open store has stats");
    }));
    if ran.is_err() {
        trial.expected = Some("no panic".to_string());
    }
    trial
}

impl Trial {
    /// The history as text.
    pub(crate) fn text(&self, ops: &[Op]) -> String {
        let mut text = String::new();
        for (op, answer) in ops.iter().chain([&Op::Check]).zip(&self.history) {
            let _ = writeln!(text, "{op:?} => {answer}");
        }
        text
    }
}

/// The least program that still fails, and how: for the message of a failed test.
pub(crate) fn report(ops: &[Op], attempt: impl Fn(&[Op]) -> Trial) -> String {
    let least = shrunk(ops.to_vec(), |ops| attempt(ops).expected.is_some());
    let trial = attempt(&least);
    let expected = trial
        .expected
        .as_deref()
        .unwrap_or("(it does not fail every time)");
    let answered = trial.history.last().map_or("", String::as_str);
    format!(
        "the least program that fails:\n{}\nthe model: {expected}\nthe store: {answered}\n{}",
        trial.text(&least),
        difference(expected, answered)
    )
}

/// The lines in which two answers differ.
pub(crate) fn difference(a: &str, b: &str) -> String {
    let lines = a.lines().zip(b.lines()).filter(|(a, b)| a != b);
    lines.fold(String::new(), |text, (a, b)| {
        format!("{text}- {a}\n+ {b}\n")
    })
}
