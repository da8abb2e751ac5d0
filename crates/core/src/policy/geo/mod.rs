//! The places of addresses: country, region and network, from MaxMind DB files (MaxMind DB
//! File Format Specification, version 2.0).
//!
//! A lookup takes a bounded time, allocates no memory in proportion to the file, and never
//! panics, whatever the file contains. A text from the file is used only if it has the form
//! of a code. Other texts count as unknown.

#[cfg(feature = "geo")]
mod database;
mod place;
#[cfg(test)]
#[cfg(feature = "geo")]
mod tests;
#[cfg(any(test, feature = "testing"))]
pub mod writer;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

#[cfg(feature = "geo")]
pub use self::database::{GeoDatabase, GeoError};
pub use self::place::{GeoCode, GeoCodeError, Place};
use super::KeyExpr;

/// A database of the places of addresses.
pub trait Places: fmt::Debug + Send + Sync {
    /// The kind of the database, such as `GeoLite2-City`.
    fn kind(&self) -> &str;

    /// When the database was built, in seconds since 1970.
    fn built_s(&self) -> u64;

    /// Adds to `place` the parts that only this database knows of `address`.
    fn complete(&self, address: IpAddr, place: &mut Place);

    /// Whether addresses can have this key in a database of this kind. A database of an
    /// unknown kind may have all keys.
    fn may_have(&self, key: &KeyExpr) -> bool {
        let is = |names: &[&str]| names.iter().any(|name| self.kind().contains(name));
        let has_cities = is(&["City", "Enterprise"]);
        let has_countries = is(&["Country"]);
        let has_networks = is(&["ASN", "ISP"]);
        if !(has_cities || has_countries || has_networks) {
            return true;
        }
        match key {
            KeyExpr::Country => has_cities || has_countries,
            KeyExpr::Region => has_cities,
            KeyExpr::Asn => has_networks,
            _ => false,
        }
    }
}

/// The place of `address`. Each part comes from the first database that knows it, and the
/// region from the database that has the country.
pub(super) fn place_of(databases: &[Arc<dyn Places>], address: IpAddr) -> Place {
    let mut place = Place::default();
    for database in databases {
        database.complete(address, &mut place);
    }
    place
}
