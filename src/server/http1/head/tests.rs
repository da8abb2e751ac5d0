//! Valid heads, malformed heads, and properties of all heads.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate_core::request::{method_of, target_of};

use super::*;

const BOUNDS: HeadBounds =
    HeadBounds { bytes: 1000, target_bytes: 100, fields: 10, disguised_names: false };

/// The result for `bytes` in one piece.
fn read(bytes: &[u8]) -> Result<Option<Head>, Malformed> {
    HeadReader::default().read(bytes, &BOUNDS)
}

/// The framing of a head with a valid request line and these fields.
fn framing(fields: &str) -> Result<Framing, Malformed> {
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
    read(head.as_bytes()).map(|head| head.expect("it is whole").framing)
}

/// The error for a head with this request line.
fn line(line: &str) -> Option<Malformed> {
    read(format!("{line}\r\nHost: a\r\n\r\n").as_bytes()).err()
}

#[test]
fn a_valid_head_passes_with_its_length() {
    let head = b"\r\nGET /a?b=c HTTP/1.1\r\nHost: a\r\nX_One:\t1\r\nEmpty:\r\n\r\n";
    let followed = [head, &b"GET / HTTP/1.1\r\n"[..]].concat();
    let expected = Head { len: head.len(), framing: Framing::Length(0), asks_upgrade: false };
    assert_eq!(read(&followed), Ok(Some(expected)));
}

#[test]
fn a_line_may_end_in_a_line_feed_alone() {
    let head = b"GET / HTTP/1.1\nHost: a\nContent-Length: 3\n\n";
    let verdict = read(head).map(|head| head.map(|head| (head.len, head.framing)));
    assert_eq!(verdict, Ok(Some((head.len(), Framing::Length(3)))));
}

#[test]
fn one_field_determines_the_framing() {
    assert_eq!(framing("Content-Length: 12"), Ok(Framing::Length(12)));
    assert_eq!(framing("content-LENGTH:\t007 \t"), Ok(Framing::Length(7)));
    assert_eq!(framing("Transfer-Encoding: Chunked"), Ok(Framing::Chunked));
    assert_eq!(framing("Content-Lengthy: x"), Ok(Framing::Length(0)));
}

#[test]
fn two_framings_or_an_invalid_one_are_refused() {
    use Malformed::{BadCoding, BadLength, CodingInOldVersion, ManyLengths, TwoFramings};
    let cases = [
        ("Content-Length: 1\r\nTransfer-Encoding: chunked", TwoFramings),
        ("Transfer-Encoding: chunked\r\nContent-Length: 1", TwoFramings),
        ("Content-Length: 1\r\nContent-Length: 2", ManyLengths),
        ("Content-Length: 1\r\nContent-Length: 1", ManyLengths),
        ("Content-Length: 1, 1", BadLength),
        ("Content-Length: +1", BadLength),
        ("Content-Length: 1 1", BadLength),
        ("Content-Length: 0x1", BadLength),
        ("Content-Length:", BadLength),
        ("Content-Length: 18446744073709551614", BadLength),
        ("Content-Length: 18446744073709551616", BadLength),
        ("Transfer-Encoding: gzip, chunked", BadCoding),
        ("Transfer-Encoding: chunked, chunked", BadCoding),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", BadCoding),
        ("Transfer-Encoding: identity", BadCoding),
        ("Transfer-Encoding:", BadCoding),
    ];
    for (fields, malformed) in cases {
        assert_eq!(framing(fields), Err(malformed), "{fields}");
    }
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(read(old), Err(CodingInOldVersion));
}

#[test]
fn a_field_is_a_name_a_colon_and_a_value() {
    use Malformed::{BadField, BareCr, BlankInName, ControlCharacter, DisguisedName, Folded};
    let cases = [
        ("no colon", BlankInName),
        ("nocolon", BadField),
        (": no name", BadField),
        ("X-Space : 1", BlankInName),
        ("X-Tab\t: 1", BlankInName),
        (" X-First: 1", Folded),
        ("\tX-First: 1", Folded),
        ("X(Paren): 1", BadField),
        ("X-\u{e9}: 1", BadField),
        ("X-Cr: 1\r2", BareCr),
        ("X-Cr: 1\r", BareCr),
        ("X-Cr\r: 1", BareCr),
        ("X-Nul: 1\x002", ControlCharacter),
        ("X-Nul\0: 1", BadField),
        ("X-Del: 1\x7f2", ControlCharacter),
        ("Content_Length: 1", DisguisedName),
        ("Transfer_Encoding: chunked", DisguisedName),
        ("X_Forwarded-For: 1", DisguisedName),
    ];
    for (field, malformed) in cases {
        assert_eq!(framing(field), Err(malformed), "{field:?}");
    }
    assert_eq!(framing("transfer-_encoding: 1\r\nX_Forward: 1"), Ok(Framing::Length(0)));
}

