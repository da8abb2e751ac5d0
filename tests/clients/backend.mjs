// A backend in Node, on the port of its first argument. /count tells how many
// bytes came, /chunks answers in pieces of unknown length, /same is never modified,
// /cors may be asked by pages of any origin.
import http from "node:http";

const server = http.createServer(async (request, response) => {
  if (request.url.includes("/cors")) {
    response.setHeader("Access-Control-Allow-Origin", "*");
    response.setHeader("Access-Control-Allow-Methods", "*");
    response.setHeader("Access-Control-Allow-Headers", "content-type, x-api-key");
    request.resume().on("end", () => response.end("ok"));
  } else if (request.url.endsWith("/chunks")) {
    response.write("one,");
    setImmediate(() => response.end("two"));
  } else if (request.url.endsWith("/same")) {
    response.writeHead(304, { ETag: '"same"' }).end();
  } else {
    let count = 0;
    for await (const piece of request) count += piece.length;
    response.end(String(count));
  }
});
// Longer than any of the uploads takes.
server.requestTimeout = 0;
server.listen(Number(process.argv[2]), "127.0.0.1");
