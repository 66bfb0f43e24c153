//! The test kit: one language of steps, one model of what a store must answer, and a runner.
//!
//! | file | what |
//! | --- | --- |
//! | `op` | the language: what a program may do |
//! | `generate` | programs from bytes, so that a seed, a fuzzer and a crash test share them |
//! | `model`, `draft`, `claims`, `rows`, `numbers`, `told` | what must be answered, in plain maps |
//! | `runner`, `calls`, `claim_calls`, `look`, `dying` | the same on a real store |
//! | `outbox` | both of them, for the outbox |
//! | `said` | answers as text, in which the two are compared |
//! | `trial`, `shrink` | running both, and the least program that shows a difference |
//!
//! The model and the store share no code but the values they are given.

mod calls;
mod claim_calls;
mod claims;
mod draft;
mod dying;
pub(crate) mod generate;
mod look;
pub(crate) mod model;
mod numbers;
pub(crate) mod op;
mod outbox;
mod rows;
pub(crate) mod runner;
mod said;
mod shrink;
mod told;
pub(crate) mod trial;
