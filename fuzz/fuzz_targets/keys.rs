//! Keys: different parts never have the same bytes, and bytes that parse are canonical.
#![no_main]

#[path = "../bodies/keys.rs"]
mod keys;

libfuzzer_sys::fuzz_target!(|data: &[u8]| keys::run(data));
