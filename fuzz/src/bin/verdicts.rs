//! Fuzzes the answers of authorizers over gRPC.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::verdicts(input));
