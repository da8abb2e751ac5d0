//! Linux: a packet filter for the takeover, the kernel's distribution of connections, a call that
//! accepts one, and systemd.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use listenfd::ListenFd;
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use rustix::net::{SocketFlags, acceptfrom_with};
use sd_notify::NotifyState;
use socket2::{SockFilter, SockRef};
use tokio_util::either::Either;

use super::{InheritedSocket, ServiceState};

/// Whether the kernel distributes connections among sockets that share an address with
/// `SO_REUSEPORT`.
pub const KERNEL_BALANCES_LISTENERS: bool = true;

/// Accepts a TCP connection, which does not block. One call of the system (`accept4(2)`).
///
/// # Errors
/// If none has arrived and the listener does not block, the connection broke, or the process or
/// the system has no resources left.
pub fn accept(listener: &SockRef<'_>) -> io::Result<(TcpStream, SocketAddr)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (socket, address) = acceptfrom_with(&**listener, flags)?;
    let address = address.and_then(|address| SocketAddr::try_from(address).ok());
    Ok((socket.into(), address.ok_or(io::ErrorKind::ConnectionAborted)?))
}

/// A packet filter (classic BPF) that drops packets that open a connection: SYN is bit 1
/// of byte 13 of the TCP header (RFC 9293, section 3.1).
const DROP_SYN: [SockFilter; 4] = [
    SockFilter::new(0x30, 0, 0, 13),       // load the byte
    SockFilter::new(0x45, 0, 1, 2),        // if the bit is set,
    SockFilter::new(0x06, 0, 0, 0),        // accept nothing of the packet,
    SockFilter::new(0x06, 0, 0, u32::MAX), // else all of it
];

/// Makes a listening TCP socket ignore new clients. Connections whose handshake has
/// begun are still completed.
///
/// # Errors
/// If the kernel refuses the filter.
pub fn refuse_new_connections(socket: &SockRef<'_>) -> io::Result<()> {
    socket.attach_filter(&DROP_SYN)
}

/// Whether a file or directory is mounted in its place (`statx(2)`), so that no other one can take
/// it. False if it is not known.
pub fn is_mount(path: &Path) -> bool {
    statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS)
        .is_ok_and(|about| about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Gives this thread a low priority (`setpriority(2)`, which changes one thread on Linux). If the
/// machine is busy, it gets about a tenth of the processor time of a usual thread. If the system
/// refuses it, the thread has the usual priority.
pub fn lower_priority() {
    let _ = rustix::process::setpriority_process(None, 10);
}

/// The sockets that systemd opened for this process (`sd_listen_fds(3)`), each with the
/// error if it cannot be used. To be called once.
pub fn inherited_sockets() -> Vec<io::Result<InheritedSocket>> {
    let mut passed = ListenFd::from_env();
    (0..passed.len()).map(|index| inherited_socket(&mut passed, index)).collect()
}

fn inherited_socket(passed: &mut ListenFd, index: usize) -> io::Result<InheritedSocket> {
    // A socket of another kind stays in its place.
    let socket = match passed.take_unix_listener(index) {
        Ok(socket) => socket.map(Either::Right),
        Err(_) => passed.take_tcp_listener(index)?.map(Either::Left),
    };
    socket.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Reports the state of the process to systemd (`sd_notify(3)`), if it asked for that.
///
/// # Errors
/// If the report cannot be sent.
pub fn report_service_state(state: ServiceState) -> io::Result<()> {
    match state {
        ServiceState::Ready => sd_notify::notify(&[NotifyState::Ready]),
        // The time tells which reload ends with the next "ready".
        ServiceState::Reloading => NotifyState::monotonic_usec_now()
            .and_then(|now| sd_notify::notify(&[NotifyState::Reloading, now])),
        ServiceState::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
    }
}
