//! Which other processes listen on an address of this one, from `/proc`. Without `/proc`, none is
//! known. The command line of a process is not read, because it may contain secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::fstat;
use tollgate_core::time::{Span, Timestamp};

use super::process_usage::started_s;

/// A process that listens on an address of this one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtherListener {
    /// The address of this process.
    pub address: SocketAddr,
    /// None: this process may not see it, because it belongs to another user or container.
    pub process: Option<OtherProcess>,
}

/// Another process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtherProcess {
    pub pid: u32,
    /// The name of its program: 15 bytes at most.
    pub name: String,
    /// When it was started, in seconds since 1970. None: not known.
    pub started_s: Option<u64>,
}

impl fmt::Display for OtherListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another process listens on {}: ", self.address)?;
        match &self.process {
            Some(OtherProcess { pid, name, started_s }) => {
                write!(f, "pid {pid} ({name})")?;
                if let Some(s) = started_s {
                    write!(f, ", since {}", Timestamp::default().plus(Span::from_secs(*s)))?;
                }
            }
            None => f.write_str(
                "its pid is not known, because it belongs to another user or container",
            )?,
        }
        f.write_str("; connections go to both")
    }
}

/// The sockets of one of our listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnSockets {
    pub address: SocketAddr,
    /// The inode of each socket.
    pub inodes: Vec<u64>,
}

/// The inode of a socket, as `/proc` shows it. None: the system refuses to tell.
pub fn socket_inode(socket: BorrowedFd<'_>) -> Option<u64> {
    fstat(socket).ok().map(|about| about.st_ino)
}

/// Looks for other processes, and keeps what it has found about each socket: to find the process
/// of a socket takes a look at all processes.
#[derive(Debug, Default)]
pub struct OtherListeners(BTreeMap<u64, Option<OtherProcess>>);

/// A listening socket of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listening {
    address: SocketAddr,
    inode: u64,
}

impl OtherListeners {
    /// The other processes that listen on an address of `own` now, each once for an address.
    pub fn look(&mut self, own: &[OwnSockets]) -> Vec<OtherListener> {
        let others = others(own, &listening());
        let found = |inode: &u64| others.iter().any(|(_, it)| it == inode);
        self.0.retain(|inode, _| found(inode));
        let new = others.iter().map(|(_, inode)| *inode).filter(|it| !self.0.contains_key(it));
        let new: BTreeSet<u64> = new.collect();
        if !new.is_empty() {
            self.0.extend(processes_of(&new));
        }
        let process = |inode: &u64| self.0.get(inode).cloned().flatten();
        let listeners = others
            .iter()
            .map(|(address, inode)| OtherListener { address: *address, process: process(inode) });
        // A listener of this process that was removed keeps its sockets for a moment.
        let is_own = |it: &OtherProcess| it.pid == std::process::id();
        let listeners = listeners.filter(|it| !it.process.as_ref().is_some_and(is_own));
        listeners.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The sockets of other processes that listen on an address of `own`: that address and the inode.
fn others(own: &[OwnSockets], listening: &[Listening]) -> Vec<(SocketAddr, u64)> {
    let is_own = |inode| own.iter().any(|it| it.inodes.contains(&inode));
    let others = listening.iter().filter(|it| !is_own(it.inode));
    let at = |other: &Listening| {
        let shared = own.iter().find(|it| overlap(it.address, other.address))?;
        Some((shared.address, other.inode))
    };
    others.filter_map(at).collect()
}

/// Whether a connection to one address can reach a socket at the other one. Sockets of IPv4 and of
/// IPv6 do not share connections: the kernel prefers those of IPv4 for clients of IPv4.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port()
        && one.is_ipv4() == other.is_ipv4()
        && (is_any || one.ip() == other.ip())
}

/// All listening sockets of TCP.
fn listening() -> Vec<Listening> {
    let mut found = Vec::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        let Ok(file) = File::open(table) else { continue };
        let lines = BufReader::new(file).lines().skip(1).map_while(Result::ok);
        // The listening sockets come first. There may be very many connections behind them.
        found.extend(lines.map_while(|line| read(&line)));
    }
    found
}

/// Reads a line of `/proc/net/tcp` or `tcp6` (proc(5)). None: the socket does not listen.
fn read(line: &str) -> Option<Listening> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, local, _, "0A", _, _, _, _, _, inode, ..] = fields[..] else { return None };
    let (ip, port) = local.split_once(':')?;
    // Each word of an address is in the byte order of the machine.
    let word =
        |at: usize| Some(u32::from_str_radix(ip.get(8 * at..8 * at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let bytes = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?))
        }
        _ => return None,
    };
    let address = SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?);
    Some(Listening { address, inode: inode.parse().ok()? })
}

