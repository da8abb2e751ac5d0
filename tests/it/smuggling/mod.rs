//! A corpus of requests and responses that two readers could read in two ways, sent as raw
//! bytes through a gateway to a backend that records every byte.
//!
//! Each case states the response and the requests that may arrive. A strict reader checks
//! the requests that arrive: one Host, one framing, and no further bytes.

mod backend;
mod bodies;
mod fields;
mod framing;
mod http2;
mod lines;
mod responses;
mod sizes;
mod strict;

use crate::support::{Client, Gateway};
use backend::Backend;

/// The bytes of one client, the statuses that it may get, and the requests that may arrive.
struct Case {
    name: &'static str,
    bytes: &'static [u8],
    answers: &'static [u16],
    /// Request lines without their version, each followed by the body if there is one.
    arrives: &'static [&'static str],
}

impl Case {
    /// Nothing arrives.
    const fn refused(name: &'static str, answer: &'static [u16], bytes: &'static [u8]) -> Self {
        Self { name, bytes, answers: answer, arrives: &[] }
    }

    /// Nothing arrives, and the client gets 400.
    const fn bad(name: &'static str, bytes: &'static [u8]) -> Self {
        Self::refused(name, &[400], bytes)
    }

    /// One request arrives.
    const fn good(
        name: &'static str,
        arrives: &'static [&'static str; 1],
        bytes: &'static [u8],
    ) -> Self {
        Self { name, bytes, answers: &[200], arrives }
    }

    const fn several(
        name: &'static str,
        answers: &'static [u16],
        arrives: &'static [&'static str],
        bytes: &'static [u8],
    ) -> Self {
        Self { name, bytes, answers, arrives }
    }
}

/// A gateway with one worker, so that requests arrive in order.
fn gateway(backend: &Backend) -> Gateway {
    Gateway::on_one_worker(backend.address(), "")
}

/// Runs all cases, and reports all that fail together.
fn run(cases: &[Case]) {
    let backend = Backend::start();
    let gateway = gateway(&backend);
    let mut failures = Vec::new();
    for case in cases {
        let mut client = gateway.client();
        client.send(case.bytes);
        let answers: Vec<u16> =
            case.answers.iter().map_while(|_| status_of(&mut client, case)).collect();
        if answers != case.answers {
            failures.push(format!("{}: answered {answers:?}, not {:?}", case.name, case.answers));
        }
        // After a valid request that is not served, the client may send another one.
        let is_bad = answers.last().is_some_and(|last| *last >= 400 && *last != 405);
        if is_bad && !client.is_closed() {
            failures.push(format!("{}: the connection stays open", case.name));
        }
        drop(client);
        // When this request has arrived, all earlier ones have.
        let _ = gateway.client().get("/marker", &[]);
        let mut arrived = backend.take();
        if arrived.pop().as_deref() != Some("GET /marker") || arrived != case.arrives {
            failures.push(format!("{}: {arrived:?} arrived, not {:?}", case.name, case.arrives));
        }
        failures.extend(backend.faults().iter().map(|fault| format!("{}: {fault}", case.name)));
    }
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
}

fn status_of(client: &mut Client, case: &Case) -> Option<u16> {
    let method = if case.bytes.starts_with(b"HEAD") { "HEAD" } else { "GET" };
    client.try_response(method).ok().flatten().map(|response| response.status)
}

#[test]
fn a_body_has_one_framing() {
    run(framing::CASES);
}

#[test]
fn a_request_line_has_one_reading() {
    run(lines::CASES);
}

#[test]
fn a_path_has_one_reading() {
    run(lines::PATHS);
}

#[test]
fn a_field_has_one_reading() {
    run(fields::CASES);
}

#[test]
fn a_request_is_for_one_host() {
    run(fields::HOSTS);
}

#[test]
fn a_body_of_chunks_has_one_end() {
    run(bodies::CASES);
}

#[test]
fn where_a_request_ends_the_next_begins() {
    run(bodies::PIPELINES);
}

#[test]
fn the_corpus_has_more_than_a_hundred_cases_with_names_of_their_own() {
    let all = [
        framing::CASES,
        lines::CASES,
        lines::PATHS,
        fields::CASES,
        fields::HOSTS,
        bodies::CASES,
        bodies::PIPELINES,
    ];
    let mut names: Vec<&str> = all.iter().flat_map(|cases| cases.iter()).map(|c| c.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "two cases have one name");
    assert!(count > 100, "{count}");
}
