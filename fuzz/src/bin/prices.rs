//! Fuzzes prices, amounts of money and names of models.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::prices(input));
