//! Whose configurations are read.

use std::fmt;
use std::str::FromStr;

/// Another gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Files of nginx.
    Nginx,
    /// Ingress objects and the ConfigMap of ingress-nginx.
    IngressNginx,
    /// Declarative files of Kong.
    Kong,
    /// Files of Traefik's file provider.
    Traefik,
    /// Files of envoyproxy/ratelimit.
    EnvoyRatelimit,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::IngressNginx, Self::Nginx, Self::Kong, Self::Traefik, Self::EnvoyRatelimit];

    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::IngressNginx => "ingress-nginx",
            Self::Kong => "kong",
            Self::Traefik => "traefik",
            Self::EnvoyRatelimit => "envoy-ratelimit",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == text);
        kind.ok_or_else(|| format!("write one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}
