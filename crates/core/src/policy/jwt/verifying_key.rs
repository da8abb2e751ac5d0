//! A key that verifies tokens.

use std::fmt;

use jsonwebtoken::{Algorithm, DecodingKey};

/// One key that verifies tokens.
#[derive(Clone)]
pub struct VerifyingKey {
    /// `kid` of a key from a key set: a token that names a `kid` is checked with that key only.
    pub(crate) id: Option<String>,
    /// The key.
    pub key: DecodingKey,
    /// The algorithms allowed with it, from the configuration, never from the token.
    pub algorithms: Vec<Algorithm>,
}

impl VerifyingKey {
    /// Whether the key is used with this algorithm. The kind of the key is compared too, so
    /// that a public key is never used as a secret, whatever its algorithms are.
    pub(in crate::policy) fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithms.contains(&algorithm) && self.key.family() == algorithm.family()
    }
}

/// Does not print the key.
impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyingKey")
            .field("id", &self.id)
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
}
