//! Damaged stores: an error, or right answers.
#![no_main]

#[path = "../bodies/log_recovery.rs"]
mod log_recovery;

libfuzzer_sys::fuzz_target!(|data: &[u8]| log_recovery::run(data));
