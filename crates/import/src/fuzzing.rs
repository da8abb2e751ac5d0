//! Fuzz targets: texts of each kind. A text may be refused, but what is made of it is bounded, and
//! the same each time.

use crate::files::Files;
use crate::notes::Notes;
use crate::{Job, Kind, Unreadable, envoy, finished, ingress, kong, nginx, traefik};

/// The text of a configuration of nginx. Files are not included.
pub fn import_nginx(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if !text.contains("include") {
        twice(Kind::Nginx, text);
    }
}

/// A text in YAML for each of the other kinds.
pub fn import_yaml(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for kind in [Kind::IngressNginx, Kind::Kong, Kind::Traefik, Kind::EnvoyRatelimit] {
        twice(kind, text);
    }
}

/// The text and the report are the same each time, and no construct without a loss ends with 2.
fn twice(kind: Kind, text: &str) {
    let one = of(kind, text);
    let other = of(kind, text);
    assert_eq!(one, other, "{kind} gives two results");
}

fn of(kind: Kind, text: &str) -> Result<(String, String), String> {
    let mut files = Files::of_text(text);
    let mut notes = Notes::default();
    let job = Job { kind, files: Vec::new(), rest: None, accept: Vec::new(), nodes: Some(2) };
    let plan = match kind {
        Kind::Nginx => nginx::read(&mut files, &job, &mut notes),
        Kind::IngressNginx => ingress::read(&files, &job, &mut notes),
        Kind::Kong => kong::read(&files, &job, &mut notes),
        Kind::Traefik => traefik::read(&files, &job, &mut notes),
        Kind::EnvoyRatelimit => envoy::read(&files, &mut notes),
    };
    let plan = plan.map_err(|error: Unreadable| error.to_string())?;
    let made = finished(plan, notes, &files, &job);
    let yaml = made.yaml.unwrap_or_else(|why| why.to_string());
    Ok((yaml, made.report.text()))
}
