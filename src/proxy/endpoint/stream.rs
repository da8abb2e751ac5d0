//! The bytes of a connection to an endpoint: over TCP or a Unix socket, plain or with TLS.

use std::fmt::Debug;

use tokio::io::{AsyncRead, AsyncWrite};

/// What can carry HTTP.
pub(super) trait Transport: AsyncRead + AsyncWrite + Debug + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Debug + Send + Unpin + 'static> Transport for T {}

/// A stream of any kind.
pub(super) type Stream = Box<dyn Transport>;
