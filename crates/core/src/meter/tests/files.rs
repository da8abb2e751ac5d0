//! Strings that are files, against a parser that builds the whole document.

use proptest::collection::vec;
use serde_json::Value;

use super::*;
use crate::meter::{FileStrings, SoughtPointers, ValueScanner};

const MORE: usize = 8 * 1024 + 1;

fn files(document: &str, chunk: usize) -> FileStrings {
    let none = SoughtPointers::default();
    let mut scanner = ValueScanner::with_files(&none);
    document.as_bytes().chunks(chunk).for_each(|chunk| scanner.read(chunk));
    scanner.end().expect("it is valid").files
}

/// The files of a document with one string, which is written so.
fn written(text: &str) -> u64 {
    let document = format!("[\"{text}\"]");
    let found = files(&document, document.len());
    for chunk in [1, 7, 1000] {
        assert_eq!(files(&document, chunk), found, "pieces make a difference");
    }
    if found.count > 0 && !text.contains("\\u") {
        assert_eq!(found.bytes, u64::try_from(text.len()).unwrap());
    }
    found.count
}

#[test]
fn long_strings_in_base64_are_files() {
    let digits = "iVBORw0KGgoAAAANS-_".repeat(500);
    for is_file in [
        digits.clone(),
        format!("{digits}="),
        format!("{digits}=="),
        format!("data:image/png;base64,{digits}=="),
        format!("Data:text/plain;charset=utf-8;BASE64,{digits}"),
        format!("data:;base64,{digits}"),
        // As PHP writes slashes, and as some encoders end lines.
        digits.replace('-', "\\/"),
        digits.replace('-', "\\u002b"),
        digits.replace('-', "\\r\\n") + "==\\n",
        "a".repeat(MORE),
        "data".repeat(MORE),
    ] {
        assert_eq!(written(&is_file), 1, "{:.40}", is_file);
    }
    let long = "a=".repeat(150);
    for is_text in [
        "a".repeat(MORE - 1),
        digits.replace('-', " "),
        digits.replace('-', "é"),
        digits.replace('-', "\\u00e9"),
        format!("{digits}==="),
        format!("{digits}=a"),
        format!("={digits}"),
        format!("data:image/png,{digits}"),
        format!("data:image/png;base64{digits}"),
        format!("data:image/png;base6;4,{digits}"),
        format!("data:image/png;base64:,{digits}"),
        format!("data:{long};base64,{digits}"),
        format!("http://a.test/{digits}"),
        format!("dat:{digits}"),
    ] {
        assert_eq!(written(&is_text), 0, "{:.40}", is_text);
    }
}

#[test]
fn each_file_counts_and_keys_do_not() {
    let digits = "QUJD".repeat(3000);
    let document = format!(r#"{{"{digits}":["{digits}",{{"data":"{digits}="}}],"x":"{digits} "}}"#);
    assert_eq!(files(&document, 11), FileStrings { count: 2, bytes: 24_001 });
    // A half of a surrogate pair is no digit. Such a document has no values in any case.
    let half = format!(r#"["{digits}\ud83d"]"#);
    let none = SoughtPointers::default();
    let mut scanner = ValueScanner::with_files(&none);
    scanner.read(half.as_bytes());
    assert_eq!(scanner.end(), Err(DocumentFault::Surrogate));
}

#[test]
fn what_is_set_is_neither_null_nor_empty() {
    let set = |document: &str| {
        let pointers = ["/a", "/b/c"].map(|text| text.parse().unwrap()).into_iter().collect();
        let mut scanner = ValueScanner::new(&pointers);
        scanner.read(document.as_bytes());
        scanner.end().expect("it is valid").is_set
    };
    for yes in ["1", "0", "true", "false", "\"x\"", "{}", "[]", "{\"c\":null}", "1.5"] {
        assert_eq!(set(&format!("{{\"a\":{yes}}}")), [true, false], "{yes}");
        assert_eq!(set(&format!("{{\"b\":{{\"c\":{yes}}}}}")), [false, true], "{yes}");
    }
    let long = format!("\"{}\"", "x".repeat(2000));
    assert_eq!(set(&format!("{{\"a\":{long}}}")), [true, false]);
    for no in ["null", "\"\""] {
        assert_eq!(set(&format!("{{\"a\":{no}}}")), [false, false], "{no}");
    }
    assert_eq!(set("{\"a\":{\"b\":{\"c\":1}}}"), [true, false]);
}

/// The files by the definition.
fn expected(value: &Value) -> FileStrings {
    let parts: Vec<&Value> = match value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => Vec::new(),
    };
    let mut sum = FileStrings::default();
    for part in parts.into_iter().map(expected) {
        sum.count += part.count;
        sum.bytes += part.bytes;
    }
    if let Value::String(text) = value {
        let written = serde_json::to_string(text).unwrap().len() - 2;
        let data = match text.strip_prefix("data:").and_then(|rest| rest.split_once(',')) {
            Some((prefix, data)) if prefix.ends_with(";base64") => data,
            _ => text,
        };
        let data = data.trim_end_matches(['\r', '\n']);
        let data = data.strip_suffix("==").or(data.strip_suffix('=')).unwrap_or(data);
        let is_digit = |c: char| c.is_ascii_alphanumeric() || "+/-_\r\n".contains(c);
        if written >= MORE && data.chars().all(is_digit) {
            sum.count += 1;
            sum.bytes += u64::try_from(written).unwrap();
        }
    }
    sum
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => Just("QUJD".to_owned()),
        1 => Just("\n".to_owned()),
        1 => Just("/+".to_owned()),
        1 => "[ -~]",
        1 => Just("é".to_owned()),
    ];
    let prefix = prop_oneof![
        3 => Just(""),
        1 => Just("data:image/png;base64,"),
        1 => Just("data:image/png;base64;x,"),
    ];
    let end = prop_oneof![3 => Just(""), 1 => Just("="), 1 => Just("==\r\n"), 1 => Just("===")];
    (prefix, vec(piece, 1..4), 1_usize..9000, end).prop_map(|(prefix, pieces, times, end)| {
        prefix.to_owned() + &pieces.concat().repeat(times) + end
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn files_are_found_as_by_a_parser_of_the_whole(
        texts in vec(text(), 0..4),
        keys in vec("[a-z]{0,3}", 4),
        chunk in 1_usize..5000,
    ) {
        let members = keys.into_iter().zip(texts.iter().cloned().map(Value::from));
        let document = Value::from(vec![Value::from(texts.clone()), members.collect()]);
        prop_assert_eq!(files(&document.to_string(), chunk), expected(&document));
    }
}
