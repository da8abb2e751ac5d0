//! Values at several places of a document, against a parser that builds the whole document, and
//! the documents that programs read differently.

use proptest::collection::vec;
use proptest::sample::Index;
use serde_json::Value;

use super::documents::{document, fragments, is_document, pointer_into};
use super::*;

fn pointers(texts: &[&str]) -> SoughtPointers {
    texts.iter().map(|text| text.parse().expect("a pointer")).collect()
}

pub(super) fn scan(texts: &[&str], document: &[u8]) -> Result<Vec<Option<String>>, DocumentFault> {
    let pointers = pointers(texts);
    let mut scanner = ValueScanner::new(&pointers);
    scanner.read(document);
    let found = scanner.end()?;
    Ok(found.values.into_iter().map(|value| value.map(String::from)).collect())
}

pub(super) fn scan_in_chunks(
    texts: &[&str],
    mut document: &[u8],
    sizes: &[usize],
) -> Result<Vec<Option<String>>, DocumentFault> {
    let pointers = pointers(texts);
    let mut scanner = ValueScanner::new(&pointers);
    for size in sizes.iter().cycle() {
        if document.is_empty() {
            break;
        }
        let (chunk, rest) = document.split_at(document.len().min(*size));
        scanner.read(chunk);
        document = rest;
    }
    let found = scanner.end()?;
    Ok(found.values.into_iter().map(|value| value.map(String::from)).collect())
}

fn one(text: &str, document: &str) -> Result<Option<String>, DocumentFault> {
    scan(&[text], document.as_bytes()).map(|mut values| values.remove(0))
}

#[test]
fn values_are_found_in_one_pass() {
    let document = br#" { "model": "gpt\u002d5", "n": -12, "stream": true, "off": false,
        "messages": [ {"role":"user"}, {"role":"\ud83d\ude00"} ], "none": null,
        "nested": {"model":"no", "id": 9007199254740993}, "float": 1.5, "": "empty" } "#;
    let texts = [
        "/model",
        "/n",
        "/stream",
        "/off",
        "/messages/0/role",
        "/messages/1/role",
        "/none",
        "/nested",
        "/nested/id",
        "/float",
        "/",
        "/absent",
        "/messages/2/role",
        "/messages",
        "",
        "/model/x",
    ];
    let found = scan(&texts, document).expect("values");
    let expected = [
        Some("gpt-5"),
        Some("-12"),
        Some("true"),
        Some("false"),
        Some("user"),
        Some("😀"),
        None,
        None,
        Some("9007199254740993"),
        None,
        Some("empty"),
        None,
        None,
        None,
        None,
        None,
    ];
    assert_eq!(found, expected.map(|value| value.map(str::to_owned)));
    assert_eq!(one("", "\"whole\""), Ok(Some("whole".into())));
}

#[test]
fn integers_are_found_however_they_are_written() {
    let cases = [
        ("1", Some("1")),
        ("1.0", Some("1")),
        ("1e0", Some("1")),
        ("-10e-1", Some("-1")),
        ("12e2", Some("1200")),
        ("-0", Some("0")),
        ("-0.0e9", Some("0")),
        ("18446744073709551615", Some("18446744073709551615")),
        ("-9223372036854775808", Some("-9223372036854775808")),
        ("18446744073709551616", Some("18446744073709551615")),
        ("1e999999999999", Some("18446744073709551615")),
        ("-1e999999999999", Some("-18446744073709551615")),
        ("0.5", None),
        ("1e-300", None),
        ("-7.25", None),
    ];
    for (number, expected) in cases {
        let document = format!("{{\"n\":{number}}}");
        assert_eq!(one("/n", &document), Ok(expected.map(str::to_owned)), "{number}");
    }
}

/// JavaScript and all other programs that read numbers as floats find an integer.
#[test]
fn a_number_that_is_an_integer_only_as_a_float_is_a_fault() {
    let cases = [
        "7.00000000000000000001",
        "6.99999999999999999999",
        "-7.00000000000000000001",
        "700000000000000000001e-20",
        "1e-400",
        "-1e-99999999999999999999",
        "100000000000000000000000000000000000000001e-41",
        "4503599627370496.3",
        "9007199254740993.5",
        // The last float before 8 is 2^-50 away. Half of this is rounded to 8, and more is not.
        "7.99999999999999955591079014993738383054733276367187500",
        "7.00000000000000044408920985006261616945266723632812500",
    ];
    for number in cases {
        let document = format!("{{\"n\":{number},\"m\":1}}");
        assert_eq!(one("/n", &document), Err(DocumentFault::Fraction), "{number}");
        assert_eq!(one("/m", &document), Ok(Some("1".into())), "{number} is not the value");
    }
    for number in ["7.0000000000000005", "7.9999999999999995", "4503599627370495.3", "5e-324"] {
        assert_eq!(one("/n", &format!("{{\"n\":{number}}}")), Ok(None), "{number}");
    }
}

