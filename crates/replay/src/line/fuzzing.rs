//! The fuzz target of the lines of logs. Clients choose parts of most lines.

use super::fields::Parsed;
use super::format::Format;
use super::recognise::Recognised;

/// The most lines that are read of an input.
const MAX_LINES: usize = 3;

/// The beginning of a log. A request has a method and a target; and what is recognised reads a
/// request in one of the lines.
pub fn logs(input: &[u8]) {
    let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').take(MAX_LINES).collect();
    let formats = Format::all();
    for line in &lines {
        for format in &formats {
            if let Some(Parsed::Request(request)) = format.parse(line) {
                let name = format.name();
                let parts = [&request.method, &request.target];
                assert!(parts.iter().all(|part| !matches!(&***part, b"" | b"-")), "{name}");
            }
        }
    }
    let Some(Recognised { envelopes, format }) = Recognised::of(&lines, &formats) else { return };
    let is_request = |line: &&[u8]| {
        let content = envelopes.open(line);
        content.is_some_and(|it| matches!(format.parse(&it.text), Some(Parsed::Request(_))))
    };
    assert!(lines.iter().any(is_request), "{} reads no line", format.name());
}
