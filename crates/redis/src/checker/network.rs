//! The network between nodes and servers: what is on its way, and what becomes
//! of it. It keeps the order of a connection's messages, as TCP does; a message
//! that is lost takes with it all that follow on its connection.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::ReadBuf;
use tokio::select;
use tokio::sync::Notify;
use tokio::time::{sleep, sleep_until};

use super::wire::{self, Command, Pipe};
use super::world::World;

/// What is between one node and one server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Way {
    /// Messages to the server, or from it, are lost from now on.
    pub(super) loses_questions: bool,
    pub(super) loses_answers: bool,
    /// Each message takes so many milliseconds more.
    pub(super) slower_ms: u64,
    /// One of so many messages takes up to twice `spike_ms` more.
    pub(super) spike_one_in: u64,
    pub(super) spike_ms: u64,
    /// One of so many messages ends its connection.
    pub(super) reset_one_in: u64,
}

#[derive(Default)]
struct Connection {
    node: usize,
    server: usize,
    /// Written by the node and no whole command yet.
    written: Vec<u8>,
    /// Arrived at the node and not read.
    arrived: Vec<u8>,
    reader: Option<Waker>,
    is_closed: bool,
    /// A message was lost: nothing passes any more.
    is_silent: bool,
    last_there_us: u64,
    last_back_us: u64,
    /// `ASKING` came before.
    pub(super) is_asking: bool,
}

enum Message {
    Question(Vec<Command>),
    Answer(Vec<u8>, Vec<usize>),
    Reset,
}

/// All connections, and all that is on its way.
#[derive(Default)]
pub(super) struct Network {
    connections: RefCell<Vec<Connection>>,
    order: RefCell<BinaryHeap<Reverse<(u64, usize)>>>,
    messages: RefCell<Vec<Option<(usize, Message)>>>,
    ways: RefCell<BTreeMap<(usize, usize), Way>>,
    /// Nodes that have crashed.
    dead: RefCell<Vec<usize>>,
    changed: Notify,
    pub(super) resets: Cell<u64>,
}

impl Network {
    pub(super) fn way(&self, node: usize, server: usize) -> Way {
        self.ways.borrow().get(&(node, server)).copied().unwrap_or_default()
    }

    pub(super) fn set_way(&self, node: usize, server: usize, way: Way) {
        self.ways.borrow_mut().insert((node, server), way);
    }

    /// All nodes and servers are near each other again.
    pub(super) fn heal(&self) {
        self.ways.borrow_mut().clear();
    }

    /// A node is gone: nothing comes from it or reaches it.
    pub(super) fn kill(&self, node: usize) {
        self.dead.borrow_mut().push(node);
        for connection in self.connections.borrow_mut().iter_mut() {
            if connection.node == node {
                connection.is_silent = true;
            }
        }
    }

    /// All connections of a server end.
    pub(super) fn reset_all(&self, server: usize) {
        for connection in self.connections.borrow_mut().iter_mut() {
            if connection.server == server {
                connection.close();
            }
        }
    }

    /// A new connection, when the server has accepted it.
    pub(super) async fn connect(
        &self,
        world: &Rc<World>,
        node: usize,
        server: usize,
    ) -> io::Result<Pipe> {
        sleep(std::time::Duration::from_millis(world.draw_ms(0..=2))).await;
        let way = self.way(node, server);
        let is_dead = self.dead.borrow().contains(&node);
        if is_dead || way.loses_questions || way.loses_answers {
            std::future::pending::<()>().await;
        }
        if !world.servers.is_running(server) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let mut connections = self.connections.borrow_mut();
        connections.push(Connection { node, server, ..Connection::default() });
        Ok(Pipe(connections.len() - 1))
    }

    pub(super) fn hang_up(&self, number: usize) {
        if let Ok(mut connections) = self.connections.try_borrow_mut() {
            connections[number].is_closed = true;
        }
    }

