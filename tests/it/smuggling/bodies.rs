//! Chunked bodies, and the bytes after a request.

use super::Case;

/// Chunks, extensions and trailers. The head of such a request may have arrived before;
/// its body never arrives.
pub(super) const CASES: &[Case] = &[
    Case::bad("no size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\r\n"),
    Case::bad("a size that is no number", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"),
    Case::bad("a size with a minus", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\na\r\n0\r\n\r\n"),
    Case::bad("a size with a plus", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n"),
    Case::bad("a size with a prefix", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n"),
    Case::bad("a size with a low line", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1_0\r\na\r\n0\r\n\r\n"),
    Case::bad("a size of two numbers", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1 1\r\na\r\n0\r\n\r\n"),
    Case::bad("a blank before a size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n 1\r\na\r\n0\r\n\r\n"),
    Case::bad("a blank behind a size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n"),
    Case::bad("a size beyond 64 bits", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000001\r\na\r\n0\r\n\r\n"),
    Case::bad("a size that ends in a line feed", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n"),
    Case::bad("a size that ends in a carriage return", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\ra\r\n0\r\n\r\n"),
    Case::bad("a size before a NUL", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\0\r\na\r\n0\r\n\r\n"),
    Case::bad("a chunk longer than its size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n"),
    Case::bad("a chunk shorter than its size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc\r\n0\r\n\r\n"),
    Case::bad("a chunk that ends in a line feed", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n"),
    Case::bad("a chunk without an end", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na0\r\n\r\n"),
    Case::bad("an extension with a line feed", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;a\nb\r\na\r\n0\r\n\r\n"),
    Case::bad("an extension with a carriage return", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;a\rb\r\na\r\n0\r\n\r\n"),
    Case::bad("an extension with a NUL", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;a\0b\r\na\r\n0\r\n\r\n"),
    Case::bad("an extension of the last chunk with a line feed", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0;\n\r\n\r\n"),
    Case::bad("an end in line feeds", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\n\n"),
    Case::bad("an end in a line feed", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\n"),
    Case::bad("a trailer without a colon", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-One\r\n\r\n"),
    Case::bad("a trailer with a blank before its colon", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-One : 1\r\n\r\n"),
    Case::bad("a folded trailer", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-One: 1\r\n 2\r\n\r\n"),
    Case::bad("a trailer with a line feed", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-One: 1\nGET / HTTP/1.1\r\n\r\n"),
    Case::bad("a trailer with a NUL", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-One: 1\x002\r\n\r\n"),
    Case::bad("a request instead of trailers", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case::good("extensions are not passed on", &["POST / hello"], b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b;c\" ;d\r\nhello\r\n0;e\r\n\r\n"),
    Case::good("sizes in all letters with zeros", &["POST / 0123456789hello"], b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0A\r\n0123456789\r\n05\r\nhello\r\n000\r\n\r\n"),
    Case::good("trailers that frame are not passed on", &["POST / hello"], b"POST / HTTP/1.1\r\nHost: a\r\nTrailer: Content-Length, Host, Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 1\r\nHost: b\r\nTransfer-Encoding: x\r\n\r\n"),
];

/// Several requests, and bytes after a request that are not one.
pub(super) const PIPELINES: &[Case] = &[
    Case::several("two requests", &[200, 200], &["GET /1", "GET /2"], b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case::several("a request behind a length", &[200, 200], &["POST /1 hello", "GET /2"], b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case::several("a request behind a length of nothing", &[200, 200], &["POST /1", "GET /2"], b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case::several("a request behind chunks", &[200, 200], &["POST /1 hello", "GET /2"], b"POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: 1\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case::several("a request behind line feeds", &[200, 200], &["GET /1", "GET /2"], b"GET /1 HTTP/1.1\nHost: a\n\nGET /2 HTTP/1.1\nHost: a\n\n"),
    Case::several("a request in a body", &[200], &["POST /1 GET /2 HTTP/1.1\r\n\r\n"], b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 19\r\n\r\nGET /2 HTTP/1.1\r\n\r\n"),
    Case::several("nothing but noise behind a request", &[200, 400], &["GET /1"], b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\x01\x02\x03\x04"),
    Case::several("a bad head behind a request", &[200, 400], &["GET /1"], b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost : a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case::several("a doubtful body behind a request", &[200, 400], &["GET /1"], b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case::several("bytes behind a length", &[200, 400], &["POST /1 hello"], b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello!!GET /2 HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case::several("a request behind one without a host", &[400], &[], b"GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case::several("a request behind a tunnel", &[405], &[], b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case::several("a request behind the last one", &[200], &["GET /1"], b"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case::several("a request behind one of HTTP/1.0", &[200], &["GET /1"], b"GET /1 HTTP/1.0\r\nHost: a\r\n\r\nGET /2 HTTP/1.0\r\nHost: a\r\n\r\n"),
    Case::several("a request behind an upgrade that is not made", &[200, 200], &["GET /1", "GET /2"], b"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case::several("frames behind an upgrade that is not made", &[200, 400], &["GET /1"], b"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nPRI \x01\x02\r\n\r\nSM\r\n\r\n"),
];
