//! The places of addresses: country, region and network, from MaxMind DB files (MaxMind DB
//! File Format Specification, version 2.0).
//!
//! A lookup takes a bounded time, allocates no memory in proportion to the file, and never
//! panics, whatever the file contains. A text from the file is used only if it has the form
//! of a code. Other texts count as unknown.

mod place;
#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "testing"))]
pub mod writer;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use maxminddb::{LookupResult, PathElement, Reader};

pub(super) use self::place::Place;
pub use self::place::{GeoCode, GeoCodeError};
use super::KeyExpr;

/// A database of the places of addresses. The whole file is in memory: if a mapped file
/// were truncated, the process would end.
pub struct GeoDatabase {
    reader: Reader<Box<[u8]>>,
}

/// The error of a file that is not such a database.
#[derive(Debug, thiserror::Error)]
#[error("it is not a complete MaxMind DB file: {0}")]
pub struct GeoError(#[source] maxminddb::MaxMindDbError);

/// Does not print the file's content.
impl fmt::Debug for GeoDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeoDatabase").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

impl GeoDatabase {
    /// The database in the bytes of a file. The records are not checked now. If a lookup
    /// finds a broken record, the place of its address is unknown.
    ///
    /// # Errors
    /// If the bytes do not end with the description of a complete search tree.
    pub fn from_bytes(bytes: impl Into<Box<[u8]>>) -> Result<Self, GeoError> {
        Reader::from_source(bytes.into()).map(|reader| Self { reader }).map_err(GeoError)
    }

    /// The kind of the database in the file, such as `GeoLite2-City`.
    pub fn kind(&self) -> &str {
        &self.reader.metadata().database_type
    }

    /// When the database was built, in seconds since 1970, as its file says.
    pub fn built_s(&self) -> u64 {
        self.reader.metadata().build_epoch
    }

    /// Whether addresses can have this key in a database of this kind. A database of an
    /// unknown kind may have all keys.
    pub fn may_have(&self, key: &KeyExpr) -> bool {
        let is = |names: &[&str]| names.iter().any(|name| self.kind().contains(name));
        let (has_cities, has_countries) = (is(&["City", "Enterprise"]), is(&["Country"]));
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

    /// Adds to `place` the parts that only this database knows of `address`.
    fn complete(&self, address: IpAddr, place: &mut Place) {
        // A lookup of an IPv6 address in a database of IPv4 addresses is an error.
        let Ok(found) = self.reader.lookup(address) else { return };
        if !found.has_data() {
            return;
        }
        if place.country.is_none() {
            let code = text(&found, &COUNTRY).and_then(GeoCode::country_of);
            place.country = code;
            place.region = code.and_then(|code| {
                text(&found, &REGION).and_then(|region| GeoCode::region_of(&code, region))
            });
        }
        if place.asn.is_none() {
            let number: Option<u32> = found.decode_path(&ASN).ok().flatten();
            place.asn = number.and_then(GeoCode::asn_of);
        }
    }
}

const COUNTRY: [PathElement<'static>; 2] =
    [PathElement::Key("country"), PathElement::Key("iso_code")];
/// The first subdivision is the largest one.
const REGION: [PathElement<'static>; 3] =
    [PathElement::Key("subdivisions"), PathElement::Index(0), PathElement::Key("iso_code")];
const ASN: [PathElement<'static>; 1] = [PathElement::Key("autonomous_system_number")];

fn text<'d>(found: &LookupResult<'d, Box<[u8]>>, path: &[PathElement<'static>]) -> Option<&'d str> {
    found.decode_path(path).ok().flatten()
}

/// The place of `address`. Each part comes from the first database that knows it, and the
/// region from the database that has the country.
pub(super) fn place_of(databases: &[Arc<GeoDatabase>], address: IpAddr) -> Place {
    let mut place = Place::default();
    for database in databases {
        database.complete(address, &mut place);
    }
    place
}
