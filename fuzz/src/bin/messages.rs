//! Fuzzes messages of JSON-RPC in requests.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::messages(input));
