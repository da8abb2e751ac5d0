//! The methods by which metrics and spans name requests. A client can send any other method, and
//! must not begin a series with each of them.

use http::Method;

/// The name of a method that is not one of [`METHODS`].
pub const OTHER: &str = "_OTHER";
/// The standard methods (RFC 9110, section 9; RFC 5789).
const METHODS: [&str; 9] =
    ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "CONNECT", "TRACE"];

/// The number of a method: its index in [`METHODS`], or one more than the last.
pub fn number_of(method: &Method) -> u8 {
    match *method {
        Method::GET => 0,
        Method::POST => 1,
        Method::PUT => 2,
        Method::DELETE => 3,
        Method::HEAD => 4,
        Method::OPTIONS => 5,
        Method::PATCH => 6,
        Method::CONNECT => 7,
        Method::TRACE => 8,
        _ => 9,
    }
}

/// The name of the method with this number.
pub fn name_of(number: u8) -> &'static str {
    METHODS.get(usize::from(number)).copied().unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_have_the_numbers_of_their_names() {
        for (number, name) in METHODS.iter().enumerate() {
            let method: Method = name.parse().expect("a method");
            assert_eq!(usize::from(number_of(&method)), number, "{name}");
            assert_eq!(name_of(number_of(&method)), *name);
        }
        for other in ["BREW", "get", "PROPFIND"] {
            let number = number_of(&other.parse().expect("a method"));
            assert_eq!((number, name_of(number)), (9, OTHER), "{other}");
        }
    }
}
