//! The responses that a worker compresses at the same time.

use std::cell::Cell;
use std::rc::Rc;

use crate::message::{Compressor, Encoding};
use crate::telemetry::CompressionMetrics;

/// Bodies that one worker compresses at the same time. Each of them needs about 400 KiB in gzip,
/// and 700 KiB in zstd.
const MAX_STREAMS: usize = 256;

/// What one worker compresses at present.
#[derive(Clone, Debug)]
pub struct Compressing {
    streams: Rc<Cell<usize>>,
    metrics: Rc<CompressionMetrics>,
}

/// A body that is compressed. Dropping it makes room for another one.
#[derive(Debug)]
pub struct Stream {
    pub compressor: Compressor,
    streams: Rc<Cell<usize>>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.streams.set(self.streams.get() - 1);
    }
}

impl Compressing {
    pub fn new(metrics: CompressionMetrics) -> Self {
        Self { streams: Rc::default(), metrics: Rc::new(metrics) }
    }

    /// A body in this encoding, if there is room for it.
    pub fn stream(&self, encoding: Encoding, is_event_stream: bool) -> Option<Stream> {
        if self.streams.get() >= MAX_STREAMS {
            self.metrics.busy();
            return None;
        }
        self.streams.set(self.streams.get() + 1);
        self.metrics.compressed(encoding.as_str());
        let compressor = Compressor::new(encoding, is_event_stream);
        Some(Stream { compressor, streams: Rc::clone(&self.streams) })
    }
}
