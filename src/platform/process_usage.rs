//! What the process uses, from `/proc`. Without `/proc`, most of it is not known.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// What the process uses. None: not known on this system.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessUsage {
    /// Processor time, in microseconds.
    pub cpu_us: Option<u64>,
    /// When it was started, in microseconds since 1970.
    pub started_us: Option<u64>,
    /// Its threads.
    pub threads: Option<u64>,
    /// Virtual memory.
    pub virtual_bytes: Option<u64>,
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_files: Option<u64>,
    /// The most file descriptors that may be open; none also if there is no bound.
    pub max_files: Option<u64>,
}

/// What the process uses now.
pub fn process_usage() -> ProcessUsage {
    let files = fs::read_dir("/proc/self/fd").ok();
    let of_process = ProcessUsage {
        // One of them is the directory itself.
        open_files: files.and_then(|files| u64::try_from(files.count()).ok()?.checked_sub(1)),
        max_files: getrlimit(Resource::Nofile).current,
        ..ProcessUsage::default()
    };
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let Some(stat) = stat.as_deref().and_then(Stat::read) else { return of_process };
    let ticks = clock_ticks_per_second().max(1);
    let micros = |in_ticks: u64| in_ticks.saturating_mul(1_000_000) / ticks;
    let page_bytes = u64::try_from(page_size()).unwrap_or_default();
    let boot_s = fs::read_to_string("/proc/stat").ok().as_deref().and_then(boot_time);
    ProcessUsage {
        cpu_us: Some(micros(stat.cpu_ticks)),
        started_us: boot_s
            .map(|boot_s| boot_s.saturating_mul(1_000_000).saturating_add(micros(stat.started))),
        threads: Some(stat.threads),
        virtual_bytes: Some(stat.virtual_bytes),
        resident_bytes: Some(stat.resident_pages.saturating_mul(page_bytes)),
        ..of_process
    }
}

/// When a process was started, in seconds since 1970, by its `/proc/PID/stat`.
pub fn started_s(stat: &str) -> Option<u64> {
    let boot_s = boot_time(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(boot_s.saturating_add(Stat::read(stat)?.started / clock_ticks_per_second().max(1)))
}

/// What `/proc/self/stat` says (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    /// In ticks since the boot.
    started: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn read(text: &str) -> Option<Self> {
        // The name of the program, in parentheses, may contain spaces and parentheses.
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first field after the name has the number 3 in the manual.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)?.saturating_add(field(15)?),
            threads: field(20)?,
            started: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// The time of the boot in seconds since 1970, by `/proc/stat`.
fn boot_time(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_moves_no_field() {
        let text = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 3 0 900 4096 12 1844";
        let stat = Stat::read(text).expect("all fields are there");
        let expected = Stat {
            cpu_ticks: 200,
            threads: 3,
            started: 900,
            virtual_bytes: 4096,
            resident_pages: 12,
        };
        assert_eq!(stat, expected);
        assert_eq!(Stat::read("7 (a) S 1"), None);
        assert_eq!(Stat::read(""), None);
    }

    #[test]
    fn the_time_of_the_boot_is_read() {
        assert_eq!(boot_time("cpu 1 2\nbtime 1795000000\nprocesses 3\n"), Some(1_795_000_000));
        assert_eq!(boot_time("cpu 1 2\n"), None);
    }
}
