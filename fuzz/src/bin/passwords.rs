//! Fuzzes files of users, and the credentials of requests.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::passwords(input));
