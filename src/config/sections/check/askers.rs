//! Which peers may ask a listener of `check`.

use ipnet::IpNet;

use crate::config::field::{Field, List, Spanned};
use crate::config::scalar::{self, Cidr};
use crate::config::sections::admin::is_loopback;
use crate::config::sections::context::Context;
use crate::config::sections::listeners::tls::RawListenerTls;
use crate::server::{Callers, Http2Settings, ListenAddress, ListenerSettings, Trust, WhenFull};

/// All blocks are compared with the address of each peer.
const MAX_TRUSTED: usize = 256;
/// Proxies and services keep few connections open, compared with the clients of a gateway.
const MAX_CONNECTIONS: usize = 2048;
/// On each of them they ask for all of their clients.
const MAX_STREAMS: u32 = 4096;

/// What a listener says of the peers that may ask.
pub struct Askers<'a> {
    pub address: &'a Spanned<scalar::ListenAddress>,
    pub trust: &'a List<Cidr>,
    pub tls: &'a Field<RawListenerTls>,
    /// Whether questions need a token.
    pub needs_token: bool,
}

impl Askers<'_> {
    /// The peers that may ask. All peers may, if they need a token or a certificate.
    fn trust(&self, cx: &Context<'_>) -> Trust {
        cx.at_most(self.trust, "trust", MAX_TRUSTED);
        cx.not_empty(self.trust, "no peer may ask", "like trust: [10.0.0.0/8]");
        if !self.trust.is_absent() {
            return Trust::new(self.trust.items().map(|block| block.value.0).collect());
        }
        let verifies = self.tls.value().is_some_and(RawListenerTls::verifies_clients);
        if self.needs_token || verifies || self.tls.is_broken() {
            let all = ["0.0.0.0/0", "::/0"].map(|text| text.parse::<IpNet>());
            return Trust::new(all.into_iter().flatten().collect());
        }
        if self.address.value.0.tcp().is_some_and(|it| !is_loopback(it)) {
            let message = "other machines can reach this address, and every one of them may ask";
            let advice = "name those that may in trust: [10.0.0.0/8], or listen on 127.0.0.1";
            cx.error(self.address.span, message, advice);
        }
        Trust::default()
    }

    /// The bounds of their connections over HTTP/2. They cancel calls that take too long, and may
    /// cancel all of them.
    fn http2() -> Http2Settings {
        Http2Settings { max_streams: MAX_STREAMS, reset_percent: 100, ..Http2Settings::default() }
    }

    /// The listener for them, with the other bounds of `usual`.
    pub fn listener(
        &self,
        usual: impl FnOnce(ListenAddress) -> ListenerSettings,
        cx: &Context<'_>,
    ) -> ListenerSettings {
        ListenerSettings {
            tls: self.tls.given().and_then(|tls| tls.value.compile(tls.span, cx)),
            callers: Callers::At(self.trust(cx)),
            max_connections: MAX_CONNECTIONS,
            when_full: WhenFull::CloseIdle,
            http2: Some(Self::http2()),
            ..usual(self.address.value.0.clone())
        }
    }
}
