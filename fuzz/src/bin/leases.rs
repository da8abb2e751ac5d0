//! Fuzzes the opening of leases.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::leases(input));
