//! Fields that are planned but not supported yet.
//!
//! A limit that is silently ignored is worse than no limit, so these fields are refused. The
//! schema does not contain them.

/// Whether the field is planned for that section.
pub(super) fn is_field(section: &str, field: &str) -> bool {
    let planned: &[&str] = match section {
        "admin" => &["reveal_keys"],
        _ => &[],
    };
    planned.contains(&field)
}
