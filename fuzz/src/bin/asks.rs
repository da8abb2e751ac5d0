//! Fuzzes requests that ask for tokens, and answers from which the event with the tokens is withheld.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::asks(input));
