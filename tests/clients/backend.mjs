// A backend in Node, on the port in its first argument. /count returns the number of
// received bytes, /chunks answers in pieces of unknown length, /same is never
// modified, and /cors admits pages of any origin.
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
// No limit, because the uploads take long.
server.requestTimeout = 0;
server.listen(Number(process.argv[2]), "127.0.0.1");
