//! The time in which the values of a request's body are found, beside a parser that ignores what it
//! reads, and a search for single bytes.
//!
//! The bodies are calls of a language model, as programs write them: with English text, and with
//! text beyond ASCII, written as it is or as escapes.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde::de::IgnoredAny;
use tollgate_core::meter::{SoughtPointers, ValueScanner};

/// The bytes of a body.
const BODY_BYTES: usize = 64 * 1024;

/// A call with messages of this text, which is written as in a document.
fn call(text: &str) -> Vec<u8> {
    let message = format!(r#"{{"role": "user", "content": "{text}"}}"#);
    let messages = vec![message.clone(); BODY_BYTES / message.len()].join(", ");
    format!(r#"{{"model": "gpt-5", "messages": [{messages}], "max_tokens": 100}}"#).into_bytes()
}

fn values(criterion: &mut Criterion) {
    let english = r#"What is \"this\"? "#.to_owned() + &"Some words. ".repeat(21);
    let bodies = [
        ("English", call(&english)),
        ("Chinese", call(&"一些文字。".repeat(20))),
        ("escapes", call(&r"\u4e00\u4e9b\u6587\u5b57\u3002\n".repeat(10))),
        ("short members", call("a")),
    ];
    let pointers: SoughtPointers = ["/model".parse().expect("a pointer")].into_iter().collect();
    for (name, body) in &bodies {
        let mut group = criterion.benchmark_group(*name);
        group.throughput(Throughput::Bytes(body.len().try_into().expect("a length")));
        group.bench_function("a value", |bencher| {
            bencher.iter(|| {
                let mut scanner = ValueScanner::new(&pointers);
                scanner.read(black_box(body));
                scanner.end().expect("a document")
            });
        });
        group.bench_function("serde_json, nothing kept", |bencher| {
            bencher.iter(|| serde_json::from_slice::<IgnoredAny>(black_box(body)).is_ok());
        });
        group.bench_function("memchr, each quotation mark", |bencher| {
            bencher.iter(|| memchr::memchr2_iter(b'"', b'\\', black_box(body)).count());
        });
        group.finish();
    }
}

criterion_group!(benches, values);
criterion_main!(benches);
