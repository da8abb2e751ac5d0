//! Numbers in streams of events, compared with the steps of the standard on the whole
//! stream.

use proptest::collection::vec;
use proptest::sample::select;

use super::documents::found;
use super::*;

#[test]
fn the_last_event_that_has_the_number_counts() {
    let stream = b"event: start\ndata: {\"usage\":{\"total\":3}}\n\n\
        data: {\"usage\":null}\n\n\
        : keep-alive\n\n\
        id: 7\ndata: {\"usage\":{\"total\":40}}\nretry: 10\n\n\
        data: {\"text\":\"\\ud83d\"}\n\n\
        data: [DONE]\n\n";
    assert_eq!(cost(&sse("/usage/total"), stream), Some(40));
    assert_eq!(cost(&sse("/usage/other"), stream), None);
}

#[test]
fn lines_end_in_every_way_that_the_standard_allows() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = format!("data:{{\"n\":{end}data: 5}}{end}{end}data:{{}}{end}{end}");
        assert_eq!(cost(&sse("/n"), stream.as_bytes()), Some(5), "{end:?}");
        assert_eq!(cost_in_chunks(&sse("/n"), stream.as_bytes(), &[1]), Some(5), "{end:?}");
    }
}

#[test]
fn an_event_counts_only_after_its_blank_line() {
    let events = [
        ("data: 5", None),
        ("data: 5\n", None),
        ("data: 5\r\n", None),
        ("data: 5\n\n", Some(5)),
        ("data: 5\r\r", Some(5)),
        ("data: 5\r\n\r", Some(5)),
        ("data: 5\n:\n\n", Some(5)),
    ];
    for (stream, expected) in events {
        assert_eq!(cost(&sse(""), stream.as_bytes()), expected, "{stream:?}");
    }
}

#[test]
fn only_fields_named_data_are_read() {
    let events = [
        ("data:5", Some(5)),
        ("data:  5", Some(5)),
        ("data:\t5", Some(5)),
        ("data\ndata:5\ndata", Some(5)),
        ("datas:5", None),
        ("dat:5", None),
        ("data :5", None),
        (" data:5", None),
        ("Data:5", None),
        (":data:5", None),
        ("\u{FEFF}data:5", Some(5)),
        ("\u{FEFF}\u{FEFF}data:5", None),
        ("\n\u{FEFF}data:5", None),
        ("data:\u{FEFF}5", None),
    ];
    for (event, expected) in events {
        let stream = format!("{event}\n\n");
        assert_eq!(cost(&sse(""), stream.as_bytes()), expected, "{event:?}");
        assert_eq!(cost_in_chunks(&sse(""), stream.as_bytes(), &[1]), expected, "{event:?}");
    }
}

#[test]
fn lines_of_data_are_joined_by_line_feeds() {
    let events = [
        ("data: [0,1\ndata: 2]", None),
        ("data: [1\ndata: ,2]", Some(2)),
        ("data\ndata: [1\ndata\ndata: ,2]\ndata", Some(2)),
        ("data: [\"a\ndata: b\",2]", None),
    ];
    for (event, expected) in events {
        assert_eq!(cost(&sse("/1"), format!("{event}\n\n").as_bytes()), expected, "{event:?}");
    }
}

#[test]
fn half_a_byte_order_mark_is_part_of_the_line() {
    for stream in [&b"\xEF\xBBdata:5\n\n"[..], b"\xEFxdata:5\n\n", b"\xEF\xBBxdata:5\n\n"] {
        assert_eq!(cost(&sse(""), stream), None, "{stream:?}");
    }
    assert_eq!(cost(&sse(""), b"\xEF\xBB\ndata:5\n\n"), Some(5));
}

/// The number of the last event, by the steps of the WHATWG HTML Standard,
/// section 9.2.6.
fn interpreted(stream: &str, pointer: &str) -> Option<u64> {
    let stream = stream.strip_prefix('\u{FEFF}').unwrap_or(stream);
    let stream = stream.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = stream.split('\n').collect();
    // The bytes after the last line end are not a line.
    lines.pop();
    let mut data = String::new();
    let mut number = None;
    for line in lines {
        if line.is_empty() {
            let event = std::mem::take(&mut data);
            number = found(event.strip_suffix('\n').unwrap_or(&event), pointer).or(number);
        } else if line == "data" {
            data.push('\n');
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push_str(value.strip_prefix(' ').unwrap_or(value));
            data.push('\n');
        }
    }
    number
}

fn stream() -> impl Strategy<Value = String> {
    const PARTS: [&[&str]; 16] = [
        &["data: {\"n\":1}"],
        &["data:{\"n\":2.5}"],
        &["data: {\"n\":", "data: 3}"],
        &["data", "data: {\"n\":4,", ": between", "data:\"x\":\"é\"}"],
        &["\u{FEFF}data: {\"n\":5}"],
        &["id: 1", "event: n", "data: {\"n\":6}", "retry: 1", "data:"],
        &["data: {\"m\":7}"],
        &["data: {\"n\":"],
        &["data: [DONE]"],
        &["data: "],
        &["data"],
        &["dat"],
        &["datax: {\"n\":8}"],
        &[" data: {\"n\":9}"],
        &[": data: 7"],
        &["\u{FEFF}"],
    ];
    let part = (select(&PARTS[..]), proptest::bool::weighted(0.8));
    let ends = vec(select(&["\n", "\r", "\r\n"][..]), 1..5);
    (any::<bool>(), vec(part, 0..6), ends).prop_map(|(has_mark, parts, ends)| {
        let blank = |ends_event: bool| ends_event.then_some("");
        let lines = parts
            .into_iter()
            .flat_map(|(lines, ends_event)| lines.iter().copied().chain(blank(ends_event)));
        let lines = lines.zip(ends.into_iter().cycle()).flat_map(|(line, end)| [line, end]);
        has_mark.then_some("\u{FEFF}").into_iter().chain(lines).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_same_number_is_found_as_by_the_steps_of_the_standard(
        stream in stream(),
        sizes in chunk_sizes(),
    ) {
        let expected = interpreted(&stream, "/n");
        prop_assert_eq!(cost(&sse("/n"), stream.as_bytes()), expected);
        prop_assert_eq!(cost_in_chunks(&sse("/n"), stream.as_bytes(), &sizes), expected);
    }
}
