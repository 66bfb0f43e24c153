//! The test kit: one language of steps, one model of what a store must answer, and a runner.
//!
//! | file | what |
//! | --- | --- |
//! | `op` | the language: what a program may do |
//! | `generate` | programs from bytes, so that a seed, a fuzzer and a crash test share them |
//! | `model`, `draft`, `held`, `claims`, `prepared` | what must be answered, in plain maps |
//! | `rows`, `numbers`, `told` | the same of tables, of producers, and what looks tell |
//! | `runner`, `calls`, `claim_calls`, `prepared_calls` | a real store does it |
//! | `look`, `dying` | looks at that store, and maintenance that ends on its way |
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
mod held;
mod look;
pub(crate) mod model;
mod numbers;
pub(crate) mod op;
mod outbox;
mod prepared;
mod prepared_calls;
mod rows;
pub(crate) mod runner;
mod said;
mod shrink;
mod told;
pub(crate) mod trial;
