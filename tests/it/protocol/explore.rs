//! The explorer: breadth first over every interleaving of a small model.
//!
//! A model is a state that lists its successors. The explorer keeps a 128-bit fingerprint of each
//! state it met, never the state, so a million states cost some 70 MB. Breadth first makes the
//! first violation also a shortest one, and the parent links turn it into a trace.
//!
//! Invariants:
//! - E1 a state that is not finished and has no step of its own (the clock ticking and the power
//!   failing are not its own) is a deadlock;
//! - E2 an exploration that ends without a violation has seen every reachable state: running into
//!   the bound is a panic, never a pass.
//!
//! Why no model-checking crate: the loop is forty lines, and the models want traces in the words
//! of the protocol.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// More states than any workload has: reaching it means a workload grew out of hand.
const STATES_MAX: usize = 3_000_000;

/// What can be wrong with a state. Each is one promise of the store, broken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Broken {
    /// An id that is live was, or would now be, called first seen again.
    Double,
    /// An id that is not live (never committed, forgotten, expired) is called duplicate, or an
    /// acknowledged commit did not survive a crash it was promised to survive.
    Lost,
    /// Of an id and its mutation one survived without the other.
    Torn,
    /// A run was ingested into a generation that had been dropped.
    Zombie,
    /// An undamaged store refuses to open.
    FalseRefusal,
    /// A damaged store opens as if nothing were missing.
    SilentShort,
    /// Two increments of one row, one of them lost.
    LostUpdate,
    /// An `Unknown` was answered with the fate of another commit.
    WrongAnswer,
    /// Unfinished, and nobody can go on.
    Deadlock,
}

/// One step of a trace: who did what, and to which number if there is one.
#[derive(Clone, Copy)]
pub(super) struct Label {
    who: u8,
    what: &'static str,
    number: u8,
    environment: bool,
}

const NO_NUMBER: u8 = u8::MAX;
const STORE: u8 = u8::MAX;

impl Label {
    /// A step of caller `who`.
    pub(super) fn caller(who: usize, what: &'static str) -> Self {
        Self {
            who: who as u8,
            what,
            number: NO_NUMBER,
            environment: false,
        }
    }

    /// A step of the store's own: leader, sealer, maintenance.
    pub(super) fn store(what: &'static str) -> Self {
        Self {
            who: STORE,
            what,
            number: NO_NUMBER,
            environment: false,
        }
    }

    /// A step of the world outside. It never counts as progress.
    pub(super) fn world(what: &'static str) -> Self {
        Self {
            who: STORE,
            what,
            number: NO_NUMBER,
            environment: true,
        }
    }

    /// The same step with the number it is about.
    pub(super) fn number(self, number: u8) -> Self {
        Self { number, ..self }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.environment, self.who) {
            (true, _) => write!(f, "world    ")?,
            (false, STORE) => write!(f, "store    ")?,
            (false, who) => write!(f, "caller {who} ")?,
        }
        f.write_str(self.what)?;
        if self.number != NO_NUMBER {
            write!(f, " {}", self.number)?;
        }
        Ok(())
    }
}

/// A state of a model, with everything the workload fixes beside it.
pub(super) trait Model: Clone + Eq + Hash {
    /// Programs, bounds and the rules in force.
    type Setup;

    /// The one state everything starts from.
    fn start(setup: &Self::Setup) -> Self;

    /// Every step possible from here, with the state it leads to.
    fn steps(&self, setup: &Self::Setup) -> Vec<(Label, Self)>;

    /// The promise this state breaks, if any.
    fn broken(&self, setup: &Self::Setup) -> Option<Broken>;

    /// Whether it is fine to have no step left.
    fn finished(&self, setup: &Self::Setup) -> bool;
}

/// What an exploration found.
pub(super) struct Outcome {
    /// Distinct states met.
    pub(super) states: usize,
    /// Steps taken, those to known states included.
    pub(super) steps: usize,
    /// The first violation, which is also a shortest one.
    pub(super) violation: Option<Violation>,
}

/// A broken promise and a shortest way to it.
pub(super) struct Violation {
    /// Which promise.
    pub(super) broken: Broken,
    /// The steps from the start.
    pub(super) trace: Vec<Label>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states, {} steps", self.states, self.steps)?;
        let Some(violation) = &self.violation else {
            return f.write_str(", no violation");
        };
        writeln!(
            f,
            ", {:?} after {}:",
            violation.broken,
            violation.trace.len()
        )?;
        for label in &violation.trace {
            writeln!(f, "    {label}")?;
        }
        Ok(())
    }
}

