//! Codes of countries, regions and networks. Each code has exactly one form.

use std::fmt;
use std::str::{FromStr, from_utf8};

use crate::policy::KeyExpr;

/// The longest code: `AS4294967295`.
const MAX_BYTES: usize = 12;

/// The place of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its country.
    pub country: Option<GeoCode>,
    /// Its region. None if the country is unknown.
    pub region: Option<GeoCode>,
    /// Its network.
    pub asn: Option<GeoCode>,
}

impl Place {
    /// Whether the place is in one of these countries, regions or networks.
    pub(in crate::policy) fn is_one_of(&self, codes: &[GeoCode]) -> bool {
        let own = [self.country, self.region, self.asn];
        own.into_iter().flatten().any(|code| codes.contains(&code))
    }
}

/// A country (`DE`), a region (`DE-BE`) or a network (`AS64500`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GeoCode {
    /// ASCII, padded with zeros.
    text: [u8; MAX_BYTES],
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Country,
    Region,
    Asn,
}

/// The error of a text that is not a code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeoCodeError {
    /// The text has no form of a code.
    #[error(
        "`{0}` is not a country, region or network: write a country like DE (ISO 3166-1), \
         a region like DE-BE (ISO 3166-2), or a network like AS64500"
    )]
    Malformed(String),
}

impl GeoCode {
    /// The country with this code: two capitals (ISO 3166-1 alpha-2).
    pub(super) fn country_of(code: &str) -> Option<Self> {
        let is_code = code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_uppercase());
        is_code.then(|| Self::new(Kind::Country, &[code]))
    }

    /// The region of this country with this code: one to three capitals or digits (ISO
    /// 3166-2). Countries use the same codes for their regions, so the country's code
    /// precedes the region's.
    pub(super) fn region_of(country: &Self, code: &str) -> Option<Self> {
        let is_code = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
        let is_region = (1..=3).contains(&code.len()) && code.bytes().all(is_code);
        is_region.then(|| Self::new(Kind::Region, &[country.as_str(), "-", code]))
    }

    /// The network with this number. Zero is reserved (RFC 7607).
    pub(super) fn asn_of(number: u32) -> Option<Self> {
        let digits = number.to_string();
        (number > 0).then(|| Self::new(Kind::Asn, &["AS", &digits]))
    }

    fn new(kind: Kind, parts: &[&str]) -> Self {
        let mut text = [0; MAX_BYTES];
        let bytes = parts.iter().flat_map(|part| part.bytes());
        text.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        Self { text, kind }
    }

    /// The code.
    pub fn as_str(&self) -> &str {
        let length = self.text.iter().position(|byte| *byte == 0).unwrap_or(MAX_BYTES);
        from_utf8(&self.text[..length]).unwrap_or_default()
    }

    /// The key that has such codes.
    pub fn kind_of_key(&self) -> &'static KeyExpr {
        match self.kind {
            Kind::Country => &KeyExpr::Country,
            Kind::Region => &KeyExpr::Region,
            Kind::Asn => &KeyExpr::Asn,
        }
    }

    /// Whether the code is a country's.
    pub fn is_country(&self) -> bool {
        self.kind == Kind::Country
    }

    /// Whether the code is a region's.
    pub fn is_region(&self) -> bool {
        self.kind == Kind::Region
    }

    /// Whether the code is a network's.
    pub fn is_asn(&self) -> bool {
        self.kind == Kind::Asn
    }
}

/// The exact form of each code in databases.
impl FromStr for GeoCode {
    type Err = GeoCodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || match text.split_once('-') {
            Some((country, region)) => Self::region_of(&Self::country_of(country)?, region),
            None if text.len() == 2 => Self::country_of(text),
            None => {
                let digits = text.strip_prefix("AS")?;
                let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
                Self::asn_of(digits.parse().ok().filter(|_| is_plain)?)
            }
        };
        // A number has only one valid form.
        let same = read().filter(|code| code.as_str() == text);
        same.ok_or_else(|| GeoCodeError::Malformed(text.into()))
    }
}

impl fmt::Debug for GeoCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_one_form() {
        let kind = |text: &str| text.parse::<GeoCode>().map(|code| (code.kind, code.to_text()));
        let is = |text: &str, of| assert_eq!(kind(text), Ok((of, text.to_owned())), "{text}");
        is("DE", Kind::Country);
        is("DE-BE", Kind::Region);
        is("GB-ENG", Kind::Region);
        is("FR-75", Kind::Region);
        is("AS1", Kind::Asn);
        is("AS4294967295", Kind::Asn);
        for text in [
            "",
            "D",
            "de",
            "DEU",
            "D1",
            "DE-",
            "DE-be",
            "DE-BERL",
            "D-BE",
            "DE-B-E",
            "AS0",
            "AS01",
            "AS+1",
            "AS4294967296",
            "as1",
            "64500",
            "AS1 ",
            "ÄÖ",
            "DE-Ö",
        ] {
            assert_eq!(kind(text), Err(GeoCodeError::Malformed(text.into())), "{text}");
        }
    }

    impl GeoCode {
        fn to_text(self) -> String {
            self.as_str().to_owned()
        }
    }
}
