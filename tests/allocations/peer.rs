//! A client and a backend that do the same for each request, on one connection each.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

const BODY: [u8; 1024] = [b'x'; 1024];

const REQUEST: &[u8] = b"GET /orders/1234?expand=items HTTP/1.1\r\n\
    Host: gateway.test\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: application/json\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate\r\n\
    X-Api-Key: key-of-the-one-client\r\n\r\n";

/// Answers every request with a kilobyte.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
}

impl Backend {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || serve(stream));
            }
        });
        Self { address }
    }
}

/// Each answer is one write, so that the gateway reads it at once.
fn serve(mut stream: TcpStream) {
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        BODY.len()
    )
    .into_bytes();
    answer.extend(BODY);
    let requests = BufReader::new(stream.try_clone().expect("a socket can be copied"));
    for line in requests.lines().map_while(Result::ok) {
        if line.is_empty() && stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// A connection to the gateway that sends one request at a time.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the gateway listens");
        stream.set_nodelay(true).expect("a socket has this option");
        Self { stream: BufReader::new(stream) }
    }

    /// Sends a request and reads its answer: the status.
    pub(crate) fn ask(&mut self) -> u16 {
        self.stream.get_mut().write_all(REQUEST).expect("the gateway reads");
        let mut head = Vec::new();
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("the gateway answers");
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            head.push(line);
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("the gateway sends the body");
        let status = head.first().and_then(|line| line.split(' ').nth(1)).expect("a status");
        status.parse().expect("a number")
    }

    /// Sends as many requests; each answer must have this status.
    pub(crate) fn ask_often(&mut self, times: u32, status: u16) {
        for _ in 0..times {
            assert_eq!(self.ask(), status);
        }
    }
}
