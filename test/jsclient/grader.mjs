// A grader that is not ours. It does what docs/PROTOCOL.md says, with the code shown there: it awaits one job
// at its reply subject, streams a second, cancels a third, and prints one JSON line about each step.
//
// Usage: node grader.mjs MODEL

import { createHash, randomUUID } from "node:crypto";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, createInbox, deferred, headers } from "@nats-io/transport-node";

const nc = await connect({ servers: process.env.TANDEM_NATS ?? "nats://127.0.0.1:4222" });
const js = jetstream(nc);
const jsm = await jetstreamManager(nc);

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

const newJob = (fields) => ({
  v: 1, id: randomUUID(), user: "js-grader", batch: "single", class: "interactive",
  submitted_at: new Date().toISOString(), ...fields,
});

async function submit(job, inbox) {
  const h = headers();
  if (inbox) h.set("Tandem-Reply-To", inbox);
  await js.publish(intake(job), JSON.stringify(job), {
    msgID: `${job.id}.prefill`, headers: h, expect: { streamName: "INTAKE" }, retries: 5,
  });
}

// The result of a job, whether it is there already or comes within the time; null if it does not.
async function awaitResult(job, seconds) {
  const consumer = await js.consumers.get("RESULTS", { filter_subjects: reply(job) });
  try {
    const msg = await consumer.next({ expires: seconds * 1000 });
    return msg?.json() ?? null;
  } finally {
    await consumer.delete();
  }
}

async function* presences(role, model) {
  const key = token(model).replace(/[:~+]/g, (c) => ({ ":": "=3A", "~": "=2E", "+": "=2F" })[c]);
  const found = await jsm.direct.getLastMessagesFor("KV_workers", { multi_last: [`$KV.workers.${role}.${key}.*`] });
  for await (const msg of found) {
    if (!msg.header.has("KV-Operation")) yield msg.json();
  }
}

// What to tell whoever waited in vain. The job lives on.
async function whyNoResult(job) {
  for await (const worker of presences("decode", job.model)) {
    if (worker.state === "ready" || worker.state === "loading") return "Timed out; the job lives on";
  }
  return "Decode server unavailable - request failed";
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

// Cancels a job and reports whether that was in time.
async function cancel(job) {
  const result = {
    v: 1, job_id: job.id, user: job.user, batch: job.batch, model: job.model, status: "cancelled", text: "",
    error: { code: "cancelled", message: "cancelled by the grader" }, finished_at: new Date().toISOString(),
  };
  try {
    await js.publish(reply(job), JSON.stringify(result), { expect: { lastSubjectSequence: 0 } });
  } catch (err) {
    if (err.code === 10071) return false; // there is a result: the job has ended
    throw err;
  }
  for (const stage of ["decode", "fallback"]) { // a hop under way comes too late: its Nats-Msg-Id is used up
    await js.publish(`jobs.${stage}.ended.${job.id}`, "", { msgID: `${job.id}.${stage}`, expect: { streamName: "RELAY" } });
  }
  await jsm.streams.purge("INTAKE", { filter: `jobs.prefill.*.*.*.${job.id}` });
  await jsm.streams.purge("RELAY", { filter: `jobs.*.*.*.${job.id}` });
  await jsm.streams.purge("RELAY", { filter: "jobs.*.ended.*" });
  await nc.request(`ctl.cancel.${job.id}`, "", { timeout: 5000 }).catch(() => {}); // no worker has it, or its engine is slow to stop
  await jsm.streams.purge("RELAY", { filter: `jobs.*.*.*.${job.id}` }); // a server started again meanwhile has forgotten the ids
  return true;
}

// The run.

const model = process.argv[2];
const patience = 60;
const say = (step, line) => console.log(JSON.stringify({ step, ...line }));
const outcome = (r) => r && { status: r.status, method: r.method, text: r.text, error: r.error };

{
  const inbox = createInbox();
  let copy;
  const sub = nc.subscribe(inbox, { max: 1, callback: (_, msg) => { copy = msg.json(); } });
  await nc.flush();
  const job = newJob({ model, prompt: "Is `x <- 1` good R?", options: { num_predict: 8, temperature: 0 } });
  await submit(job, inbox);
  await submit(job, inbox); // once more, as after a lost answer: it is still one job
  const result = await awaitResult(job, patience);
  if (result && !copy) await sub.closed;
  say("await", { job: job.id, result: outcome(result) ?? await whyNoResult(job), copy: copy?.text === result?.text });
}

{
  const job = newJob({ model, prompt: "Write a loop in R.", options: { num_predict: 8, temperature: 0 } });
  let text = "", attempt = 0, done = false, chunks = 0;
  const result = await stream(job, patience, (chunk) => {
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
  const result = await awaitResult(job, patience);
  await nc.flush();
  sub.unsubscribe();
  say("cancel", { job: job.id, cancelled, again, result: outcome(result), late_chunks: chunks - before });
}

{
  // A model that nobody serves: the job waits, nobody decodes it, and it can be taken back.
  const job = newJob({ model: "nobody/serves-this:latest", prompt: "Hello?" });
  await submit(job);
  say("timeout", { job: job.id, result: await awaitResult(job, 1), message: await whyNoResult(job), cancelled: await cancel(job) });
}

await nc.close();
