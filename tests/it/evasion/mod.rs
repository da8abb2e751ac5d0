//! Attempts to evade a limit: requests that the gateway and a backend could interpret
//! differently.

mod fields;
mod keys;
mod paths;
mod preflights;

use crate::support::{Gateway, StoreKind};

/// One request a day for each key of the policy `p`, whose other fields are
/// given, with further fields at the top of the file.
fn once_a_day(policy: &str, top: &str) -> Gateway {
    StoreKind::Memory.start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         policies: {{ p: {{ limit: 1/day, {policy} }} }}\n\
         routes: [{{ path: \"/*\", policies: [p], respond: {{ body: ok }} }}]\n{top}\n"
    ))
}

/// Sends the requests of a table in turn. Each entry has a target, fields, and the expected
/// status.
fn expect(gateway: &Gateway, table: &[(&str, &[&str], u16)]) {
    for (index, (target, fields, status)) in table.iter().enumerate() {
        // A refused request may end its connection.
        let got = gateway.client().get(target, fields).status;
        assert_eq!(got, *status, "request {index}: {target} with {fields:?}");
    }
}
