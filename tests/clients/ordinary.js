// An ordinary page: it sets cookies, reads a file of its own origin, and posts to
// another origin, to which the browser sends a preflight first. Then it shows the
// result.
document.cookie = "sid=s%3AabcDEF.%2BhZk; path=/";
document.cookie = "_ga=GA1.2.1234567890.1700000000; path=/";
document.cookie = 'prefs={"theme":"dark"}; path=/';

async function run() {
  const other = location.origin.replace("localhost", "127.0.0.1");
  const answers = [
    await fetch("style.css?key=k-1&tag=a&tag=b", { cache: "no-store" }),
    await fetch(`${other}/node/cors`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Api-Key": "k-1" },
      body: JSON.stringify({ name: "Jörg" }),
    }),
    await fetch(`${other}/node/cors?q=caf%C3%A9`, { method: "PUT", body: new FormData() }),
  ];
  return answers.map((answer) => answer.status).join(" ");
}

addEventListener("load", async () => {
  const said = document.getElementById("said");
  const loaded = getComputedStyle(said).color === "rgb(1, 2, 3)" && document.images[0].naturalWidth > 0;
  said.textContent = `page: ${loaded}, fetched: ${await run().catch(String)}`;
});
