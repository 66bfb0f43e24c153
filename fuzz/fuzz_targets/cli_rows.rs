//! The program's row reader, with the files of the program that it needs.
#![no_main]
#![allow(dead_code, unused_imports, reason = "the program uses all of it")]

#[path = "../../src/bin/firstseen/args.rs"]
mod args;
#[path = "../../src/bin/firstseen/by_hand.rs"]
mod by_hand;
#[path = "../../src/bin/firstseen/csv.rs"]
mod csv;
#[path = "../../src/bin/firstseen/failure.rs"]
mod failure;
#[path = "../../src/bin/firstseen/input.rs"]
mod input;
#[path = "../../src/bin/firstseen/json.rs"]
mod json;
#[path = "../../src/bin/firstseen/keys.rs"]
mod keys;
#[path = "../../src/bin/firstseen/reread.rs"]
mod reread;
#[path = "../../src/bin/firstseen/rows.rs"]
mod rows;
#[path = "../../src/bin/firstseen/sides.rs"]
mod sides;
#[path = "../../src/bin/firstseen/sizes.rs"]
mod sizes;
#[path = "../../src/bin/firstseen/time.rs"]
mod time;
#[path = "../../src/bin/firstseen/upkeep.rs"]
mod upkeep;

libfuzzer_sys::fuzz_target!(|data: &[u8]| reread::run(data));
