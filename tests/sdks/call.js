// Makes two calls by a client library for Node: call.js FORM PORT. Prints the class of the error of
// the second call and its code, or null if it succeeds.

const [form, port] = process.argv.slice(2);
const url = `http://127.0.0.1:${port}`;
const messages = [{ role: "user", content: "Hi" }];

async function calls() {
  if (form === "openai") {
    const { OpenAI } = require("openai");
    const client = new OpenAI({ apiKey: "k", baseURL: `${url}/v1` });
    return () => client.chat.completions.create({ model: "m", messages });
  }
  if (form === "anthropic") {
    const { Anthropic } = require("@anthropic-ai/sdk");
    const client = new Anthropic({ apiKey: "k", baseURL: url });
    return () => client.messages.create({ model: "m", max_tokens: 9, messages });
  }
  const { GoogleGenAI } = require("@google/genai");
  const client = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: url } });
  return () => client.models.generateContent({ model: "m", contents: "Hi" });
}

async function main() {
  const call = await calls();
  try {
    await call();
    await call();
    return null;
  } catch (error) {
    const code = { openai: error.code, anthropic: error.error?.error?.type, gemini: null }[form];
    return [error.constructor.name, code ?? null];
  }
}

main().then((result) => console.log(JSON.stringify(result)));