    pub(super) fn read(
        &self,
        number: usize,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let connection = &mut self.connections.borrow_mut()[number];
        if connection.arrived.is_empty() {
            if connection.is_closed {
                return Poll::Ready(Ok(()));
            }
            connection.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = connection.arrived.len().min(to.remaining());
        to.put_slice(&connection.arrived[..count]);
        connection.arrived.drain(..count);
        Poll::Ready(Ok(()))
    }

    pub(super) fn write(&self, world: &Rc<World>, number: usize, bytes: &[u8]) -> io::Result<()> {
        let (commands, node, server, is_silent) = {
            let connection = &mut self.connections.borrow_mut()[number];
            if connection.is_closed {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            connection.written.extend_from_slice(bytes);
            let commands = wire::commands(&mut connection.written);
            (commands, connection.node, connection.server, connection.is_silent)
        };
        if commands.is_empty() {
            return Ok(());
        }
        if is_silent {
            return Ok(());
        }
        let delay_ms = self.delay(world, node, server);
        let mut at_us = world.now_us() + delay_ms * 1000;
        let last_us = &mut self.connections.borrow_mut()[number].last_there_us;
        at_us = at_us.max(*last_us);
        *last_us = at_us;
        let message = match self.breaks(world, node, server) {
            true => Message::Reset,
            false => Message::Question(commands),
        };
        self.send(at_us, number, message);
        Ok(())
    }

    fn delay(&self, world: &World, node: usize, server: usize) -> u64 {
        let way = self.way(node, server);
        let mut random = world.random.borrow_mut();
        let mut delay_ms = random.u64(0..=1) + way.slower_ms;
        if way.spike_one_in > 0 && random.u64(0..way.spike_one_in) == 0 {
            delay_ms += random.u64(0..=2 * way.spike_ms);
        }
        delay_ms
    }

    fn breaks(&self, world: &World, node: usize, server: usize) -> bool {
        let one_in = self.way(node, server).reset_one_in;
        one_in > 0 && world.random.borrow_mut().u64(0..one_in) == 0
    }

    fn send(&self, at_us: u64, connection: usize, message: Message) {
        let place = self.messages.borrow().len();
        self.messages.borrow_mut().push(None);
        self.put(at_us, place, connection, message);
    }

    /// A message that is sent once keeps its place among those that arrive at that time.
    fn put(&self, at_us: u64, place: usize, connection: usize, message: Message) {
        self.messages.borrow_mut()[place] = Some((connection, message));
        self.order.borrow_mut().push(Reverse((at_us, place)));
        self.changed.notify_one();
    }

    /// Lets everything arrive when it is due, for ever.
    pub(super) async fn carry(&self, world: Rc<World>) {
        loop {
            let next = self.order.borrow().peek().map(|&Reverse((at_us, _))| at_us);
            match next {
                Some(at_us) if at_us <= world.now_us() => {
                    let Some(Reverse((_, number))) = self.order.borrow_mut().pop() else {
                        continue;
                    };
                    let message = self.messages.borrow_mut()[number].take();
                    if let Some((connection, message)) = message {
                        self.arrive(&world, at_us, number, connection, message);
                    }
                }
                Some(at_us) => select! {
                    biased;
                    () = sleep_until(world.moment(at_us)) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    fn arrive(&self, world: &Rc<World>, at_us: u64, place: usize, number: usize, message: Message) {
        let (node, server) = {
            let mut connections = self.connections.borrow_mut();
            let connection = &mut connections[number];
            if connection.is_closed || connection.is_silent {
                return;
            }
            let way = self.way(connection.node, connection.server);
            let is_lost = match message {
                Message::Question(_) => way.loses_questions,
                Message::Answer(..) => way.loses_answers,
                Message::Reset => false,
            };
            if is_lost {
                connection.is_silent = true;
                let node = connection.node;
                let server = connection.server;
                world.tell(|| format!("a message between node {node} and server {server} is lost"));
                return;
            }
            (connection.node, connection.server)
        };
        match message {
            Message::Question(commands) => match world.servers.wakes_at(server) {
                Some(wakes_us) if wakes_us > at_us => {
                    self.put(wakes_us, place, number, Message::Question(commands));
                }
                _ => self.asked(world, number, node, server, &commands),
            },
            Message::Answer(bytes, questions) => {
                world.journal.borrow_mut().heard(node, &questions, world.now_us());
                let mut connections = self.connections.borrow_mut();
                connections[number].arrived.extend_from_slice(&bytes);
                connections[number].wake();
            }
            Message::Reset => {
                world.tell(|| format!("the connection of node {node} to server {server} breaks"));
                self.resets.set(self.resets.get() + 1);
                self.connections.borrow_mut()[number].close();
            }
        }
    }

    /// The server answers at once; the answer takes its time.
    fn asked(
        &self,
        world: &Rc<World>,
        number: usize,
        node: usize,
        server: usize,
        commands: &[Command],
    ) {
        let mut is_asking = self.connections.borrow()[number].is_asking;
        let mut bytes = Vec::new();
        let mut questions = Vec::new();
        for command in commands {
            let reply = world.servers.answer(world, node, server, command, &mut is_asking);
            questions.extend(reply.questions);
            reply.reply.write(&mut bytes);
        }
        let delay_ms = self.delay(world, node, server);
        let breaks = self.breaks(world, node, server);
        let at_us = {
            let connection = &mut self.connections.borrow_mut()[number];
            connection.is_asking = is_asking;
            let at_us = (world.now_us() + delay_ms * 1000).max(connection.last_back_us);
            connection.last_back_us = at_us;
            at_us
        };
        let message = if breaks { Message::Reset } else { Message::Answer(bytes, questions) };
        self.send(at_us, number, message);
    }
}

impl Connection {
    fn close(&mut self) {
        self.is_closed = true;
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}
