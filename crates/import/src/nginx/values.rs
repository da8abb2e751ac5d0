//! Values of nginx: times, sizes, rates, and texts with variables.

use crate::quantity::number_and_unit;

/// A time such as `60`, `500ms` or `1h 30m`, in milliseconds.
pub fn time(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut sum = 0_u64;
    while !rest.is_empty() {
        let (number, after) = number_and_unit(rest)?;
        let (size, after) = unit(after)?;
        sum = sum.checked_add(number.checked_mul(size)?)?;
        rest = after.trim_start();
    }
    (!text.is_empty()).then_some(sum)
}

fn unit(text: &str) -> Option<(u64, &str)> {
    const UNITS: [(&str, u64); 8] = [
        ("ms", 1),
        ("s", 1000),
        ("m", 60_000),
        ("h", 3_600_000),
        ("d", 86_400_000),
        ("w", 604_800_000),
        ("M", 2_592_000_000),
        ("y", 31_536_000_000),
    ];
    if text.is_empty() || text.starts_with(' ') {
        return Some((1000, text));
    }
    UNITS.iter().find_map(|(name, size)| Some((*size, text.strip_prefix(name)?)))
}

/// A size such as `8k`, in bytes.
pub fn size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// A rate of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub count: u64,
    /// Whether in a minute, or in a second.
    pub is_minute: bool,
}

impl Rate {
    /// `10r/s` or `30r/m`.
    pub fn parse(text: &str) -> Option<Self> {
        let (count, unit) = number_and_unit(text)?;
        let is_minute = match unit {
            "r/s" => false,
            "r/m" => true,
            _ => return None,
        };
        (1..=1_000_000_000).contains(&count).then_some(Self { count, is_minute })
    }

    /// Thousandths of a request in a second, which nginx cuts to a whole number.
    pub fn thousandths(self) -> u64 {
        if self.is_minute { self.count * 1000 / 60 } else { self.count * 1000 }
    }

    /// The rate that nginx has, in thousandths of its unit, if it is not the one that is written.
    pub fn cut(self) -> Option<u64> {
        let true_rate = self.thousandths() * 60;
        (self.is_minute && true_rate != self.count * 1000).then_some(true_rate)
    }

    /// The rate here.
    pub fn limit(self) -> String {
        format!("{}/{}", self.count, if self.is_minute { "minute" } else { "s" })
    }
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// As it is.
    Text(&'a str),
    /// A variable without its sign.
    Variable(&'a str),
}

/// The pieces of a text with variables, `$name` or `${name}`.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        if at > 0 {
            pieces.push(Piece::Text(&rest[..at]));
        }
        let after = &rest[at + 1..];
        let (name, next) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some(both) => both,
            None => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
                after.split_at(end)
            }
        };
        match name {
            // As `$` at the end of a regular expression.
            "" => pieces.push(Piece::Text(&rest[at..=at])),
            name => pieces.push(Piece::Variable(name)),
        }
        rest = next;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

/// Whether a text has variables.
pub fn has_variables(text: &str) -> bool {
    pieces(text).iter().any(|piece| matches!(piece, Piece::Variable(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_read() {
        for (text, ms) in [("60", 60_000), ("500ms", 500), ("1h30m", 5_400_000), ("1m 5", 65_000)] {
            assert_eq!(time(text), Some(ms), "{text}");
        }
        assert_eq!(["", "x", "1q", "99999999999999999999s"].map(time), [None; 4]);
        assert_eq!(
            ["8k", "1m", "0", "2G"].map(size),
            [Some(8192), Some(1 << 20), Some(0), Some(2 << 30)]
        );
        assert_eq!(["", "1x", "99999999999g"].map(size), [None; 3]);
    }

    #[test]
    fn a_rate_in_minutes_is_cut_as_nginx_cuts_it() {
        let cut = |text| Rate::parse(text).unwrap().cut();
        assert_eq!(cut("1r/m"), Some(960));
        assert_eq!(cut("30r/m"), None);
        assert_eq!(cut("100r/m"), Some(99_960));
        assert_eq!(cut("10r/s"), None);
        assert_eq!(["r/s", "0r/s", "1r/h", "10"].map(Rate::parse), [None; 4]);
    }

    #[test]
    fn variables_are_found() {
        use Piece::{Text, Variable};
        assert_eq!(pieces("$a${b}c$d"), [Variable("a"), Variable("b"), Text("c"), Variable("d")]);
        assert_eq!(pieces("x$"), [Text("x"), Text("$")]);
        assert!(!has_variables("a$"));
    }
}