#[test]
fn each_byte_is_allowed_in_a_value_or_not_wherever_it_stands() {
    for (length, byte) in (0..40).flat_map(|length| (0..=u8::MAX).map(move |it| (length, it))) {
        let is_allowed = byte == b'\t' || !byte.is_ascii_control();
        for at in 0..length {
            let mut value = vec![b'x'; length];
            value[at] = byte;
            assert_eq!(is_field_value(&value), is_allowed, "{byte:#x} at {at} of {length}");
        }
    }
}

#[test]
fn a_request_line_is_a_method_a_target_and_a_version() {
    use Malformed::{BadMethod, BadRequestLine, BadTarget, BadVersion, BareCr, TargetTooLong};
    let cases = [
        ("GET /", BadRequestLine),
        ("GET", BadMethod),
        ("GET  / HTTP/1.1", BadRequestLine),
        ("GET / HTTP/1.1 ", BadRequestLine),
        ("GET / b HTTP/1.1", BadRequestLine),
        ("GET\t/ HTTP/1.1", BadMethod),
        (" GET / HTTP/1.1", BadMethod),
        ("get / HTTP/1.1", BadMethod),
        ("Post / HTTP/1.1", BadMethod),
        ("- / HTTP/1.1", BadMethod),
        ("G(T / HTTP/1.1", BadMethod),
        ("\u{16}\u{3}\u{1}", BadMethod),
        ("GET /\0 HTTP/1.1", BadTarget),
        ("GET /#part HTTP/1.1", BadTarget),
        ("GET /<a> HTTP/1.1", BadTarget),
        ("GET /?<a> HTTP/1.1", BadTarget),
        ("GET /?\"a\" HTTP/1.1", BadTarget),
        ("GET ?a HTTP/1.1", BadTarget),
        ("GET http:/// HTTP/1.1", BadTarget),
        ("GET / HTTP/2.0", BadVersion),
        ("GET / HTTP/1.2", BadVersion),
        ("GET / HTTP/0.9", BadVersion),
        ("GET / HTTP/11", BadRequestLine),
        ("GET / http/1.1", BadRequestLine),
        ("GET / HTTP/1.1\r", BareCr),
        ("GET /\r HTTP/1.1", BareCr),
    ];
    for (text, malformed) in cases {
        assert_eq!(line(text), Some(malformed), "{text:?}");
    }
    assert_eq!(line(&format!("GET /{} HTTP/1.1", "x".repeat(100))), Some(TargetTooLong));
    for good in [
        "GET / HTTP/1.1",
        "GET / HTTP/1.0",
        "PURGE /a_b{\"c\"}?{c:`d`} HTTP/1.1",
        "M-SEARCH * HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "propfind / HTTP/1.1",
        "GET /\u{e9} HTTP/1.1",
        "GET http://a.example:80/x?y HTTP/1.1",
        "CONNECT a.example:443 HTTP/1.1",
    ] {
        assert_eq!(line(good), None, "{good:?}");
    }
}

#[test]
fn a_head_has_bounds() {
    let head = |fields: usize, bytes: usize| {
        let mut head = "GET / HTTP/1.1\r\n".to_owned();
        head.extend((0..fields).map(|n| format!("X-{n}: 1\r\n")));
        let rest = bytes.saturating_sub(head.len() + "X-Long: \r\n\r\n".len());
        head + &format!("X-Long: {}\r\n\r\n", "x".repeat(rest))
    };
    assert!(read(head(9, 1000).as_bytes()).is_ok_and(|head| head.is_some()));
    assert_eq!(read(head(9, 1001).as_bytes()), Err(Malformed::HeadTooLarge));
    assert_eq!(read(head(10, 500).as_bytes()), Err(Malformed::TooManyFields));
    assert_eq!(read(&[b'x'; 999]), Ok(None));
    assert_eq!(read(&[b'x'; 1000]), Err(Malformed::TargetTooLong));
}

#[test]
fn a_request_to_change_the_protocol_is_recognized() {
    let asks = |head: &str| read(head.as_bytes()).unwrap().unwrap().asks_upgrade;
    assert!(asks("GET / HTTP/1.1\r\nUPGRADE: websocket\r\n\r\n"));
    assert!(asks("CONNECT a:1 HTTP/1.1\r\n\r\n"));
    assert!(!asks("GET / HTTP/1.0\r\nUpgrade: websocket\r\n\r\n"));
    assert!(!asks("GET / HTTP/1.1\r\nUpgrade-Insecure-Requests: 1\r\n\r\n"));
}

