//! Fuzz targets for texts that become credentials, and for the origins of scripts that send them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tollgate_core::api_keys::{KeyForm, NewKey};
use tollgate_core::passwords::{BcryptHash, Login, MAX_PASSWORD, PasswordTable};

use crate::message::OriginPattern;

/// The texts of API keys: a prefix, and in the next line a text.
pub fn api_keys(input: &[u8]) {
    let (prefix, text) = first_line(input);
    let Some(form) = std::str::from_utf8(prefix).ok().and_then(|it| KeyForm::new(it).ok()) else {
        return;
    };
    let Ok(id) = form.parse(text) else { return };
    assert!(form.begins(text), "a key begins like one");
    let parts: Vec<&[u8]> = text.rsplitn(3, |byte| *byte == b'_').collect();
    assert_eq!(parts.len(), 3, "a key has three parts");
    assert_eq!((parts[2], parts[1]), (prefix, id.as_str().as_bytes()));
    for at in 0..text.len() {
        let mut other = text.to_vec();
        other[at] ^= 1;
        assert!(form.parse(&other).is_err(), "another character makes another key");
    }
    assert!(form.parse(&text[1..]).is_err() && form.parse(&text[..text.len() - 1]).is_err());
    let made = NewKey::generate(&form);
    assert_eq!(form.parse(made.text.as_bytes()), Ok(made.id));
}

/// A file of users and passwords, and after an empty line the credentials of a request.
pub fn passwords(input: &[u8]) {
    let end = input.windows(2).position(|pair| pair == b"\n\n").unwrap_or(input.len());
    let file = &input[..end];
    let credentials = input.get(end + 2..).unwrap_or_default();
    if let Ok(text) = std::str::from_utf8(file) {
        check_file(text);
    }
    let Some(Login { user, password }) = Login::parse(credentials) else { return };
    assert!(password.len() <= MAX_PASSWORD && !user.contains(':'));
    let pair = format!("{user}:{password}");
    assert_eq!(BASE64_STANDARD.encode(pair).as_bytes(), credentials, "there is one encoding");
}

fn check_file(text: &str) {
    match PasswordTable::parse(text) {
        Ok(table) => {
            let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            for line in lines {
                let Some((name, rest)) = line.trim_end().split_once(':') else { continue };
                assert!(table.contains(name), "each line has its user");
                assert!(rest.starts_with(table.hash(name).as_str()), "and its hash");
            }
            let other = *table.hash("a name with a :");
            assert_eq!(BcryptHash::parse(other.as_str()), Ok(other), "all names have a hash");
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            let lines = text.lines().count();
            assert!(faults.iter().all(|fault| (1..=lines).contains(&fault.line)));
            assert!(faults.is_sorted_by_key(|fault| fault.line), "they are told in their order");
        }
    }
}

/// Patterns of origins, one in each line, and in the last line an origin.
pub fn origins(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (patterns, origin) = text.rsplit_once('\n').unwrap_or(("", text));
    let read: Vec<(&str, OriginPattern)> = patterns
        .lines()
        .take(16)
        .filter_map(|text| Some((text, text.parse::<OriginPattern>().ok()?)))
        .collect();
    let all: Vec<OriginPattern> = read.iter().map(|(_, pattern)| pattern.clone()).collect();
    for (text, pattern) in &read {
        let matches = OriginPattern::any_of(std::slice::from_ref(pattern), origin);
        assert_eq!(matches, is_origin(text, origin), "{text} {origin}");
    }
    let any = read.iter().any(|(text, _)| is_origin(text, origin));
    assert_eq!(OriginPattern::any_of(&all, origin), any);
}

/// Whether `pattern`, which is valid, stands for `origin`, by another way: text that is compared
/// from its end.
fn is_origin(pattern: &str, origin: &str) -> bool {
    if pattern == "*" || pattern == "null" {
        return origin.len() <= 300 && (pattern == "*" || origin == pattern);
    }
    let with_port = |text: &str| {
        let lower = text.to_ascii_lowercase();
        let (scheme, rest) = lower.split_once("://").map(|(a, b)| (a.to_owned(), b.to_owned()))?;
        let port = rest.rsplit(':').next().filter(|it| !it.contains(']') && it.len() < rest.len());
        let usual = match &*scheme {
            "https" | "wss" => "443",
            "http" | "ws" => "80",
            _ => "",
        };
        let host = port.map_or(&*rest, |port| &rest[..rest.len() - port.len() - 1]);
        let port = port.map_or(usual, |port| port.trim_start_matches('0'));
        Some(format!("{scheme}://{host}:{port}"))
    };
    let (Some(pattern), Some(origin_text)) = (with_port(pattern), with_port(origin)) else {
        return false;
    };
    // What is not the text of an origin equals none.
    let valid = origin.parse::<OriginPattern>();
    if origin.len() > 300 || !matches!(valid, Ok(OriginPattern::Host(_))) || origin.contains('*') {
        return false;
    }
    match pattern.split_once("*.") {
        None => pattern == origin_text,
        Some((scheme, host)) => origin_text.strip_prefix(scheme).is_some_and(|rest| {
            rest.strip_suffix(host).is_some_and(|labels| labels.len() > 1 && labels.ends_with('.'))
        }),
    }
}

fn first_line(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    (&input[..end], input.get(end + 1..).unwrap_or_default())
}
