//! A response as it was received.

use std::io::{self, BufRead};

/// A response as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// In the order in which they were received, with names as they were written.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// How the body was framed: `length`, `chunked`, `close` or `none`.
    pub(crate) framing: &'static str,
}

impl Response {
    /// Reads the head of the next response; `None` if the connection has ended.
    pub(crate) fn read_head(stream: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| bad(format!("not a status line: {line:?}")))?;
        let mut response = Self { status, fields: Vec::new(), body: Vec::new(), framing: "none" };
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                assert_eq!(line, "\r\n", "a field has a colon");
                return Ok(Some(response));
            };
            response.fields.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    /// Reads the whole next response to a request of `method`.
    pub(crate) fn read(stream: &mut impl BufRead, method: &str) -> io::Result<Option<Self>> {
        let Some(mut response) = Self::read_head(stream)? else {
            return Ok(None);
        };
        let bodiless = method == "HEAD" || matches!(response.status, 100..200 | 204 | 304);
        if bodiless {
            return Ok(Some(response));
        }
        if response.field("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
            response.framing = "chunked";
            while let Some(chunk) = read_chunk(stream)? {
                response.body.extend(chunk);
            }
        } else if let Some(length) = response.field("content-length") {
            let length = length.parse().map_err(bad)?;
            response.framing = "length";
            response.body.resize(length, 0);
            stream.read_exact(&mut response.body)?;
        } else {
            response.framing = "close";
            stream.read_to_end(&mut response.body)?;
        }
        Ok(Some(response))
    }

    /// The value of the first field with this name, in any case.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// The value of a field that must exist and be a number.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let value = self.field(name);
        let number = value.and_then(|value| value.parse().ok());
        number.unwrap_or_else(|| panic!("{name} is {value:?} in {self:#?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }
}

/// The next chunk of a chunked body; `None` at its end, trailers skipped.
pub(crate) fn read_chunk(stream: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let size = usize::from_str_radix(line.trim_end(), 16).map_err(bad)?;
    if size == 0 {
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Err(bad("the body has no end"));
            }
        }
        return Ok(None);
    }
    let mut chunk = vec![0; size + 2];
    stream.read_exact(&mut chunk)?;
    chunk.truncate(size);
    Ok(Some(chunk))
}

fn bad(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
