//! The life of a request whose policies need its body, from the moment at which that is known: the
//! body is read, and then all policies judge the request.
//!
//! The body is held while it is read, and forwarded afterwards, byte for byte and in its framing.
//! It is held up to the bound of its route, and up to the bound of the process for all bodies
//! together. A body that cannot be read for a reason of the gateway's bounds is refused, unless
//! all policies that need it are in shadow mode: then it has no values.

use std::rc::Rc;
use std::sync::Arc;

use http::header::EXPECT;
use http::request::Parts;
use http::{HeaderMap, Response};
use http_body::Body as _;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::timeout;
use tollgate_core::decision::LimitFields;
use tollgate_core::policy::{BodyContent, BodyReading, Mode};
use tollgate_core::request::ContentFault;
use tollgate_core::time::monotonic;

use super::body::ResponseBody;
use super::exchange::Exchange;
use super::{Client, Gateway};
use crate::engine::Again;
use crate::message::{
    Coding, Decoded, Decoder, Failure, Over, ReadBodySettings, recycle, wants_websocket,
};
use crate::proxy::BodyReader;
use crate::server::{BodyMemory, ClientBody, HeldBody, MemoryPart, NoMemory};
use crate::snapshot::Handling;

/// Bytes that are searched without a pause for other requests of the worker.
const TURN_BYTES: usize = 256 * 1024;
/// Bytes that are decompressed at once.
const PIECE_BYTES: usize = 16 * 1024;

/// What the bodies take that one worker reads.
#[derive(Clone, Debug)]
pub struct BodyRoom {
    memory: Arc<BodyMemory>,
    /// One body is decompressed at a time, because each decoder has memory of its own.
    decoding: Rc<Semaphore>,
}

impl BodyRoom {
    /// Takes memory beside other workers.
    pub fn new(memory: Arc<BodyMemory>) -> Self {
        Self { memory, decoding: Rc::new(Semaphore::new(1)) }
    }
}

/// A body with its values, and what is forwarded of it.
type Read = (BodyContent, ClientBody);

/// Why a body has no values.
pub enum Unread {
    /// The request is refused in any case.
    Failed(Failure),
    /// The gateway does not read the body, and can forward it.
    Beyond(Failure, ClientBody),
}

impl From<Failure> for Unread {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Gateway {
    /// The rest of the life of a request whose policies need its body. Its access lists allow it, and it has the credentials that the route demands.
    pub async fn read_first(
        self: Rc<Self>,
        again: Again,
        client: Rc<Client>,
        mut head: Parts,
        body: ClientBody,
        mut exchange: Exchange,
    ) -> Response<ResponseBody> {
        let route = again.route;
        exchange.selected(route);
        let begun = monotonic();
        let read = self.read_in_time(route, &client, &mut head, body).await;
        let waited = exchange.waited();
        waited.set(waited.get() + monotonic().duration_since(begun));
        let (content, body) = match read {
            Ok(read) => read,
            Err(failure) => {
                exchange.allow_origin(&head.headers);
                recycle(head.headers);
                return exchange.end(Err(failure), LimitFields::default());
            }
        };
        exchange.has_read(content);
        // It counts when it is decided, which may be long after it has begun.
        let moment = self.engine.clock().moment();
        let mut judged =
            self.judge_on(again, &client, &head, true, exchange.values(), moment).await;
        self.carry_out(&client, &mut judged, (head, body), exchange).await
    }

    /// Reads a body within the time that the route allows for a request.
    async fn read_in_time(
        &self,
        route: usize,
        client: &Client,
        head: &mut Parts,
        body: ClientBody,
    ) -> Result<Read, Failure> {
        let handling = &self.snapshot.routes[route];
        let Some(settings) = handling.read_body.as_deref() else {
            return Ok((BodyContent::default(), body));
        };
        match self.read_within(settings, handling, client, head, body).await {
            Ok(read) => Ok(read),
            Err(Unread::Failed(failure)) => Err(failure),
            Err(Unread::Beyond(failure, body)) => {
                let is_missing = failure == Failure::BodyTooLarge && settings.over == Over::Missing;
                match is_missing || !self.demands_body(route) {
                    true => Ok((settings.words.all(Ok(None)).into(), body)),
                    false => Err(failure),
                }
            }
        }
    }

    /// Reads a body within the time that the route allows for a request, and searches it.
    pub async fn read_within(
        &self,
        settings: &ReadBodySettings,
        handling: &Handling,
        client: &Client,
        head: &mut Parts,
        body: ClientBody,
    ) -> Result<Read, Unread> {
        let reading = self.read(settings, handling.max_body_bytes, client, head, body);
        match handling.timeouts.request {
            None => reading.await,
            Some(limit) => timeout(limit, reading)
                .await
                .unwrap_or(Err(Unread::Failed(Failure::RequestTimeout))),
        }
    }

    /// Whether a policy that needs the body refuses requests.
    fn demands_body(&self, route: usize) -> bool {
        let mut policies = self.snapshot.rules.route(route).policies.iter();
        policies.any(|policy| policy.mode == Mode::Enforce && policy.needs_body())
    }

