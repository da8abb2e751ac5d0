//! The arguments of `tollgate top`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use tollgate_core::time::Span;

/// Examples for the help of the command.
pub const EXAMPLES: &str = "\
Examples:
  tollgate top
  tollgate top --admin unix:/run/tollgate/admin.sock
  tollgate top --admin http://10.0.0.1:9901 --admin http://10.0.0.2:9901
  tollgate top --scope cluster --policy per-client
  tollgate top --once | less
Exit code 0: done; 1: a gateway does not answer; 2: wrong usage. See docs/top.md.";

/// The shortest time between two readings.
const SHORTEST: Duration = Duration::from_millis(500);
/// The longest one.
const LONGEST: Duration = Duration::from_secs(60);

/// What is shown, and how.
#[derive(Clone, Debug, Args)]
pub struct TopOptions {
    /// The time between two readings, from 500ms to 60s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(super) interval: Duration,
    /// Policies and clients of the gateway that is asked, or of all that share its Redis
    #[arg(long, value_name = "SCOPE", default_value = "node")]
    pub(super) scope: Scope,
    /// This policy alone
    #[arg(long, value_name = "POLICY")]
    pub(super) policy: Option<String>,
    /// Print the figures as text, and end. Output that is no terminal does the same
    #[arg(long)]
    pub(super) once: bool,
    /// Print the answers of the gateways as JSON, and end
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Scope {
    Node,
    Cluster,
}

impl TopOptions {
    /// Whether the figures are those of all gateways that share a store.
    pub fn is_of_cluster(&self) -> bool {
        self.scope == Scope::Cluster
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let wrong = || "write a time from 500ms to 60s, such as 2s".to_owned();
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit = Span::of_unit(unit).ok_or_else(wrong)?;
    let time = Duration::from_micros(number.saturating_mul(unit.as_micros()));
    Some(time).filter(|time| (SHORTEST..=LONGEST).contains(time)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_a_unit_and_bounds() {
        assert_eq!(interval("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("1min"), Ok(Duration::from_secs(60)));
        for wrong in
            ["", "1", "s", "0s", "499ms", "61s", "2m", "-1s", "+1s", "1 s", "18446744073709551615s"]
        {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