#[test]
fn a_member_on_the_path_that_occurs_twice_is_a_fault() {
    for document in [
        r#"{"a":{"b":1},"a":{"b":1}}"#,
        r#"{"a":{"b":1,"b":1}}"#,
        r#"{"a":1,"a":{"b":1}}"#,
        r#"{"a":{"b":1},"\u0061":null}"#,
        r#"{"a":{"b":{}, "c":[{"b":2}], "\u0062":2}}"#,
    ] {
        assert_eq!(one("/a/b", document), Err(DocumentFault::Twice), "{document}");
    }
    for document in [
        r#"{"a":{"b":1},"c":{"b":1},"c":{"b":2}}"#,
        r#"{"a":{"b":1,"x":0,"x":1,"c":{"a":1,"a":2}}}"#,
        r#"{"b":1,"b":2,"a":{"b":1}}"#,
    ] {
        assert_eq!(one("/a/b", document), Ok(Some("1".into())), "{document}");
    }
    let array = r#"[{"b":1},{"b":2},{"b":3,"b":4}]"#;
    assert_eq!(one("/1/b", array), Ok(Some("2".into())));
    assert_eq!(one("/2/b", array), Err(DocumentFault::Twice));
}

#[test]
fn half_of_a_surrogate_pair_is_a_fault_wherever_it_is() {
    for document in [
        r#"{"x":"\ud800","n":1}"#,
        r#"{"x":"\udc00","n":1}"#,
        r#"{"x":"\ud800abc","n":1}"#,
        r#"{"x":"\ud800abc\udc00","n":1}"#,
        r#"{"x":"\ud800\n\udc00","n":1}"#,
        r#"{"\ud800abc\udc00":2,"n":1}"#,
    ] {
        assert_eq!(one("/n", document), Err(DocumentFault::Surrogate), "{document}");
    }
    assert_eq!(one("/n", r#"{"x":"\ud800\udc00abc","n":1}"#), Ok(Some("1".into())));
}

#[test]
fn a_member_on_the_path_that_differs_only_in_case_is_a_fault() {
    for document in [
        r#"{"Task":"x"}"#,
        r#"{"task":"x","TASK":"y"}"#,
        "{\"ta\u{17f}\u{212a}\":\"x\"}",
        r#"{"task":"x","tas\u212a":"y"}"#,
        r#"{"ta\u017fk":"y"}"#,
        r#"{"\u0054ask":1}"#,
    ] {
        assert_eq!(one("/task", document), Err(DocumentFault::Case), "{document}");
        let nested = format!("{{\"a\":[{document}]}}");
        assert_eq!(one("/a/0/task", &nested), Err(DocumentFault::Case), "{nested}");
        assert_eq!(one("/b/0/task", &nested), Ok(None), "it is not on the path");
    }
    assert_eq!(one("/É", "{\"é\":1}"), Err(DocumentFault::Case));
    assert_eq!(one("/ſ", "{\"S\":1}"), Err(DocumentFault::Case));
    for document in [r#"{"tasks":1}"#, r#"{"tas":1}"#, r#"{"t_ask":1}"#, r#"{"x":{"Task":1}}"#] {
        assert_eq!(one("/task", document), Ok(None), "{document}");
    }
    let long = format!("{{\"{}\":1,\"task\":2}}", "TASK".repeat(10_000));
    assert_eq!(one("/task", &long), Ok(Some("2".into())));
}

#[test]
fn a_document_that_is_not_valid_is_a_fault() {
    let deep = format!("{}1{}", "[".repeat(129), "]".repeat(129));
    for document in [
        "",
        " ",
        "{",
        "{\"a\":1}x",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":01}",
        "{\"a\":NaN}",
        "{'a':1}",
        "{\"a\":1}//",
        "\u{feff}{\"a\":1}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        &deep,
    ] {
        assert_eq!(one("/a", document), Err(DocumentFault::Invalid), "{document}");
    }
    assert_eq!(scan(&["/a"], b"{\"a\":\"\xff\"}"), Err(DocumentFault::Invalid));
    assert_eq!(scan(&["/a"], b"{\"\xc0\xae\":1}"), Err(DocumentFault::Invalid));
    assert_eq!(scan(&["/a"], b"{\0\"\0a\0\"\0:\x001\0}\0"), Err(DocumentFault::Invalid));
    for document in [r#"{"a":1,"x":"\ud83d"}"#, r#"{"a":"\ude00"}"#, r#"{"\ud83d\u0041":1}"#] {
        assert_eq!(one("/a", document), Err(DocumentFault::Surrogate), "{document}");
    }
}

#[test]
fn a_long_string_is_missing_and_takes_no_memory() {
    let of = |length: usize| one("/a", &format!("{{\"a\":\"{}\"}}", "é".repeat(length)));
    assert_eq!(of(MAX_VALUE_BYTES / 2), Ok(Some("é".repeat(MAX_VALUE_BYTES / 2))));
    assert_eq!(of(MAX_VALUE_BYTES / 2 + 1), Ok(None));
    let pointers = pointers(&["/a"]);
    let mut scanner = ValueScanner::new(&pointers);
    scanner.read(b"{\"a\":\"");
    for _ in 0..1000 {
        scanner.read(&[b'x'; 1000]);
    }
    assert!(scanner.kept_bytes() <= 4 * MAX_VALUE_BYTES, "{}", scanner.kept_bytes());
    scanner.read(b"\"}");
    assert_eq!(scanner.end().expect("valid").values, [None]);
}

#[test]
fn an_array_of_all_is_noticed() {
    let of = |document: &[u8]| {
        let pointers = pointers(&["/a"]);
        let mut scanner = ValueScanner::new(&pointers);
        scanner.read(document);
        scanner.end().expect("valid").is_array
    };
    assert!(of(b" [{}]") && of(b"[]") && !of(br#"{"a":[]}"#) && !of(b"1"));
}

/// The value at a pointer by another parser, if the two should agree on it.
fn expected(document: &Value, pointer: &str) -> Option<Option<String>> {
    Some(match document.pointer(pointer) {
        Some(Value::String(text)) => Some(text.clone()).filter(|it| it.len() <= MAX_VALUE_BYTES),
        Some(Value::Bool(truth)) => Some(truth.to_string()),
        // The other parser reads other numbers as floats, which lose digits.
        Some(Value::Number(number)) if !number.is_f64() => Some(number.to_string()),
        Some(Value::Number(_)) => return None,
        _ => None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn the_values_are_those_of_a_parser_that_builds_the_document(
        document in document(),
        places in vec(vec(any::<Index>(), 0..4), 1..5),
        sizes in chunk_sizes(),
    ) {
        let texts: Vec<String> =
            places.iter().map(|choices| pointer_into(&document, choices, None)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = scan(&texts, document.as_bytes());
        prop_assert_eq!(&scan_in_chunks(&texts, document.as_bytes(), &sizes), &found);
        match found {
            Ok(found) => {
                let whole: Value = serde_json::from_str(&document).expect("a document");
                for (text, found) in texts.iter().zip(found) {
                    if let Some(expected) = expected(&whole, text) {
                        prop_assert_eq!(found, expected, "{} {}", text, document);
                    }
                }
            }
            // The generator repeats keys, and makes no other fault.
            Err(fault) => prop_assert_eq!(fault, DocumentFault::Twice, "{}", document),
        }
    }

    #[test]
    fn exactly_the_documents_of_the_grammar_have_values(
        garbage in fragments(),
        sizes in chunk_sizes(),
    ) {
        let document = [b"[7,", &garbage[..], b"]"].concat();
        let found = scan_in_chunks(&["/0"], &document, &sizes);
        prop_assert_eq!(scan(&["/0"], &document), found.clone());
        match found {
            Ok(values) => {
                prop_assert!(is_document(&document));
                prop_assert_eq!(values, [Some("7".to_owned())]);
            }
            Err(DocumentFault::Invalid) => prop_assert!(!is_document(&document)),
            Err(fault) => prop_assert_eq!(fault, DocumentFault::Surrogate),
        }
    }

    #[test]
    fn what_is_read_at_once_is_the_same_as_byte_by_byte(
        parts in vec(part(), 0..8),
        size in 1..100_usize,
    ) {
        let text = parts.concat();
        let document = [b"{\"k\":[\"", &text[..], b"\", 7]}"].concat();
        let texts = ["/k/0", "/k/1"];
        let found = scan_in_chunks(&texts, &document, &[1]);
        prop_assert_eq!(scan(&texts, &document), found.clone());
        prop_assert_eq!(scan_in_chunks(&texts, &document, &[size]), found.clone());
        if let Ok(values) = found {
            let whole: Value = serde_json::from_slice(&document).expect("a document");
            prop_assert_eq!(values[0].as_deref(), whole["k"][0].as_str());
        }
    }
}

/// A part of a string as a document writes it. Few are invalid.
fn part() -> impl Strategy<Value = Vec<u8>> {
    let escape = proptest::sample::select(vec![
        r"\n",
        r"\/",
        r#"\""#,
        r"\\",
        r"\u00e9",
        r"\u20AC",
        r"\ud83d\ude00",
        r"\ud83d",
        r"\udE00",
    ]);
    let invalid = proptest::sample::select(vec![&b"\""[..], b"\\", b"\\u12", b"\xE2\x82", b"\x1F"]);
    prop_oneof![
        8 => "[ -!#-\\[\\]-~]{0,50}".prop_map(String::into_bytes),
        4 => "[ -!#-\\[é€😀]{0,20}".prop_map(String::into_bytes),
        8 => escape.prop_map(|escape| escape.as_bytes().to_vec()),
        1 => invalid.prop_map(<[u8]>::to_vec),
    ]
}
