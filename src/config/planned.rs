//! Names of the contract that do not work yet.
//!
//! A limit that is silently ignored is worse than none, so each of these is
//! refused where it stands. They are no part of the schema.

/// Whether the field is planned for that section.
pub(super) fn is_field(section: &str, field: &str) -> bool {
    let planned: &[&str] = match section {
        "configuration" => &["admin", "check"],
        "telemetry" => &["traces"],
        "access_log" => &["sample"],
        _ => &[],
    };
    planned.contains(&field)
}
