//! Users by verified bearer tokens.

use std::time::Duration;

use jsonwebtoken::Algorithm;
use tracing::warn;

use tollgate_core::policy::{JwtSettings, KeyError, LeftOut, TokenKeys, UsableKeys, VerifyingKey};

/// How bearer tokens (RFC 7519) are verified. A token that has expired longer ago than the
/// [leeway](Self::leeway) is not valid.
///
/// ```
/// use tollgate_limiter::{Client, Jwt};
///
/// let jwt = Jwt::hs256(b"a secret of at least thirty-two bytes")?
///     .issuer("https://login.example.com")
///     .audience("api");
/// let client = Client::new().jwt(jwt);
/// # Ok::<_, tollgate_limiter::JwtError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Jwt(JwtSettings);

/// A key that cannot verify tokens.
///
/// ```
/// let error = tollgate_limiter::Jwt::hs256(b"short").unwrap_err();
/// assert!(error.to_string().contains("at least 32 bytes"));
/// ```
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct JwtError(#[from] KeyError);

/// The algorithms of public keys. The key determines which of them it is for.
const PUBLIC: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

impl Jwt {
    /// Tokens that are signed with this secret by HS256.
    ///
    /// ```
    /// let jwt = tollgate_limiter::Jwt::hs256(b"a secret of at least thirty-two bytes")?;
    /// # Ok::<_, tollgate_limiter::JwtError>(())
    /// ```
    ///
    /// # Errors
    /// If the secret has less than 32 bytes.
    pub fn hs256(secret: &[u8]) -> Result<Self, JwtError> {
        Self::hmac(secret, Algorithm::HS256)
    }

    /// Tokens that are signed with this secret by HS384.
    ///
    /// ```
    /// let jwt = tollgate_limiter::Jwt::hs384(b"a secret of at least forty-eight bytes, as long as SHA-384")?;
    /// # Ok::<_, tollgate_limiter::JwtError>(())
    /// ```
    ///
    /// # Errors
    /// If the secret has less than 48 bytes.
    pub fn hs384(secret: &[u8]) -> Result<Self, JwtError> {
        Self::hmac(secret, Algorithm::HS384)
    }

    /// Tokens that are signed with this secret by HS512.
    ///
    /// ```
    /// assert!(tollgate_limiter::Jwt::hs512(b"less than sixty-four bytes").is_err());
    /// ```
    ///
    /// # Errors
    /// If the secret has less than 64 bytes.
    pub fn hs512(secret: &[u8]) -> Result<Self, JwtError> {
        Self::hmac(secret, Algorithm::HS512)
    }

    fn hmac(secret: &[u8], algorithm: Algorithm) -> Result<Self, JwtError> {
        let key = VerifyingKey::from_secret(secret, &[algorithm])?;
        Ok(Self::new(vec![key], vec![algorithm]))
    }

    /// Tokens that are signed for this public key, as PEM: RSA (RS256, RS384, RS512, PS256,
    /// PS384, PS512), P-256 (ES256), P-384 (ES384) or Ed25519 (EdDSA).
    ///
    /// ```
    /// assert!(tollgate_limiter::Jwt::public_key("-----BEGIN CERTIFICATE-----").is_err());
    /// ```
    ///
    /// # Errors
    /// If the text is not such a key.
    pub fn public_key(pem: &str) -> Result<Self, JwtError> {
        Ok(Self::new(vec![VerifyingKey::from_pem(pem.as_bytes(), &PUBLIC)?], PUBLIC.to_vec()))
    }

    /// Tokens that are signed for one of the keys in this JSON Web Key Set (RFC 7517). A key
    /// that cannot be used is left out, with a warning in the log.
    ///
    /// ```
    /// assert!(tollgate_limiter::Jwt::key_set("{}").is_err());
    /// ```
    ///
    /// # Errors
    /// If the text is not such a set, or has no usable key.
    pub fn key_set(json: &str) -> Result<Self, JwtError> {
        let UsableKeys { keys, left_out, .. } = UsableKeys::read(json.as_bytes(), &PUBLIC)?;
        for LeftOut { name, error } in left_out {
            warn!(key = name, %error, "a key of the set is left out");
        }
        Ok(Self::new(keys, PUBLIC.to_vec()))
    }

    fn new(keys: Vec<VerifyingKey>, algorithms: Vec<Algorithm>) -> Self {
        Self(JwtSettings::new(TokenKeys::Known(keys), algorithms))
    }

    /// Accepts tokens of this issuer. Without it, those of any issuer.
    ///
    /// ```
    /// # let jwt = tollgate_limiter::Jwt::hs256(b"a secret of at least thirty-two bytes")?;
    /// let jwt = jwt.issuer("https://login.example.com");
    /// # Ok::<_, tollgate_limiter::JwtError>(())
    /// ```
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.0.issuers.push(issuer.into());
        self
    }

    /// Accepts tokens for this audience. Without it, those for any audience.
    ///
    /// ```
    /// # let jwt = tollgate_limiter::Jwt::hs256(b"a secret of at least thirty-two bytes")?;
    /// let jwt = jwt.audience("api");
    /// # Ok::<_, tollgate_limiter::JwtError>(())
    /// ```
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.0.audiences.push(audience.into());
        self
    }

    /// The claim that is the user, with dots between nested names. Without it, `sub`.
    ///
    /// ```
    /// # let jwt = tollgate_limiter::Jwt::hs256(b"a secret of at least thirty-two bytes")?;
    /// let jwt = jwt.claim("org.user");
    /// # Ok::<_, tollgate_limiter::JwtError>(())
    /// ```
    #[must_use]
    pub fn claim(mut self, claim: impl Into<String>) -> Self {
        self.0.claim = claim.into();
        self
    }

    /// How much the clock of an issuer may differ, at most 5 minutes: a token is valid from
    /// `nbf` minus this time until `exp` plus this time (RFC 7519, sections 4.1.4 and 4.1.5).
    /// Without it, 30 seconds.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let jwt = tollgate_limiter::Jwt::hs256(b"a secret of at least thirty-two bytes")?;
    /// let jwt = jwt.leeway(Duration::from_secs(5));
    /// # Ok::<_, tollgate_limiter::JwtError>(())
    /// ```
    #[must_use]
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.0.leeway = leeway.into();
        self
    }

    /// The settings, or what is wrong with them.
    pub(super) fn settings(&self) -> Result<JwtSettings, String> {
        if self.0.leeway > JwtSettings::MAX_LEEWAY {
            return Err(format!("the leeway of tokens is at most {}", JwtSettings::MAX_LEEWAY));
        }
        Ok(self.0.clone())
    }
}
