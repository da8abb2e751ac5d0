//! The large files of the configuration in use: they are read again only after they changed, and stay
//! in use if a reload finds them broken.

use super::api_keys::ApiKeyFile;
use super::classes::ClassFile;
use super::geo_file::GeoFile;
use super::password_file::PasswordFile;
use super::prices::PriceFile;

/// The large files of the configuration in use.
#[derive(Clone, Debug, Default)]
pub struct HeldFiles {
    /// The databases of locations.
    pub databases: Vec<GeoFile>,
    /// The file with API keys.
    pub api_keys: Option<ApiKeyFile>,
    /// The file with the classes of clients.
    pub classes: Option<ClassFile>,
    /// The file with users and passwords.
    pub passwords: Option<PasswordFile>,
    /// The file with the prices of models.
    pub prices: Option<PriceFile>,
}

/// Those of no configuration.
pub static NO_FILES: HeldFiles = HeldFiles {
    databases: Vec::new(),
    api_keys: None,
    classes: None,
    passwords: None,
    prices: None,
};
