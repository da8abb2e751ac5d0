//! Which values are likely secrets, and the names of the variables that stand for them.

/// Parts of names of fields that hold secrets.
const PARTS: [&str; 9] =
    ["auth", "cookie", "key", "password", "passwd", "secret", "token", "credential", "bypass"];

/// Whether a field with this name holds a secret.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part))
}

/// The name of a variable for a field.
pub fn variable(name: &str) -> String {
    let mut variable: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    if !variable.starts_with(|c: char| c.is_ascii_alphabetic()) {
        variable.insert(0, 'V');
    }
    variable
}
