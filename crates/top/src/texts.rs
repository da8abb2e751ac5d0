//! Texts about refusals, for people. Other commands of the gateway print them, too.

use serde_json::Value;
use tollgate_core::price::Denomination;

/// Units as people write them. `unit` says what a unit of money is, like `usd-6`.
pub fn amount(units: u64, unit: Option<&str>) -> String {
    match unit.and_then(|unit| unit.parse::<Denomination>().ok()) {
        Some(money) => money.shown(units).to_string(),
        None => units.to_string(),
    }
}

/// One refusal of the past, as the admin API tells it, in lines.
pub fn refusal(it: &Value) -> String {
    let of = |name: &str| it[name].as_str().unwrap_or("?").to_owned();
    let number = |name: &str| amount(it[name].as_u64().unwrap_or(0), it["unit"].as_str());
    let fits = match &it["wait_ms"] {
        Value::Number(ms) => format!(", fitted in {}", wait(ms.as_u64().unwrap_or(0))),
        Value::String(_) => ", would never have fitted".to_owned(),
        _ => String::new(),
    };
    let key = |name: &str| it["key"][name].as_str().unwrap_or("?").to_owned();
    let lines = [
        format!(
            "Refused by {} at {}: {} of {} used{fits}",
            of("policy"),
            of("time"),
            number("used"),
            number("limit")
        ),
        format!("{:<10}{} {} on route {}", "Request", of("method"), of("path"), of("route")),
        format!("{:<10}{} ({})", "Key", key("text"), key("id")),
        format!("{:<10}{}", "Source", source(of("source"))),
    ];
    lines.join("\n") + "\n"
}

/// The sources of decisions: the word of the admin API for each, and its meaning.
pub fn source(source: impl AsRef<str>) -> String {
    match source.as_ref() {
        "store" => "store".to_owned(),
        "local" => "local: this node alone, because the store does not answer".to_owned(),
        "policy" => "policy: its on_store_failure, because the store does not answer".to_owned(),
        other => other.to_owned(),
    }
}

/// A wait in milliseconds, rounded up to what matters of it.
pub fn wait(ms: u64) -> String {
    let secs = ms.div_ceil(1000);
    let mins = secs.div_ceil(60);
    let hours = secs.div_ceil(3600);
    match secs {
        _ if ms < 1000 => format!("{ms} ms"),
        _ if ms < 60_000 => {
            let tenths = ms.div_ceil(100);
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        0..3600 => format!("{} min {} s", secs / 60, secs % 60),
        _ if mins < 24 * 60 => format!("{} h {} min", mins / 60, mins % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_never_shown_too_short() {
        let shown = [
            (1, "1 ms"),
            (999, "999 ms"),
            (1000, "1.0 s"),
            (14_202, "14.3 s"),
            (60_000, "1 min 0 s"),
            (3_599_001, "1 h 0 min"),
            (7_199_000, "2 h 0 min"),
            (86_399_000, "1 d 0 h"),
            (90_000_000, "1 d 1 h"),
            (172_799_000, "2 d 0 h"),
        ];
        for (ms, text) in shown {
            assert_eq!(wait(ms), text);
        }
    }

    #[test]
    fn units_of_money_are_amounts() {
        let shown = [None, Some("usd-6"), Some("eur-2"), Some("?")].map(|it| amount(1234, it));
        assert_eq!(shown, ["1234", "0.001234 usd", "12.34 eur", "1234"]);
    }

    #[test]
    fn a_past_refusal_has_its_policy_and_its_key() {
        let it = serde_json::json!({
            "time": "2026-11-22T03:00:00.000Z", "policy": "per-client", "limit": 100, "used": 100,
            "wait_ms": 14_200, "route": "orders", "source": "store", "method": "GET",
            "path": "/v1/orders", "key": { "id": "k7f2m9qd0v3x", "text": "header x-api-key 4f…" },
        });
        assert_eq!(
            refusal(&it),
            "Refused by per-client at 2026-11-22T03:00:00.000Z: 100 of 100 used, fitted in 14.2 s\n\
             Request   GET /v1/orders on route orders\n\
             Key       header x-api-key 4f… (k7f2m9qd0v3x)\n\
             Source    store\n"
        );
        let mut money = it;
        money["unit"] = "usd-2".into();
        assert!(refusal(&money).contains(": 1.00 usd of 1.00 usd used, fitted in"), "{money}");
    }
}
