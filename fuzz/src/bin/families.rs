//! Fuzzes the ways in which proxies describe requests.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::families(input));