/// The table of byte classes must agree with the library.
#[test]
fn each_byte_may_stand_in_a_target_where_the_http_library_takes_it() {
    for byte in 0..=u8::MAX {
        let followed = if byte < 0x80 { vec![byte] } else { char::from(byte).to_string().into() };
        for before in ["/a", "/a?b", "http://a/", "http://a/?"] {
            let target = [before.as_bytes(), &followed, b"c"].concat();
            // A blank ends the target, and a fragment is not sent to servers.
            let is_taken = byte != b'#' && http::Uri::try_from(&target[..]).is_ok();
            let head = [b"GET ", &target[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
            assert_eq!(read(&head).is_ok(), is_taken, "{byte:#x} after {before}");
        }
    }
}

/// Pieces of heads, valid and malformed, in any order.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(vec![
        "GET",
        "POST",
        "get",
        " ",
        "  ",
        "/",
        "*",
        "?q",
        "/a",
        "#",
        "%2e",
        "http://a/",
        " HTTP/1.1",
        " HTTP/1.0",
        " HTTP/2.0",
        "\r\n",
        "\r\n",
        "\r\n",
        "\n",
        "\r",
        "\r\n\r\n",
        "Host: a\r\n",
        "Content-Length: 3\r\n",
        "Content-Length:",
        "Transfer-Encoding: chunked\r\n",
        "Upgrade: x",
        "X_Y: 1",
        ":",
        "\t",
        "\0",
        "\u{7f}",
        "\u{e9}",
        "X-Long: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ]);
    vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Heads that are mostly valid.
fn mostly_good() -> impl Strategy<Value = Vec<u8>> {
    let target = "(/[a-z0-9%._~!?=&\"{}|^`\\[\\]\\\\<>#\u{e9}-]{0,12}|\\*|http://a\\.b(:8)?/x)";
    let field = "([A-Za-z_-]{1,12}|Content-Length|Transfer-Encoding|Host): ?[ -~\u{e9}]{0,12}";
    let end = select(vec!["\r\n", "\n"]);
    ("[A-Z-]{1,8}", target, vec(field, 0..6), end).prop_map(|(method, target, fields, end)| {
        let lines = [vec![format!("{method} {target} HTTP/1.1")], fields].concat();
        format!("{}{end}{end}", lines.join(end)).into_bytes()
    })
}

proptest! {
    #[test]
    fn the_pieces_of_a_head_make_no_difference(
        bytes in prop_oneof![pieces(), mostly_good(), vec(any::<u8>(), 0..80)],
        cuts in vec(0_usize..200, 0..5),
    ) {
        let whole = read(&bytes);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        cuts.push(bytes.len());
        let mut reader = HeadReader::default();
        let verdicts = cuts.iter().map(|&cut| reader.read(&bytes[..cut], &BOUNDS));
        let last = verdicts.into_iter().find(|verdict| *verdict != Ok(None)).unwrap_or(Ok(None));
        prop_assert_eq!(last, whole);
    }

    /// If a head passes, the parser of the library must read the same head. Otherwise the
    /// library would respond itself, or read another request.
    #[test]
    fn the_http_library_reads_a_valid_head_in_the_same_way(bytes in prop_oneof![pieces(), mostly_good()]) {
        if let Ok(Some(head)) = read(&bytes) {
            let mut fields = [httparse::EMPTY_HEADER; 10];
            let mut request = httparse::Request::new(&mut fields);
            prop_assert_eq!(request.parse(&bytes), Ok(httparse::Status::Complete(head.len)));
            let target = request.path.expect("it is complete");
            prop_assert!(http::Uri::try_from(target).is_ok_and(|uri| uri == target), "{}", target);
            let method = request.method.expect("it is complete");
            prop_assert!(http::Method::from_bytes(method.as_bytes()).is_ok());
            for field in request.headers.iter() {
                prop_assert!(http::HeaderName::from_bytes(field.name.as_bytes()).is_ok());
                prop_assert!(http::HeaderValue::from_bytes(field.value).is_ok());
            }
        }
    }
}

proptest! {
    #[test]
    fn a_request_line_that_another_server_has_read_is_checked_in_the_same_way(
        method in "[A-Za-z!-~ ]{0,6}|GET|POST|get|-",
        target in vec(prop_oneof![select(b"/?%#*:@.a \"\\{\xc3\xa9".to_vec()), any::<u8>()], 0..12),
    ) {
        let whole = [method.as_bytes(), b" ", &target, b" HTTP/1.1\r\n\r\n"].concat();
        let is_read = matches!(read(&whole), Ok(Some(_)));
        // A blank would make other parts of it.
        prop_assume!(!method.contains(' ') && !target.contains(&b' ') && !target.contains(&b'\n'));
        let line = method_of(method.as_bytes()).is_ok() && target_of(&target).is_ok();
        prop_assert_eq!(line, is_read);
    }
}
