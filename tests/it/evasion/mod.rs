//! Ways round a limit: requests that the gateway could count as one thing while a
//! backend takes them for another.

mod fields;
mod keys;
mod paths;
mod preflights;

use crate::support::{Gateway, Place};

/// One request a day for each key of the policy `p`, whose other fields are
/// given, with further fields at the top of the file.
fn once_a_day(policy: &str, top: &str) -> Gateway {
    Place::Memory.start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         policies: {{ p: {{ limit: 1/day, {policy} }} }}\n\
         routes: [{{ path: \"/*\", policies: [p], respond: {{ body: ok }} }}]\n{top}\n"
    ))
}

/// Sends the requests of a table in turn: target, fields, and the status that must come.
fn expect(gateway: &Gateway, table: &[(&str, &[&str], u16)]) {
    for (index, (target, fields, status)) in table.iter().enumerate() {
        // A refused request may end its connection.
        let got = gateway.client().get(target, fields).status;
        assert_eq!(got, *status, "request {index}: {target} with {fields:?}");
    }
}
