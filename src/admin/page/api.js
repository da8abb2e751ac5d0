// Calls of the admin API, and the token.

const KEPT = "tollgate-token";
// `tollgate run` prints a link with a token at a terminal. The address loses it at once, so that it is in
// no history and no picture of the screen. It is kept in memory alone.
const linked = /^#token=([!-~]+)$/.exec(location.hash)?.[1];
if (linked) history.replaceState(null, "", location.pathname);
let token = linked ?? sessionStorage.getItem(KEPT);

export const hasToken = () => token !== null;

export function setToken(value, keep) {
 token = value;
 if (value !== null && keep) sessionStorage.setItem(KEPT, value);
 else sessionStorage.removeItem(KEPT);
}

/** No call of the API but a reload takes longer. */
const LONGEST_MS = 10000;
/** The stream of events has one each second. */
const SILENCE_MS = 5000;

async function ask(path, options = {}) {
 // A wrong token would count against this address.
 if (token === null) throw new Error("the page has no token");
 const headers = { ...options.headers, Authorization: `Bearer ${token}` };
 const request = fetch(path, { ...options, headers, credentials: "omit", redirect: "error" });
 const response = await request.catch((fault) => {
  // The texts of browsers about this differ, and say no more.
  throw fault.name === "AbortError" ? fault : new Error("the node cannot be reached");
 });
 if (response.ok) return response;
 const problem = await response.json().catch(() => ({}));
 const { text, mistakes } = said(problem, response.status);
 throw Object.assign(new Error(text), { status: response.status, mistakes });
}

/** What a problem (RFC 9457) says, once: its detail may be the first of its mistakes. */
function said(problem, status) {
 const mistakes = problem.errors ?? [];
 const detail = problem.detail ?? `the node answers ${status}`;
 if (status === 403) return { text: `This token may not do that: ${detail}`, mistakes };
 if (status === 412) return { text: "It was changed in the meantime: look again, then repeat.", mistakes };
 if (mistakes[0]?.message !== detail) return { text: detail, mistakes };
 return { text: "", mistakes };
}

/** The response to a call that changes nothing, in its time. A node that hangs does not answer at all. */
const look = (path) => ask(path, { signal: AbortSignal.timeout(LONGEST_MS) });

export const get = async (path) => (await look(path)).json();

export async function getTagged(path) {
 const response = await look(path);
 return { body: await response.json(), tag: response.headers.get("ETag") };
}

export async function send(method, path, body, tag) {
 const headers = body === undefined ? {} : { "Content-Type": "application/json" };
 if (tag) headers["If-Match"] = tag;
 const response = await ask(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
 return response.json();
}

/** Reads events until the stream ends, or nothing comes. `on(name, data)` is called for each. */
export async function events(topics, signal, on) {
 const silent = new AbortController();
 let timer;
 const heard = () => {
  clearTimeout(timer);
  timer = setTimeout(() => silent.abort(), SILENCE_MS);
 };
 heard();
 try {
  await read(topics, AbortSignal.any([signal, silent.signal]), on, heard);
 } catch (fault) {
  throw silent.signal.aborted ? new Error("the node does not answer") : fault;
 } finally {
  clearTimeout(timer);
 }
}

async function read(topics, signal, on, heard) {
 const response = await ask(`/v1/events?topics=${topics}`, { signal });
 const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
 let text = "";
 for (;;) {
  const { value, done } = await reader.read();
  if (done) return;
  heard();
  text += value;
  const parts = text.split("\n\n");
  text = parts.pop();
  for (const part of parts) {
   const lines = part.split("\n");
   const field = (name) => lines.find((it) => it.startsWith(`${name}: `))?.slice(name.length + 2);
   if (field("event")) on(field("event"), JSON.parse(field("data")));
  }
 }
}
