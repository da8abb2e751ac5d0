//! A database of places in the format of MaxMind (MaxMind DB File Format Specification, version 2.0).

use std::fmt;
use std::net::IpAddr;

use maxminddb::{LookupResult, PathElement, Reader};

use super::{GeoCode, Place, Places};

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
}

impl Places for GeoDatabase {
    fn kind(&self) -> &str {
        &self.reader.metadata().database_type
    }

    fn built_s(&self) -> u64 {
        self.reader.metadata().build_epoch
    }

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