/// The process of each of these sockets, as far as this process may see it.
fn processes_of(inodes: &BTreeSet<u64>) -> BTreeMap<u64, Option<OtherProcess>> {
    let mut found: BTreeMap<u64, Option<OtherProcess>> =
        inodes.iter().map(|inode| (*inode, None)).collect();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let directory = Path::new("/proc").join(pid.to_string());
        let files = fs::read_dir(directory.join("fd")).into_iter().flatten().flatten();
        for file in files {
            let Some(inode) = fs::read_link(file.path()).ok().and_then(|it| socket(&it)) else {
                continue;
            };
            if let Some(process) = found.get_mut(&inode)
                && process.is_none()
            {
                *process = Some(about(pid, &directory));
            }
        }
        if found.values().all(Option::is_some) {
            break;
        }
    }
    found
}

/// The inode of the socket to which a link in `/proc/PID/fd` points, such as `socket:[42]`.
fn socket(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn about(pid: u32, directory: &Path) -> OtherProcess {
    let name = fs::read_to_string(directory.join("comm")).unwrap_or_default();
    // A process chooses its name.
    let name = name.trim_end().chars().filter(|it| it.is_ascii_graphic() || *it == ' ').collect();
    let stat = fs::read_to_string(directory.join("stat")).ok();
    OtherProcess { pid, name, started_s: stat.as_deref().and_then(started_s) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsFd as _;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_line_of_a_listening_socket_is_read() {
        let line = |local: &str, state: &str| {
            read(&format!(
                "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 \
                 4711 1 0 100 0 0 10 0"
            ))
        };
        // The numbers are those of a machine with the little end first.
        if cfg!(target_endian = "little") {
            let four = Listening { address: address("127.0.0.1:8080"), inode: 4711 };
            assert_eq!(line("0100007F:1F90", "0A"), Some(four));
            let six = Listening { address: address("[2001:db8::1]:80"), inode: 4711 };
            assert_eq!(line("B80D0120000000000000000001000000:0050", "0A"), Some(six));
        }
        assert_eq!(line("0100007F:1F90", "01"), None);
        for text in ["", "a b c 0A", "0: 0100007F:1F9 x 0A 0 0 0 0 0 x", "0: 01:1 x 0A 0 0 0 0 0 1"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_overlap_if_a_connection_can_reach_both() {
        for (one, other, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:80", "127.0.0.2:80", true),
            ("[::1]:80", "[::]:80", true),
            ("0.0.0.0:80", "[::]:80", false),
        ] {
            assert_eq!(overlap(address(one), address(other)), expected, "{one} {other}");
        }
    }

    /// Linux shows the sockets of this process. That of another process is found by a test of the
    /// whole program.
    #[test]
    fn own_sockets_are_not_those_of_another_process() {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("it is bound");
        let inode = socket_inode(socket.as_fd()).expect("it is open");
        assert!(listening().contains(&Listening { address, inode }));
        let mut looks = OtherListeners::default();
        assert_eq!(looks.look(&[OwnSockets { address, inodes: vec![inode] }]), []);
        // It is found among the files of this process, too.
        assert_eq!(looks.look(&[OwnSockets { address, inodes: Vec::new() }]), []);
        assert_eq!(processes_of(&[u64::MAX].into()), [(u64::MAX, None)].into());
    }

    #[test]
    fn the_text_names_the_process_if_it_is_known() {
        let address = address("127.0.0.1:80");
        let process = |started_s| Some(OtherProcess { pid: 7, name: "tollgate".into(), started_s });
        let text = |process| OtherListener { address, process }.to_string();
        assert_eq!(
            text(process(Some(1_795_246_126))),
            "another process listens on 127.0.0.1:80: pid 7 (tollgate), since \
             2026-11-21T07:28:46.000Z; connections go to both"
        );
        assert!(text(process(None)).contains("pid 7 (tollgate); connections"));
        assert!(text(None).contains("another user or container; connections"));
    }

    #[test]
    fn a_link_to_a_socket_has_its_inode() {
        assert_eq!(socket(Path::new("socket:[42]")), Some(42));
        assert_eq!(socket(Path::new("pipe:[42]")), None);
    }
}
