//! The shares of a limit whose passing is reported.

use super::fault::Faults;
use super::{Field, PolicySpec};
use crate::policy::{MAX_SHARES, WarnShares};

impl PolicySpec {
    pub(super) fn warn(&self, faults: &Faults) -> Option<Box<WarnShares>> {
        let written = self.warn.given()?;
        if !(1..=MAX_SHARES).contains(&written.len()) {
            let message = format!("a policy warns of 1 to {MAX_SHARES} shares of its limit");
            faults.error(Field::Warn, message, "like warn: [80%, 95%]");
        }
        let mut shares = Vec::new();
        for (index, share) in written.iter().enumerate() {
            let field = Field::WarnShare(index);
            match share.copied() {
                None => {}
                Some(0) => {
                    let advice = "write a share from 1% to 100%";
                    faults.error(field, "each request passes a share of 0%", advice);
                }
                Some(share) if shares.contains(&share) => {
                    let message = format!("there are two shares of {share}%");
                    faults.error(field, message, "leave one of them out");
                }
                Some(share) => shares.push(share),
            }
        }
        WarnShares::new(&shares).map(Box::new)
    }
}
