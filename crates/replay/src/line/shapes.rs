//! Lines as servers write them, for each format, and what is read of them.
//!
//! `shapes/FORMAT.txt` has the lines. Below each line is what is read of it: the moment, in
//! microseconds since 1970, the client, the request, and what else is known. `UPDATE_GOLDEN=1`
//! writes this anew; read the difference before you commit it. `;` begins a comment, and `<TAB>`
//! is a tab.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use super::recognise::Recognised;
use super::{Format, Parsed};

/// The fewest lines of a format.
const FEWEST: usize = 20;

fn file(format: &Format) -> PathBuf {
    let name = format!("src/line/shapes/{}.txt", format.name());
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(format: &Format) -> String {
    let file = file(format);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The lines of a format as a log has them.
fn shapes(format: &Format) -> Vec<String> {
    let text = text(format);
    let is_shape = |line: &&str| !line.is_empty() && !line.starts_with(';') && !is_reading(line);
    text.lines().filter(is_shape).map(as_logged).collect()
}

fn is_reading(line: &str) -> bool {
    line.starts_with("=>")
}

fn as_logged(line: &str) -> String {
    line.replace("<TAB>", "\t")
}

/// What is read of a line.
fn reading(format: &Format, line: &str) -> String {
    let line = match format.parse(line.as_bytes()) {
        None => return "not read".to_owned(),
        Some(Parsed::NoRequest) => return "no request".to_owned(),
        Some(Parsed::Dropped(lines)) => return format!("{lines} lines dropped"),
        Some(Parsed::Request(line)) => line,
    };
    let utf8 = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let client = line.client.map_or("-".to_owned(), |client| {
        format!("{}{}", client.address, if client.is_masked { " (network)" } else { "" })
    });
    let method = utf8(&line.method);
    let target = utf8(&line.target);
    let mut text = format!("{:?} {} {client} {method} {target}", line.mark, line.time.us);
    if let Some(host) = &line.host {
        let _ = write!(text, ", host {}", utf8(host));
    }
    let _ = write!(text, ", status {}", line.status);
    for (name, number) in [
        ("response bytes", line.bytes),
        ("request bytes", line.request_bytes),
        ("us", line.duration_us),
        ("percent of such requests", line.sample),
    ] {
        if let Some(number) = number {
            let _ = write!(text, ", {number} {name}");
        }
    }
    for (name, value) in &line.headers {
        let _ = write!(text, ", {}: {}", utf8(name), utf8(value));
    }
    if let Some(known) = &line.known {
        let _ = write!(text, ", {}, {} keys", utf8(&known.outcome), known.keys.len());
    }
    text
}

/// The text of the file with what is read now.
fn anew(format: &Format) -> String {
    let mut anew = String::new();
    for line in text(format).lines().filter(|line| !is_reading(line)) {
        let _ = writeln!(anew, "{line}");
        if !line.is_empty() && !line.starts_with(';') {
            let _ = writeln!(anew, "=> {}", reading(format, &as_logged(line)));
        }
    }
    anew
}

#[test]
fn every_shape_is_read_as_its_file_says() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    for format in Format::all() {
        let anew = anew(&format);
        if update {
            fs::write(file(&format), &anew).expect("the file can be written");
        }
        for (found, expected) in anew.lines().zip(text(&format).lines()) {
            assert_eq!(found, expected, "{}: UPDATE_GOLDEN=1 accepts it", format.name());
        }
    }
}

#[test]
fn each_format_has_many_shapes_with_clients_of_both_versions_of_ip() {
    for format in Format::all() {
        let name = format.name();
        let shapes = shapes(&format);
        assert!(shapes.len() >= FEWEST, "{name} has {} shapes", shapes.len());
        for shape in &shapes {
            assert_ne!(reading(&format, shape), "not read", "{name}: {shape}");
        }
        let clients: Vec<_> = shapes.iter().filter_map(|shape| client(&format, shape)).collect();
        assert!(clients.iter().any(|client| client.is_ipv4()), "{name}");
        assert!(clients.iter().any(|client| client.is_ipv6()), "{name}");
    }
}

/// The client of a request.
fn client(format: &Format, line: &str) -> Option<std::net::IpAddr> {
    match format.parse(line.as_bytes()) {
        Some(Parsed::Request(line)) => line.client.map(|client| client.address),
        _ => None,
    }
}

#[test]
fn a_log_of_any_of_the_shapes_is_recognised() {
    let formats = Format::all();
    let recognised = |lines: &[&[u8]]| {
        Recognised::of(lines, &formats).map(|found| (found.format.name(), found.envelopes.names()))
    };
    for format in &formats {
        let shapes = shapes(format);
        let lines: Vec<&[u8]> = shapes.iter().map(|shape| shape.as_bytes()).collect();
        let expected = Some((format.name(), None));
        assert_eq!(recognised(&lines), expected);
        for shape in shapes.iter().filter(|shape| client(format, shape).is_some()) {
            assert_eq!(recognised(&[shape.as_bytes()]), expected, "{shape}");
        }
    }
}

/// docs/replay.md shows a line for each word of `--format`.
#[test]
fn the_lines_of_the_document_are_read() {
    let page = include_str!("../../../../docs/replay.md");
    let (_, section) = page.split_once("### A line of each format\n").expect("it has the section");
    let section = section.split("\n## ").next().expect("a section has a start");
    let rows: Vec<(&str, String)> = section
        .lines()
        .filter_map(|row| row.strip_prefix("| `")?.strip_suffix("` |")?.split_once("` | `"))
        .map(|(word, line)| (word, line.replace("\\|", "|").replace("\\t", "\t")))
        .collect();
    let words: Vec<&str> = rows.iter().map(|(word, _)| *word).collect();
    for word in Format::words() {
        assert!(words.contains(&word), "docs/replay.md shows no line of {word}");
    }
    for (word, line) in &rows {
        let format = Format::named(word).unwrap_or_else(|| panic!("{word} is no format"));
        assert!(client(&format, line).is_some(), "{word}: {line}");
        let found = Recognised::of(&[line.as_bytes()], &Format::all());
        assert_eq!(found.map(|found| found.format.name()), Some(format.name()), "{word}");
    }
}
