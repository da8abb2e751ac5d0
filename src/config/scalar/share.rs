//! Shares of many: `1%`, `0.05%`.

use std::str::FromStr;

use tollgate_core::scalar::ScalarError;

use super::text::written_as_text;

const ADVICE: &str = "write a number from 0 to 100 and %, like 1% or 0.05%";
/// The digits after the point that a percentage may have: a share is a whole number of
/// millionths.
const DECIMALS: usize = 4;
const ALL: u32 = 1_000_000;

/// A share in millionths, from 0 to 1,000,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(pub u32);

written_as_text!(Share, text SHARE, "A share in percent, with up to four digits after the point", "1%");

impl FromStr for Share {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let invalid = |what: &str| ScalarError::new(format!("\"{text}\" {what}"), ADVICE);
        let number =
            text.strip_suffix('%').ok_or_else(|| invalid("is not a percentage"))?.trim_end();
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        if !is_number(whole) || !is_number(decimals) {
            return Err(invalid("is not a percentage"));
        }
        if decimals.len() > DECIMALS {
            return Err(invalid("has more than four digits after the point"));
        }
        let millionths = format!("{whole}{decimals:0<DECIMALS$}").parse().ok();
        match millionths {
            Some(share @ 0..=ALL) => Ok(Self(share)),
            _ => Err(invalid("is more than 100%")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_millionths() {
        for (text, millionths) in [
            ("0%", 0),
            ("1%", 10_000),
            ("100%", 1_000_000),
            ("0.05%", 500),
            ("0.0001 %", 1),
            ("99.9999%", 999_999),
            ("007.50%", 75_000),
        ] {
            assert_eq!(text.parse(), Ok(Share(millionths)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_mistakes() {
        for (text, what) in [
            ("1", "is not a percentage"),
            ("%", "is not a percentage"),
            (".5%", "is not a percentage"),
            ("5.%", "is not a percentage"),
            ("-1%", "is not a percentage"),
            ("1e2%", "is not a percentage"),
            ("0.00001%", "more than four digits"),
            ("100.0001%", "more than 100%"),
            ("99999999999%", "more than 100%"),
        ] {
            let error = text.parse::<Share>().expect_err(text);
            assert!(error.message.contains(what), "{text}: {}", error.message);
        }
    }
}
