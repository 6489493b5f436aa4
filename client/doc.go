// Package client has jobs done by Tandem: prompts that language models answer, of which one machine computes the prompt and another writes the text. It is for
// programs that submit and await, such as a grader, and needs a grader's rights and no more. An operator's verbs are in package tandem/client/admin, and the records
// in package tandem/jobs.
//
// # The simplest use
//
// [Dial] connects to the NATS server, and [Client.Generate] asks a model and returns its text:
//
//	c, err := client.Dial(ctx, client.Options{})
//	if err != nil {
//		return err // says what is wrong with the address or the key, and what to do
//	}
//	defer c.Close()
//	text, metrics, err := c.Generate(ctx, "What is a KV cache?", "gpt-oss:120b", 200)
//
// Where NATS has keys, the operator gives each user one (submitter admin grader add NAME), and the program names the file:
//
//	client.Options{URL: "tls://nats.example.org:4222", CA: "ca.pem", NKey: "ada.nk"}
//
// # What is promised
//
// A job that [Client.Submit] accepted is stored on disk and has exactly one result, whatever becomes of this program, the workers, their engines or NATS:
// it succeeded, failed, was cancelled or expired. Results stay for seven days. So every call may be made again: submitting a job with the same id twice is one
// job, and awaiting it twice yields the same result. When the context of a call ends, the call has failed and the job lives on.
//
// A job of its own is a [jobs.Job]; what it leaves out is filled in. [Client.Run] submits it and waits:
//
//	r, err := c.Run(ctx, &jobs.Job{Model: "qwen3-coder:30b", System: "You review code.", Prompt: program})
//
// The error is that of the call; how the job ended stands in the result's Status, and why in its Error.
//
// # Text while it is generated
//
// [Client.Stream] yields pieces. Print them; when one says Restart, the job begins again on another machine, and what was printed is void. The last piece
// has the result, and whatever was lost on the way.
//
// # What a job is doing
//
// [Client.Events] yields each step of a job as it happens: which machine computes the prompt, when its KV state moved, how many tokens are there, why it was tried again. The
// Timeline of the result has all of that afterwards.
//
// # Many jobs
//
// [Client.RunBatch] submits jobs and yields their results as they come. The ids are on this disk before the first job is published, so that a program that was killed
// goes on where it was when it calls it again with the same file. While the queue is full it waits. For jobs that come one after the other there are
// [Client.SubmitWaiting] and [Client.AwaitBatch]. However many calls wait at once, a client has at most two subscriptions to results.
//
// # Errors
//
// They are of type [jobs.Error]: a Code for programs, and a Message that names field, value and remedy. Compare with errors.Is and the sentinels of package
// jobs, or ask [jobs.CodeOf]:
//
//	nats_unavailable    no connection, or no JetStream; the call may be made again
//	queue_full          the queue is at its limit; RetryAfter says when to try again
//	unknown_model       no worker was ever started for the model
//	decode_unavailable  the call's time passed, and no decode worker serves the model; the job lives on
//	timeout             the call's time passed; the job lives on
//	invalid_request     a field is wrong
package client
