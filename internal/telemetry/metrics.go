package telemetry

import (
	"tandem/internal/protocol"
	"tandem/jobs"
)

// Metric is all there is to know of one metric, but for its figures.
type Metric struct {
	Name    string
	Kind    Kind
	At      []Service
	Help    string
	Labels  []Label
	Buckets []float64 // of a histogram: upper bounds
}

// Kind is the type of a metric, as Prometheus names it.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Service is who has a metric. Workers are named by their roles.
type Service string

// The services.
const (
	Prefill Service = "prefill"
	Decode  Service = "decode"
	Gateway Service = "gateway"
)

// Label is a name and the closed set of its values.
type Label struct {
	Name   string
	Values []string // nil if Of alone says which there are
	Of     string   // in words
}

var (
	workers = []Service{Prefill, Decode}
	door    = []Service{Gateway}
	all     = []Service{Prefill, Decode, Gateway}
)

// Metrics are all metrics of all services: docs/METRICS.md is made of this table. A label never holds a job, a user or anything of a text.
func Metrics() []Metric {
	var (
		stages    = Label{"stage", []string{string(jobs.StagePrefill), string(jobs.StageDecode), string(jobs.StageFallback)}, ""}
		queues    = Label{"stage", stages.Values[:2], ""}
		class     = Label{"class", []string{string(jobs.Interactive), string(jobs.Batch)}, ""}
		statuses  = []string{string(jobs.Succeeded), string(jobs.Failed), string(jobs.Cancelled), string(jobs.Expired)}
		operation = Label{"gen_ai_operation_name", []string{protocol.OpChat, protocol.OpText, protocol.OpEmbed}, ""}
		errorType = Label{"error_type", append([]string{""}, codes...), "empty, or the code of an error (`jobs/errors.go`)"}
		model     = Label{"model", nil, "models of which a result came; `other`"}
		genModel  = Label{"gen_ai_request_model", nil, model.Of}

		// What the conventions of OpenTelemetry for generative AI ask for.
		genSeconds    = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
		genFirstToken = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
		genPerToken   = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5}
		genTokens     = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}

		work = []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300}                     // of an engine: 10 ms to 5 minutes
		move = []float64{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30}                 // of a KV state: 1 ms to half a minute
		wait = []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000} // of a job: 10 ms to three hours
	)
	return []Metric{
		{"tandem_jobs_total", Counter, workers, "Jobs that ended, at the worker that published the result.", []Label{
			{"outcome", statuses, ""},
			{"method", []string{string(jobs.MethodDisaggregated), string(jobs.MethodLocal), string(jobs.MethodFallback), none}, ""},
		}, nil},
		{"tandem_job_seconds", Histogram, workers, "Time from accepting a job to its result, by the NATS server's clock.", nil, wait},
		{"tandem_deliveries_total", Counter, workers, "Deliveries of jobs that ran, and what became of each.", []Label{
			stages, {"delivery", []string{"first", "redelivered"}, ""}, {"outcome", append(append([]string{"hop"}, statuses...), codes...), "hop (handed on), a result's status, or the code of an error (`jobs/errors.go`)"},
		}, nil},
		{"tandem_delivery_seconds", Histogram, workers, "Time for which a delivery ran.", []Label{stages}, work},
		{"tandem_queue_wait_seconds", Histogram, workers, "Time in the stream before a delivery, by the NATS server's clock.", []Label{stages}, wait},
		{"tandem_queue_waiting", Gauge, workers, "Jobs of the model that wait for a stage. All workers of a model say the same: take the max.", []Label{queues, class}, nil},
		{"tandem_queue_in_flight", Gauge, workers, "Jobs of the model that are at a worker, or wait for another attempt. All workers of a model say the same: take the max.", []Label{queues, class}, nil},

		{"tandem_prompt_tokens_total", Counter, workers, "Prompt tokens, by whether the engine had them cached.", []Label{{"source", []string{"cached", "computed"}, ""}}, nil},
		{"tandem_generated_tokens_total", Counter, workers, "Tokens generated.", nil, nil},
		{"tandem_prefill_seconds", Histogram, workers, "Time in which the engine computed a prompt, or what was left of it.", nil, work},
		{"tandem_decode_seconds", Histogram, workers, "Time in which the engine generated a text.", nil, work},
		{"tandem_engine_errors_total", Counter, workers, "Deliveries that failed because of the engine, or because of what it was asked.", []Label{{"code", engineCodes, ""}}, nil},
		{"tandem_engine_up", Gauge, workers, "1 if the engine answers and has the model loaded.", nil, nil},
		{"tandem_nats_up", Gauge, workers, "1 if the worker is connected to NATS.", nil, nil},
		{"tandem_slots", Gauge, workers, "Requests that the worker runs at once.", nil, nil},
		{"tandem_slots_busy", Gauge, workers, "Slots in use now.", nil, nil},
		{"tandem_slots_busy_seconds_total", Counter, workers, "Time for which slots were in use, of all slots together.", nil, nil},

		{"tandem_handovers_total", Counter, workers, "KV states that were meant to be handed over: used, or why not. Those that were never offered show at the prefill worker, the others at the decode worker.", []Label{
			{"outcome", append([]string{"used"}, failures...), ""},
		}, nil},
		{"tandem_handover_bytes_total", Counter, workers, "Bytes of KV states that went over the network.", nil, nil},
		{"tandem_handover_state_bytes_total", Counter, workers, "Sizes of the KV states fetched: more than went over the network if rows of shared prefixes were here.", nil, nil},
		{"tandem_handover_rebuilt_total", Counter, workers, "KV states put together from rows that were here and the rest: used; or failed, and then the whole was fetched.", []Label{{"outcome", []string{"used", "failed"}, ""}}, nil},
		{"tandem_handover_save_seconds", Histogram, workers, "Time in which the engine wrote a KV state.", nil, move},
		{"tandem_handover_transfer_seconds", Histogram, workers, "Time in which a KV state was fetched and verified.", nil, move},
		{"tandem_handover_restore_seconds", Histogram, workers, "Time in which the engine read a KV state.", nil, move},
		{"tandem_handover_pairs_stopped", Gauge, []Service{Decode}, "Machines from which no KV states are taken, until an operator clears it.", nil, nil},
		{"tandem_slow_transfers_total", Counter, workers, "Hand-overs that took longer than a second.", nil, nil},
		{"tandem_states_held", Gauge, []Service{Prefill}, "KV states that wait to be fetched.", nil, nil},
		{"tandem_states_held_bytes", Gauge, []Service{Prefill}, "Bytes of KV states that wait to be fetched.", nil, nil},

		{"gen_ai_server_request_duration_seconds", Histogram, workers, "Time from accepting a job to its result, by the NATS server's clock.", []Label{operation, errorType}, genSeconds},
		{"gen_ai_server_time_to_first_token_seconds", Histogram, workers, "Time from accepting a job that succeeded to its first token, waits among it.", []Label{operation}, genFirstToken},
		{"gen_ai_server_time_per_output_token_seconds", Histogram, workers, "Time for each token after the first, of a job that succeeded.", []Label{operation}, genPerToken},

		{"tandem_gateway_jobs_total", Counter, door, "Jobs of requests, and of lines of batches, as who asked saw them end: a result's status; gone, who asked went away; timeout; diverged, a stream that could not go on; error.", []Label{
			model, {"outcome", append(statuses, "gone", "timeout", "diverged", "error"), ""},
		}, nil},
		{"tandem_gateway_streams", Gauge, door, "Requests that are being answered now.", nil, nil},
		{"tandem_gateway_refused_total", Counter, door, "Requests refused because of a limit (429): of the token, of the gateway (streams) or of the queue.", []Label{
			{"limit", []string{"concurrent", "requests_per_minute", "tokens_per_day", "streams", "queue"}, ""},
		}, nil},
		{"gen_ai_client_operation_duration_seconds", Histogram, door, "Time from a request to the end of its job.", []Label{operation, genModel, errorType}, genSeconds},
		{"gen_ai_client_operation_time_to_first_chunk_seconds", Histogram, door, "Time from a request that streams to the first piece of its answer.", []Label{operation, genModel}, genSeconds},
		{"gen_ai_client_token_usage", Histogram, door, "Tokens of jobs that succeeded.", []Label{operation, genModel, {"gen_ai_token_type", []string{"input", "output"}, ""}}, genTokens},

		{"tandem_http_requests_total", Counter, all, "Requests to the HTTP API.", []Label{{"path", nil, "routes of the API; `other`"}, {"code", nil, "HTTP status codes"}}, nil},
		{"tandem_build_info", Gauge, all, "1, for its labels.", []Label{{"version", nil, "of the program"}, {"goversion", nil, "of Go"}}, nil},
	}
}

