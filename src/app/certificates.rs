//! Tells in the log when a certificate that the gateway shows will soon expire, has expired, or is
//! not valid yet. A client or a server refuses such a certificate, and the gateway sees no error.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tollgate_core::time::{Clock, Span, Timestamp};
use tracing::warn;

use super::observed::Observed;
use crate::server::{CertificateDates, Validity};

/// How long before its end a certificate is said to expire, as the alert and the status say it.
const NOTICE: Span = Span::from_secs(14 * 86_400);
/// The interval of the looks. A certificate of a renewed file is looked at after this time.
const INTERVAL: Duration = Duration::from_secs(5);

/// What is told of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    NotYetValid,
    ExpiresSoon,
    Expired,
}

/// What has been told of each certificate, so that it is told once.
#[derive(Debug, Default)]
struct Told(BTreeMap<CertificateDates, Notice>);

/// Looks at the certificates until the task is dropped.
pub async fn watch(observed: Arc<Observed>) {
    let mut told = Told::default();
    loop {
        for (certificate, notice) in told.news(&observed.certificates(), Clock::System.wall()) {
            let at = |s| Timestamp::default().plus(Span::from_secs(s)).to_string();
            let CertificateDates { name, from_s, until_s } = certificate;
            match notice {
                Notice::NotYetValid => warn!(
                    name,
                    from = at(*from_s),
                    "a certificate is not valid yet: compare the clocks of this machine and of the \
                     authority"
                ),
                Notice::ExpiresSoon => {
                    warn!(name, until = at(*until_s), "a certificate expires soon: renew it");
                }
                Notice::Expired => {
                    warn!(name, until = at(*until_s), "a certificate has expired: renew it");
                }
            }
        }
        sleep(INTERVAL).await;
    }
}

impl Told {
    /// What is to be told at `now`. It is not told again.
    fn news<'c>(
        &mut self,
        certificates: &'c [CertificateDates],
        now: Timestamp,
    ) -> Vec<(&'c CertificateDates, Notice)> {
        let present = certificates.iter().filter_map(|it| Some((it, notice(it, now)?)));
        let present: Vec<_> = present.collect();
        let news = present.iter().filter(|(it, notice)| self.0.get(it) != Some(notice));
        let news = news.copied().collect();
        self.0 = present.into_iter().map(|(it, notice)| (it.clone(), notice)).collect();
        news
    }
}

fn notice(certificate: &CertificateDates, now: Timestamp) -> Option<Notice> {
    match certificate.at(now) {
        Validity::NotYet => Some(Notice::NotYetValid),
        Validity::Expired => Some(Notice::Expired),
        Validity::Valid => match certificate.at(now.plus(NOTICE)) {
            Validity::Expired => Some(Notice::ExpiresSoon),
            Validity::Valid | Validity::NotYet => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    #[test]
    fn each_state_of_a_certificate_is_told_once() {
        let dates = |name: &str, from_s, until_s| CertificateDates {
            name: name.to_owned(),
            from_s: from_s * DAY,
            until_s: until_s * DAY,
        };
        let mut told = Told::default();
        let mut news = |certificates: &[CertificateDates], day: u64| -> Vec<(String, Notice)> {
            let now = Timestamp::default().plus(Span::from_secs(day * DAY));
            let news = told.news(certificates, now).into_iter();
            news.map(|(it, notice)| (it.name.clone(), notice)).collect()
        };
        let of = |name: &str, notice| vec![(name.to_owned(), notice)];
        let both = [dates("a", 10, 40), dates("b", 0, 200)];
        assert_eq!(news(&both, 9), of("a", Notice::NotYetValid));
        assert_eq!(news(&both, 9), []);
        assert_eq!(news(&both, 11), []);
        assert_eq!(news(&both, 30), of("a", Notice::ExpiresSoon));
        assert_eq!(news(&both, 31), []);
        assert_eq!(news(&both, 41), of("a", Notice::Expired));
        assert_eq!(news(&both, 42), []);
        let renewed = [dates("a", 42, 140), dates("b", 0, 200)];
        assert_eq!(news(&renewed, 43), []);
        assert_eq!(news(&both, 44), of("a", Notice::Expired), "it is the old one again");
        // With a key of another kind: one has expired, and the other expires soon.
        let one_name = [dates("a", 10, 40), dates("a", 10, 50)];
        assert_eq!(news(&one_name, 45), of("a", Notice::ExpiresSoon));
        assert_eq!(news(&one_name, 46), []);
        assert_eq!(news(&one_name, 51), of("a", Notice::Expired));
    }
}
