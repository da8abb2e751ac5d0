//! Bodies that are drawn at random, in any framing and any pieces: what is sent is what is forwarded.

use bytes::Bytes;
use fastrand::Rng;
use hyper::body::Frame;

use super::bounds::{gzip, zstd};
use crate::support::http::{Answer, Http, block_on, request, streamed, whole};
use crate::support::{Backend, Client, Gateway, Speaks};

const SEEDS: std::ops::Range<u64> = 0..40;

/// A gateway that reads documents and forms, and forwards others as they come.
fn gateway(endpoint: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: \"{endpoint}\" }}\n\
         policies:\n  \
           p: {{ key: {{ first: [\"json:/model\", \"form:model\"] }}, limit: 100000/day, missing_key: skip }}\n\
         routes: [{{ path: /*, policies: [p], upstream: app, read_body: {{ max: 1MiB }} }}]\n"
    ))
}

/// What is sent.
struct Sent {
    fields: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
}

/// A length: of few bytes, beside the end of a block, or any.
fn length(random: &mut Rng) -> usize {
    match random.u8(..3) {
        0 => random.usize(..64),
        1 => (1 << random.usize(9..18)) + random.usize(..5) - 2,
        _ => random.usize(..200_000),
    }
}

fn drawn(random: &mut Rng) -> Sent {
    let length = length(random);
    let text: String = std::iter::repeat_with(|| random.alphanumeric()).take(length).collect();
    let blanks = |random: &mut Rng| " \r\n\t"[..random.usize(..5)].to_owned();
    let document = format!(
        "{}{{{}\"x\":{}\"\\u00e9\\/{text}\",\"model\":\"m\"{}}}{}",
        blanks(random),
        blanks(random),
        blanks(random),
        blanks(random),
        blanks(random)
    );
    let json = ("content-type", "application/json");
    let (fields, body) = match random.u8(..6) {
        0 => (vec![json, ("content-encoding", "gzip")], gzip(document.as_bytes())),
        1 => (vec![json, ("content-encoding", "zstd")], zstd(document.as_bytes())),
        2 => {
            let form = ("content-type", "application/x-www-form-urlencoded");
            (vec![form], format!("x={text}&model=m%2F1+&y").into_bytes())
        }
        3 => (vec![("content-type", "application/octet-stream")], text.into_bytes()),
        _ => (vec![json], document.into_bytes()),
    };
    Sent { fields, body }
}

/// These bytes in pieces, most of them small or large.
fn pieces<'b>(mut bytes: &'b [u8], random: &mut Rng) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    let most = [3, 100, 5000, 100_000][random.usize(..4)].max(bytes.len() / 50);
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(random.usize(1..=most).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// Sends a request over HTTP/1, with its length or in chunks. Returns the body of the answer.
fn over_http1(client: &mut Client, sent: &Sent, random: &mut Rng) -> Vec<u8> {
    let Sent { fields, body } = sent;
    let mut lines: String =
        fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let message = match random.bool() {
        true => super::chunked(&lines, &pieces(body, random)),
        false => {
            lines.push_str(&format!("Content-Length: {}\r\n", body.len()));
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            [head.as_bytes(), body].concat()
        }
    };
    for piece in pieces(&message, random) {
        client.send(piece);
        // So that some pieces arrive alone.
        std::thread::yield_now();
    }
    let response = client.response("POST");
    assert_eq!(response.status, 200, "{}", response.text());
    response.body
}

/// Sends a request over HTTP/2, in one frame or several. Returns the body of the answer.
async fn over_http2(client: &Http, sent: &Sent, random: &mut Rng) -> Bytes {
    let Sent { fields, body } = sent;
    let with_fields = |outgoing| {
        let mut request = request("POST", "/", outgoing);
        for (name, value) in fields {
            request.headers_mut().insert(*name, value.parse().expect("a value"));
        }
        request
    };
    let answer = match random.bool() {
        true => client.ask(with_fields(whole(body.clone()))).await,
        false => {
            let (frames, outgoing) = streamed();
            let pieces = pieces(body, random);
            let sending = async {
                for piece in pieces {
                    let frame = Frame::data(Bytes::copy_from_slice(piece));
                    frames.send(frame).await.expect("the body is read");
                }
                drop(frames);
            };
            let (answer, ()) = tokio::join!(client.send(with_fields(outgoing)), sending);
            Answer::read(answer.expect("an answer")).await
        }
    };
    let answer = answer.expect("a whole answer");
    assert_eq!(answer.status, 200);
    answer.body
}

#[test]
fn whatever_is_sent_is_forwarded_byte_for_byte() {
    for (scheme, speaks) in [("http", Speaks::Http1), ("h2c", Speaks::Http2 { max_streams: 9 })] {
        let backend = Backend::start(speaks);
        let gateway = gateway(&format!("{scheme}://{}", backend.address()));
        let mut client = gateway.client();
        let check = |sent: &Sent, answer: &[u8], seed: u64| {
            let seen = backend.seen().pop().expect("it was forwarded");
            assert!(seen.body == sent.body, "{scheme}, seed {seed}: {:?}", sent.fields);
            // The backend answers with the body that it has got.
            assert!(answer == sent.body, "{scheme}, seed {seed}: {:?}", sent.fields);
            for (name, value) in &sent.fields {
                assert_eq!(seen.headers[*name], *value, "{scheme}, seed {seed}");
            }
        };
        for seed in SEEDS {
            let mut random = Rng::with_seed(seed);
            let sent = drawn(&mut random);
            let answer = over_http1(&mut client, &sent, &mut random);
            check(&sent, &answer, seed);
        }
        block_on(async {
            let client = Http::prior_knowledge(gateway.address()).await;
            for seed in SEEDS {
                let mut random = Rng::with_seed(seed);
                let sent = drawn(&mut random);
                let answer = over_http2(&client, &sent, &mut random).await;
                check(&sent, &answer, seed);
            }
        });
    }
}
