// Calls a tool twice by a client library of the Model Context Protocol: tool.mjs sdk|client PORT.
// Prints what each call returns: whether it is an error and its text, or the error that was raised.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [library, port] = process.argv.slice(2);
// A module does not look into NODE_PATH by itself.
const require = createRequire(import.meta.url);
const load = (name) => import(pathToFileURL(require.resolve(name)));

async function parts() {
  if (library === "sdk") {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
    return { Client, StreamableHTTPClientTransport };
  }
  return load("@modelcontextprotocol/client");
}

const { Client, StreamableHTTPClientTransport } = await parts();
const client = new Client({ name: "c", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`)));
const outcomes = [];
for (let call = 0; call < 2; call++) {
  try {
    const result = await client.callTool({ name: "add", arguments: {} });
    outcomes.push([result.isError === true, result.content[0].text]);
  } catch (error) {
    outcomes.push([error.constructor.name, error.message]);
  }
}
await client.close();
console.log(JSON.stringify(outcomes));