    /// Reads a body, and searches it.
    async fn read(
        &self,
        settings: &ReadBodySettings,
        max_bytes: Option<u64>,
        client: &Client,
        head: &mut Parts,
        body: ClientBody,
    ) -> Result<Read, Unread> {
        let reading = match settings.words.begin(&head.headers) {
            // A tunnel and a call of gRPC have no body of this kind.
            Ok(reading) if !wants_websocket(head) => reading,
            Ok(_) => return Ok((settings.words.all(Ok(None)).into(), body)),
            Err(values) => return Ok((values.into(), body)),
        };
        let Ok(coding) = Coding::of(&head.headers) else {
            return Err(Unread::Beyond(Failure::BodyCoding, body));
        };
        let hint = body.size_hint();
        if hint.lower() > settings.max {
            return Err(Unread::Beyond(Failure::BodyTooLarge, body));
        }
        // The client is told to continue when its body is read, so the upstream need not be asked.
        head.headers.remove(EXPECT);
        let mut reader = BodyReader::new(body, max_bytes, client.demand, &self.filters.requests)?;
        let mut held = HeldBody::new(Arc::clone(&self.bodies.memory), &hint);
        let kept = hold(&mut reader, &mut held, settings.max).await?;
        let found = match kept {
            Ok(()) if held.bytes() == 0 => Ok(settings.words.in_nothing().into()),
            Ok(()) => self.search(reading, coding, &mut held, settings, &head.headers).await,
            Err(failure) => Err(failure),
        };
        let body = reader.into_rest().beginning_with(held);
        match found {
            Ok(content) => Ok((content, body)),
            Err(failure) => Err(Unread::Beyond(failure, body)),
        }
    }

    /// Searches a body in this coding.
    async fn search(
        &self,
        reading: BodyReading<'_>,
        coding: Coding,
        held: &mut HeldBody,
        settings: &ReadBodySettings,
        headers: &HeaderMap,
    ) -> Result<BodyContent, Failure> {
        let memory = &self.bodies.memory;
        let mut search =
            Search { reading, memory, copies: Vec::new(), left: settings.max, in_turn: 0 };
        if coding == Coding::Identity {
            for block in held.blocks() {
                search.add(block).await?;
            }
            return Ok(search.reading.end_all(headers));
        }
        let _turn = self.bodies.decoding.acquire().await.ok();
        let broken = || Ok(settings.words.all(Err(ContentFault::Compression)).into());
        // The blocks are shared, and not copied.
        let blocks = held.blocks().cloned();
        let Ok(mut decoder) = Decoder::new(coding, blocks) else { return broken() };
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match decoder.read(&mut piece) {
                Ok(Decoded::Bytes(read)) => search.add(&piece[..read]).await?,
                Ok(Decoded::NoneYet) => yield_now().await,
                Ok(Decoded::End) => return Ok(search.reading.end_all(headers)),
                Err(_) => return broken(),
            }
        }
    }
}

/// The search of one body.
struct Search<'w> {
    reading: BodyReading<'w>,
    memory: &'w Arc<BodyMemory>,
    /// The memory for what the reading keeps.
    copies: Vec<MemoryPart>,
    /// The bytes that may follow.
    left: u64,
    /// The bytes that were searched without a pause.
    in_turn: usize,
}

impl Search<'_> {
    /// Searches the next piece of the body, which is at most a block.
    ///
    /// # Errors
    /// If the body is larger than it may be, or there is no memory for it.
    async fn add(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let bytes = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        self.left = self.left.checked_sub(bytes).ok_or(Failure::BodyTooLarge)?;
        if self.reading.keeps_bytes() {
            self.copies.push(self.memory.take(piece.len()).ok_or(Failure::BodyMemory)?);
        }
        self.reading.read(piece);
        self.in_turn += piece.len();
        if self.in_turn >= TURN_BYTES {
            self.in_turn = 0;
            yield_now().await;
        }
        Ok(())
    }
}

/// Reads a body to its end and holds it. The inner error says that it is too large, or that there
/// is no memory for it: its beginning is held.
///
/// # Errors
/// If the body cannot be read to its end.
async fn hold(
    reader: &mut BodyReader,
    held: &mut HeldBody,
    max: u64,
) -> Result<Result<(), Failure>, Failure> {
    while let Some(frame) = reader.next().await {
        match frame?.into_data() {
            Ok(data) => {
                let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
                if held.bytes().saturating_add(bytes) > max {
                    held.push_last(data);
                    return Ok(Err(Failure::BodyTooLarge));
                }
                if let Err(NoMemory) = held.push(&data) {
                    held.push_last(data);
                    return Ok(Err(Failure::BodyMemory));
                }
            }
            Err(last) => {
                if let Ok(trailers) = last.into_trailers() {
                    held.end_with(trailers);
                }
            }
        }
    }
    Ok(Ok(()))
}