// none stands for a method that a job did not come to have.
const none = "none"

var (
	engineCodes = []string{
		string(jobs.CodeModelMissing), string(jobs.CodeContextOverflow), string(jobs.CodeEngineRefused), string(jobs.CodeEngineUnreachable),
		string(jobs.CodeEngineFailed), string(jobs.CodeEngineStalled), string(jobs.CodeEngineBusy),
	}
	codes = append([]string{
		string(jobs.CodeInvalid), string(jobs.CodeUnknownModel), string(jobs.CodeDraining), string(jobs.CodePreempted), string(jobs.CodeWorkerLost),
		string(jobs.CodePanic), string(jobs.CodeAttempts), string(jobs.CodeDeadline), string(jobs.CodeCancelled), string(jobs.CodeDecodeMissing),
		string(jobs.CodeTimeout), string(jobs.CodeQueueFull), string(jobs.CodeHandoverMismatch), string(jobs.CodeNATS),
	}, engineCodes...)
	failures = []string{
		string(jobs.FailNoState), string(jobs.FailSave), string(jobs.FailBudget), string(jobs.FailStopped), string(jobs.FailFingerprint), string(jobs.FailDiffer),
		string(jobs.FailRefusedURL), string(jobs.FailUnreachable), string(jobs.FailNotFound), string(jobs.FailTruncated), string(jobs.FailTooSlow), string(jobs.FailDisk),
		string(jobs.FailDigest), string(jobs.FailRestore), string(jobs.FailSilentMiss), string(jobs.FailFirstToken),
	}
)
