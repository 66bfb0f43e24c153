//! Programs with crashes, on a store and on the model.
#![no_main]

#[path = "../bodies/atomicity.rs"]
mod atomicity;
#[path = "../../tests/it/kit/mod.rs"]
#[allow(dead_code, reason = "the model tests use all of it")]
mod kit;

libfuzzer_sys::fuzz_target!(|data: &[u8]| atomicity::run(data));