/// Walks every reachable state, or as far as the first violation.
pub(super) fn explore<M: Model>(setup: &M::Setup) -> Outcome {
    let mut walk = Walk::default();
    let mut steps = 0;
    let mut frontier = VecDeque::new();
    let start = M::start(setup);
    if let Some(node) = walk.meet(&start, 0, Label::world("start")) {
        frontier.push_back((node, start));
    }
    while let Some((node, state)) = frontier.pop_front() {
        if let Some(broken) = state.broken(setup) {
            return walk.outcome(steps, Some((broken, node)));
        }
        let successors = state.steps(setup);
        if !state.finished(setup) && successors.iter().all(|(label, _)| label.environment) {
            return walk.outcome(steps, Some((Broken::Deadlock, node)));
        }
        steps += successors.len();
        for (label, next) in successors {
            if let Some(met) = walk.meet(&next, node, label) {
                frontier.push_back((met, next));
            }
        }
    }
    walk.outcome(steps, None)
}

/// The states met so far: fingerprints to know them again, parents to tell how they came about.
#[derive(Default)]
struct Walk {
    met: HashSet<u128, BuildHasherDefault<Folded>>,
    nodes: Vec<(u32, Label)>,
}

impl Walk {
    /// The number of a state met for the first time.
    fn meet<M: Model>(&mut self, state: &M, parent: u32, label: Label) -> Option<u32> {
        let mut print = Fingerprint::default();
        state.hash(&mut print);
        if !self.met.insert(print.0) {
            return None;
        }
        assert!(
            self.nodes.len() < STATES_MAX,
            "more than {STATES_MAX} states"
        );
        self.nodes.push((parent, label));
        Some(self.nodes.len() as u32 - 1)
    }

    fn outcome(self, steps: usize, found: Option<(Broken, u32)>) -> Outcome {
        let violation = found.map(|(broken, node)| Violation {
            broken,
            trace: self.trace(node),
        });
        Outcome {
            states: self.nodes.len(),
            steps,
            violation,
        }
    }

    fn trace(&self, mut node: u32) -> Vec<Label> {
        let mut trace = Vec::new();
        while node != 0 {
            let (parent, label) = self.nodes[node as usize];
            trace.push(label);
            node = parent;
        }
        trace.reverse();
        trace
    }
}

/// 128 bits of a state. Two of some millions meet with a chance of 10^-25.
#[derive(Default)]
struct Fingerprint(u128);

impl Fingerprint {
    fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ u128::from(word)).wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = mixed.wrapping_mul(0xDA94_2042_E4DD_58B5_2360_ED05_1FC6_5DA5);
        self.0 = mixed ^ (mixed >> 67);
    }
}

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        self.0 as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.mix(u64::from(byte));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }
}

/// A fingerprint is mixed already: its lower half is the hash.
#[derive(Default)]
struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = (value ^ (value >> 64)) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller that counts by one or by three, and may get stuck; over ten is wrong.
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Count(u8);

    impl Model for Count {
        /// Where it gets stuck.
        type Setup = Option<u8>;

        fn start(_: &Option<u8>) -> Self {
            Self(0)
        }

        fn steps(&self, stuck: &Option<u8>) -> Vec<(Label, Self)> {
            let tick = (Label::world("tick"), Self(self.0));
            if *stuck == Some(self.0) {
                return vec![tick];
            }
            let by = |n: u8| (Label::caller(0, "adds").number(n), Self(self.0 + n));
            vec![tick, by(1), by(3)]
        }

        fn broken(&self, _: &Option<u8>) -> Option<Broken> {
            (self.0 > 10).then_some(Broken::LostUpdate)
        }

        fn finished(&self, _: &Option<u8>) -> bool {
            false
        }
    }

    #[test]
    fn the_first_violation_is_a_shortest_one() {
        let found = explore::<Count>(&None)
            .violation
            .expect("eleven is in reach");
        assert_eq!(found.broken, Broken::LostUpdate);
        let sum: u8 = found.trace.iter().map(|label| label.number).sum();
        assert_eq!(found.trace.len(), 4);
        assert!(sum > 10, "the trace leads to the violation");
    }

    #[test]
    fn steps_of_the_world_do_not_hide_a_deadlock() {
        let found = explore::<Count>(&Some(3))
            .violation
            .expect("three is in reach");
        assert_eq!(found.broken, Broken::Deadlock);
        assert_eq!(found.trace.len(), 1);
    }
}
