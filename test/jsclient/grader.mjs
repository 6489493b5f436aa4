// A grader that is not ours. It does what docs/PROTOCOL.md says, with the code shown there: it awaits one job
// at its reply subject, streams a second, cancels a third, and prints one JSON line about each step. All it needs is a grader's rights.
//
// Usage: node grader.mjs MODEL

import { createHash, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { connect, deferred, headers, nkeyAuthenticator } from "@nats-io/transport-node";

// Any name as one subject token.
const token = (name) => Array.from(new TextEncoder().encode(name), (byte) => {
  const c = String.fromCharCode(byte);
  if (/[A-Za-z0-9_:-]/.test(c)) return c;
  return { ".": "~", "/": "+" }[c] ?? "=" + byte.toString(16).toUpperCase().padStart(2, "0");
}).join("");

// Batch jobs wait in the lane of their user, so that users share the machines.
const lane = (job) => createHash("sha256").update(job.user).digest()[0] % 8;
const place = (job) => job.class === "batch" && lane(job) > 0 ? `batch-${lane(job)}` : job.class;

const intake = (job) => `jobs.prefill.${token(job.model)}.${place(job)}.${token(job.user)}.${job.id}`;
const reply = (job) => `results.${token(job.user)}.${token(job.batch)}.${job.id}`;
const tokens = (job) => `tokens.${token(job.user)}.${token(job.batch)}.${job.id}`;

const user = process.env.TANDEM_USER ?? "js-grader";
const options = { servers: process.env.TANDEM_NATS ?? "nats://127.0.0.1:4222", inboxPrefix: `_INBOX.${token(user)}` };
if (process.env.TANDEM_TLS_CA) options.tls = { caFile: process.env.TANDEM_TLS_CA };
if (process.env.TANDEM_NKEY) { // a file with a line that begins with SU, the key
  const seed = readFileSync(process.env.TANDEM_NKEY, "utf8").match(/^SU\w+/m)[0];
  options.authenticator = nkeyAuthenticator(new TextEncoder().encode(seed));
}
const nc = await connect(options);

const newJob = (fields) => ({
  v: 1, id: randomUUID(), user, batch: "single", class: "interactive",
  submitted_at: new Date().toISOString(), ...fields,
});

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function submit(job) {
  const h = headers();
  h.set("Nats-Msg-Id", `${token(job.user)}.${job.id}.prefill`);
  h.set("Nats-Expected-Stream", "INTAKE");
  const answer = (await nc.request(intake(job), JSON.stringify(job), { headers: h, timeout: 5000 })).json();
  if (answer.error) throw new Error(`${answer.error.err_code}: ${answer.error.description}`);
  return answer;
}

// The result of a job as it is kept; null if it has none yet. An account of graders has another name for this than one with JetStream.
async function stored(job) {
  for (const subject of [reply(job).replace("results.", "result."), `$JS.API.DIRECT.GET.RESULTS.${reply(job)}`]) {
    try {
      const msg = await nc.request(subject, "", { timeout: 5000 });
      return msg.headers?.code === 404 ? null : msg.json();
    } catch (err) {
      if (!err.isNoResponders?.()) throw err;
    }
  }
  throw new Error("nobody keeps results: no worker was ever started");
}

// Listens for the result of a job; do so before it is submitted. What is heard is a hint: the result is the one that is kept.
function listen(job) {
  let changed = deferred();
  const sub = nc.subscribe(reply(job), { callback: () => changed.resolve() });
  return {
    close: () => sub.unsubscribe(),
    result: async (seconds) => {
      for (const end = Date.now() + 1000 * seconds; Date.now() < end; changed = deferred()) {
        const result = await stored(job);
        if (result) return result;
        // The server may hear of it a moment before it is kept, and nobody may hear of it while the connection is lost.
        await Promise.race([changed, sleep(Math.min(1000, end - Date.now()))]);
        await sleep(5);
      }
      return stored(job);
    },
  };
}

async function awaitResult(job, seconds) {
  const listening = listen(job);
  try {
    return await listening.result(seconds);
  } finally {
    listening.close();
  }
}

// Has a worker do something about jobs of ours; null if none is alive.
async function control(verb, request) {
  try {
    const msg = await nc.request(`control.${verb}.${token(user)}`, JSON.stringify(request), { timeout: 20_000 });
    if (msg.headers?.has("Nats-Service-Error")) throw new Error(msg.json().message);
    return msg.json();
  } catch (err) {
    if (err.isNoResponders?.()) return null;
    throw err;
  }
}

// What to tell whoever waited in vain. The job lives on.
async function whyNoResult(job) {
  const { workers } = await control("inspect", {}) ?? { workers: [] };
  const decodes = workers.some((w) => w.role === "decode" && w.model === job.model && (w.state === "ready" || w.state === "loading"));
  return decodes ? "Timed out; the job lives on" : "Decode server unavailable - request failed";
}

// Submits the job and hands each piece of text to write while the result is on its way.
async function stream(job, seconds, write) {
  const sub = nc.subscribe(tokens(job), { callback: (err, msg) => { if (!err) write(msg.json()); } });
  await nc.flush();
  await submit({ ...job, stream: true });
  const result = await awaitResult(job, seconds);
  sub.unsubscribe();
  return result;
}

// Cancels a job and reports what it was: queued, running, finished, or kept.
async function cancel(job) {
  const answer = await control("cancel", { jobs: [job.id] });
  if (answer) return answer.jobs[0].was;
  await nc.request(`kept.${token(user)}.job.${job.id}`, "", { timeout: 5000 }); // for the first worker that comes
  return "kept";
}

// The run.

const model = process.argv[2];
const waitSeconds = 60;
const say = (step, line) => console.log(JSON.stringify({ step, ...line }));
const outcome = (r) => r && { status: r.status, method: r.method, text: r.text, error: r.error };

{
  const job = newJob({ model, prompt: "Is `x <- 1` good R?", options: { num_predict: 8, temperature: 0 } });
  await submit(job);
  const again = await submit(job); // as after a lost answer: it is still one job
  const result = await awaitResult(job, waitSeconds);
  say("await", { job: job.id, result: outcome(result) ?? await whyNoResult(job), again: again.duplicate === true });
}

{
  const job = newJob({ model, prompt: "Write a loop in R.", options: { num_predict: 8, temperature: 0 } });
  let text = "", attempt = 0, done = false, chunks = 0;
  const result = await stream(job, waitSeconds, (chunk) => {
    if (chunk.attempt > attempt) [text, attempt] = ["", chunk.attempt]; // the job is run again
    text += chunk.text ?? "";
    done ||= chunk.done === true;
    chunks++;
  });
  say("stream", { job: job.id, result: outcome(result) ?? await whyNoResult(job), text, chunks, done });
}

{
  // Cancelled while its text is being generated, so that there is an engine to stop.
  const job = newJob({ model, prompt: "Count to a million.", options: { num_predict: 4000 }, class: "batch", stream: true });
  const begun = deferred();
  let chunks = 0;
  const sub = nc.subscribe(tokens(job), { callback: (_, msg) => { if (!msg.json().done) chunks++; begun.resolve(); } });
  await nc.flush();
  await submit(job);
  await begun;
  const cancelled = await cancel(job);
  const before = chunks;
  const again = await cancel(job);
  const result = await awaitResult(job, waitSeconds);
  await nc.flush();
  sub.unsubscribe();
  say("cancel", { job: job.id, cancelled: cancelled === "running", again: again !== "finished", result: outcome(result), late_chunks: chunks - before });
}

{
  // A model that nobody serves: the job waits, nobody decodes it, and it can be taken back. Where there are rights, none are for that model.
  const job = newJob({ model: "nobody/serves-this:latest", prompt: "Hello?" });
  const accepted = await submit(job).catch((err) => { if (!err.isNoResponders?.()) throw err; });
  if (!accepted) say("timeout", { job: job.id, refused: true });
  else say("timeout", { job: job.id, result: await awaitResult(job, 1), message: await whyNoResult(job), cancelled: await cancel(job) === "queued" });
}

await nc.close();
