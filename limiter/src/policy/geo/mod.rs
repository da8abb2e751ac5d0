//! Where addresses are: country, region and network, from MaxMind DB files
//! (MaxMind DB File Format Specification, version 2.0).
//!
//! Guarantees: a lookup takes a bounded time, allocates nothing that grows with
//! the file, and never panics, whatever is in the file. What the file says is
//! used only if it has the form of a code; anything else counts as unknown.

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

/// A database that tells where addresses are. The whole file is in memory: a
/// file that is truncated while it is mapped would end the process.
pub struct GeoDatabase {
    reader: Reader<Box<[u8]>>,
}

/// The errors of a file that is not such a database.
#[derive(Debug, thiserror::Error)]
#[error("it is not a complete MaxMind DB file: {0}")]
pub struct GeoError(#[source] maxminddb::MaxMindDbError);

/// Never the whole file.
impl fmt::Debug for GeoDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeoDatabase").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

impl GeoDatabase {
    /// The database in the bytes of a file. Its records are not looked at: a
    /// record that is broken is found when an address leads to it, and then the
    /// address is unknown.
    ///
    /// # Errors
    /// If the bytes do not end with the description of a search tree that is there.
    pub fn from_bytes(bytes: impl Into<Box<[u8]>>) -> Result<Self, GeoError> {
        Reader::from_source(bytes.into()).map(|reader| Self { reader }).map_err(GeoError)
    }

    /// What the file says it is, such as `GeoLite2-City`.
    pub fn kind(&self) -> &str {
        &self.reader.metadata().database_type
    }

    /// Whether addresses in it can have this key, as far as its kind tells. A
    /// kind that is not known may have all of them.
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

    /// Adds to `place` what the database knows of `address` and `place` does not.
    fn complete(&self, address: IpAddr, place: &mut Place) {
        // An IPv6 address is an error in a database of IPv4 addresses.
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
/// The first subdivision is the largest.
const REGION: [PathElement<'static>; 3] =
    [PathElement::Key("subdivisions"), PathElement::Index(0), PathElement::Key("iso_code")];
const ASN: [PathElement<'static>; 1] = [PathElement::Key("autonomous_system_number")];

fn text<'d>(found: &LookupResult<'d, Box<[u8]>>, path: &[PathElement<'static>]) -> Option<&'d str> {
    found.decode_path(path).ok().flatten()
}

/// Where `address` is, by the first of the databases that knows each part. A
/// region is taken from the database that has the country.
pub(super) fn place_of(databases: &[Arc<GeoDatabase>], address: IpAddr) -> Place {
    let mut place = Place::default();
    for database in databases {
        database.complete(address, &mut place);
    }
    place
}
