//! Fuzzes configurations in YAML that are imported.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::import_yaml(input));
