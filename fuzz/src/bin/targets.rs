//! Fuzzes redirects and rewritten targets.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::targets(input));
