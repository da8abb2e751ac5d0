//! How the format of a log is recognised, and what is around its lines.

use std::borrow::Cow;

use super::envelope::{Envelope, Envelopes};
use super::fields::{Line, Parsed};
use super::format::Format;

/// What is around the lines of a log, and their format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recognised {
    pub(crate) envelopes: Envelopes,
    pub(crate) format: Format,
}

impl Recognised {
    /// Lines of this format without anything around them.
    pub(crate) fn bare(format: Format) -> Self {
        Self { envelopes: Envelopes::default(), format }
    }

    /// The envelopes and the format that read the most of these lines as requests: of a known
    /// client, or else of any. Of equals, the fewest envelopes and the first format. None: no
    /// format reads any line.
    pub(crate) fn of(lines: &[&[u8]], formats: &[Format]) -> Option<Self> {
        [Clients::Known, Clients::Any].into_iter().find_map(|clients| {
            let mut best: (usize, Option<Self>) = (0, None);
            for envelopes in chains(lines) {
                let contents = opened(lines, &envelopes);
                for format in formats {
                    let count = contents.iter().filter(|line| reads(format, line, clients)).count();
                    if count > best.0 {
                        let envelopes = envelopes.clone();
                        let format = format.clone();
                        best = (count, Some(Self { envelopes, format }));
                    }
                }
            }
            best.1
        })
    }
}

/// Which requests count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clients {
    /// Those whose client is known.
    Known,
    /// Those of lines that are most likely of the format.
    Any,
}

fn reads(format: &Format, line: &[u8], clients: Clients) -> bool {
    match format.parse(line) {
        Some(Parsed::Request(Line { client: Some(_), .. })) => true,
        Some(Parsed::Request(_)) => clients == Clients::Any && format.is_distinct(line),
        _ => false,
    }
}

/// No envelope, and each one or two envelopes that open any of the lines.
fn chains(lines: &[&[u8]]) -> Vec<Envelopes> {
    let mut chains = vec![Envelopes::default()];
    let mut pairs = Vec::new();
    for outer in Envelope::ALL {
        let one = Envelopes::of(&[outer]);
        let contents = opened(lines, &one);
        for inner in Envelope::ALL {
            if contents.iter().any(|line| inner.open(line).is_some()) {
                pairs.push(Envelopes::of(&[outer, inner]));
            }
        }
        if !contents.is_empty() {
            chains.push(one);
        }
    }
    chains.extend(pairs);
    chains
}

/// The lines inside these envelopes.
fn opened<'l>(lines: &[&'l [u8]], envelopes: &Envelopes) -> Vec<Cow<'l, [u8]>> {
    let contents = lines.iter().filter_map(|line| envelopes.open(line));
    contents.map(|content| content.text).collect()
}

#[cfg(test)]
mod tests;
