//! Whether another process handles SIGHUP.

/// Whether the process with this number handles SIGHUP, which would end it otherwise. None: the
/// system does not tell.
pub fn handles_hangup(pid: i32) -> Option<bool> {
    // Another system has no such file.
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
    // SIGHUP has the number 1, and so the first bit.
    Some(caught & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_without_a_handler_is_known() {
        let mut other = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(other.id()).unwrap();
        let handles = handles_hangup(pid);
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(handles.is_none() || handles == Some(false));
        assert_eq!(handles_hangup(-1), None);
    }
}
