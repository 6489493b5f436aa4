package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// user is an entry of a NATS configuration, which takes JSON.
type user struct {
	NKey        string      `json:"nkey"`
	Permissions permissions `json:"permissions"`
}

type permissions struct {
	Publish        subjects   `json:"publish"`
	Subscribe      subjects   `json:"subscribe"`
	AllowResponses *responses `json:"allow_responses,omitempty"`
}

// responses lets a user answer requests, wherever the answer is to go.
type responses struct {
	Max     int    `json:"max"`
	Expires string `json:"expires"`
}

type subjects struct {
	Allow []string `json:"allow"`
}

// worker has the rights of the workers of a role and model. They create no stream and no consumer: that is the operator's.
func worker(nkey string, role jobs.Stage, model string) user {
	m, key := jobs.EncodeToken(model), protocol.KeyToken(model)
	may := []string{
		"$SYS.REQ.SERVER.*.JSZ", "$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.INFO.*.*", "$JS.API.CONSUMER.NAMES.*",
		"$JS.API.DIRECT.GET.KV_workers", "$JS.API.DIRECT.GET.KV_workers.>", "$JS.API.DIRECT.GET.KV_handbacks.>", "$JS.API.STREAM.MSG.GET.KV_handbacks",
		"$KV.workers." + string(role) + "." + key + ".*",
		"jobs.fallback." + m + ".*.*.*", "jobs.decode.ended.*.*", "jobs.fallback.ended.*.*",
		"results.*.*.*", "tokens.*.*.*", "events.*.*.*", "events.workers.*", "dlq.*." + m + ".*.*",
		"ctl.cancel.*.*", "ctl.worker." + string(role) + "." + key + ".*",
	}
	for _, stream := range []string{"INTAKE", "RELAY", "RESULTS", "DLQ"} {
		may = append(may, "$JS.API.STREAM.MSG.GET."+stream, "$JS.API.STREAM.PURGE."+stream)
	}
	pull := func(stream, consumer string) {
		may = append(may, "$JS.API.CONSUMER.MSG.NEXT."+stream+"."+consumer, "$JS.ACK."+stream+"."+consumer+".>")
	}
	pull("CONTROL", "kept")
	for _, token := range protocol.Tokens(protocol.RolePrefill) {
		pull("INTAKE", protocol.ConsumerName(protocol.RolePrefill, model, token))
	}
	if role == protocol.RolePrefill {
		may = append(may, "$KV.handbacks.*.*.prefill", "jobs.decode."+m+".*.*.*")
	} else {
		may = append(may, "$KV.handbacks.*.*.*")
		for _, token := range protocol.Tokens(protocol.RoleDecode) {
			pull("RELAY", protocol.ConsumerName(protocol.RoleDecode, model, token))
		}
	}
	return user{nkey, permissions{
		Publish: subjects{may},
		Subscribe: subjects{[]string{
			"_INBOX." + WorkerInbox(role, model) + ".>", "results.*.*.*", "ctl.cancel.*.*", "ctl.worker.*." + key + ".*", "$KV.workers.*." + key + ".*",
			"control.*.*", "operator.*", "$SRV.>",
		}},
		AllowResponses: &responses{1, "1m"},
	}}
}

// gateway has the rights of a program that submits jobs for any user, reads and hears all results, and keeps files, batches and usage in buckets of its own.
func gateway(nkey string, models []string) user {
	may := []string{
		"$SYS.REQ.SERVER.*.JSZ", "$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.INFO.INTAKE.*", "$JS.API.CONSUMER.INFO.RELAY.*", "$JS.API.CONSUMER.NAMES.*",
		"$JS.API.DIRECT.GET.RESULTS.results.*.*.*", "$JS.API.DIRECT.GET.INTAKE", "$JS.API.DIRECT.GET.RELAY", "$JS.API.DIRECT.GET.RESULTS", "$JS.API.DIRECT.GET.DLQ",
		"$JS.API.DIRECT.GET.KV_workers", "$JS.API.DIRECT.GET.KV_workers.>",
		"$JS.API.DIRECT.GET.KV_handover_trials",
		"$JS.API.STREAM.MSG.GET.INTAKE", "$JS.API.STREAM.MSG.GET.RELAY", "$JS.API.STREAM.MSG.GET.DLQ", "$JS.API.STREAM.MSG.GET.RESULTS",
		"control.*.*", "kept.*.*.*", "events.*.*.*",
		"$KV.gateway_usage.>", "$KV.gateway_batches.>", "$O.gateway_files.>",
	}
	for _, model := range models {
		for _, token := range protocol.Tokens(protocol.RolePrefill) {
			may = append(may, "jobs.prefill."+jobs.EncodeToken(model)+"."+string(token)+".*.*")
		}
	}
	for _, stream := range []string{"KV_gateway_usage", "KV_gateway_batches", "OBJ_gateway_files"} {
		may = append(may,
			"$JS.API.STREAM.*."+stream, "$JS.API.STREAM.MSG.GET."+stream, "$JS.API.DIRECT.GET."+stream, "$JS.API.DIRECT.GET."+stream+".>",
			"$JS.API.CONSUMER.CREATE."+stream, "$JS.API.CONSUMER.CREATE."+stream+".>", "$JS.API.CONSUMER.*."+stream+".*", "$JS.FC."+stream+".>")
	}
	return user{nkey, permissions{
		Publish:   subjects{may},
		Subscribe: subjects{[]string{"results.*.*.*", "tokens.*.*.*", "events.*.*.*", "_INBOX." + GatewayInbox + ".>"}},
	}}
}

// grader has the rights of a user who submits jobs.
func grader(nkey, name string) user {
	u := jobs.EncodeToken(name)
	return user{nkey, permissions{
		Publish:   subjects{[]string{"jobs.prefill.*.*." + u + ".*", "result." + u + ".*.*", "model.*", "control.*." + u, "kept." + u + ".*.*", "events." + u + ".*.*"}},
		Subscribe: subjects{[]string{graderPrefix + u + graderSuffix, "tokens." + u + ".>", "events." + u + ".*.*", "_INBOX." + u + ".>"}},
	}}
}

// service is what an account offers to others, under a subject.
type service struct {
	subject string
	as      string // what it is called in the account that uses it; the same if empty
}

func (s service) export() string {
	return fmt.Sprintf("\n      { service: %q, accounts: [GRADERS] }", s.subject)
}

func (s service) imported() string {
	to := ""
	if s.as != "" {
		to = fmt.Sprintf(", to: %q", s.as)
	}
	return fmt.Sprintf("\n      { service: { account: PIPELINE, subject: %q }%s }", s.subject, to)
}

// forGraders are what any grader may ask for. What begins with $JS.API has another name there: an account without JetStream would answer it
// itself. A job for a model or of a class that nobody serves would stay in the intake for ever, so that each has a service of its own.
func forGraders(models []string) []service {
	all := []service{
		{subject: "$JS.API.DIRECT.GET.RESULTS.results.*.*.*", as: "result.*.*.*"},
		{subject: "$JS.API.CONSUMER.INFO.INTAKE.*", as: "model.*"},
		{subject: "kept.*.*.*"},
		{subject: "control.*.*"},
	}
	for _, model := range models {
		for _, token := range protocol.Tokens(protocol.RolePrefill) {
			all = append(all, service{subject: "jobs.prefill." + jobs.EncodeToken(model) + "." + string(token) + ".*.*"})
		}
	}
	return all
}

// configuration is the file that the server's configuration includes.
func (f Folder) configuration(sys, operator string, others []user, models []string) []byte {
	var users, exports, imports strings.Builder
	for _, u := range others {
		users.WriteString("\n      ")
		users.Write(encode(u, "      "))
	}
	for _, s := range forGraders(models) {
		exports.WriteString(s.export())
		imports.WriteString(s.imported())
	}
	return fmt.Appendf(nil, configuration, f.CA(), f.certificate(), f.key(), sys, &exports, operator, &users, &imports)
}

// encode writes JSON as a NATS configuration takes it, which knows no \u003e.
func encode(v any, prefix string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, "  ")
	if err := enc.Encode(v); err != nil {
		panic(err) // of texts only
	}
	return bytes.TrimSpace(b.Bytes())
}

// configuration has places for the files of TLS, the public key of SYS, what graders may ask for, the public key of the operator, the gateway and the workers, and what
// graders use.
const configuration = `# Written by submitter admin secure: who may connect to this NATS server, and what each may do. Keys are public ones.

tls {
  ca_file: %q
  cert_file: %q
  key_file: %q
  min_version: "1.3"
}
authorization { timeout: 5 } # seconds that a client has to show its key

system_account: SYS
accounts {
  # Has the server read its configuration again after a grader was added or revoked.
  SYS {
    users: [ { nkey: %s } ]
    exports: [ { service: "$SYS.REQ.SERVER.*.JSZ", accounts: [PIPELINE] } ] # whether what is acknowledged is on the disk
  }

  # Owns the streams. The operator may do all in it, workers and the gateway what they are for.
  PIPELINE {
    jetstream: enabled
    limits { max_connections: 500, max_subscriptions: 50000 }
    imports: [ { service: { account: SYS, subject: "$SYS.REQ.SERVER.*.JSZ" } } ]
    exports: [
      # What a grader may ask for: a result, whether a model is known, that a cancel is kept, what workers do, and that a job is put into the intake.%s
      # What a grader may hear.
      { stream: "results.*.*.*", accounts: [GRADERS] }
      { stream: "tokens.*.*.*", accounts: [GRADERS] }
      { stream: "events.*.*.*", accounts: [GRADERS] }
    ]
    users: [
      { nkey: %s } # the operator, then the gateway and the workers%s
    ]
  }

  # Has no JetStream.
  GRADERS {
    limits { max_connections: 1000, max_subscriptions: 50000 }
    imports: [%s
      { stream: { account: PIPELINE, subject: "results.*.*.*" } }
      { stream: { account: PIPELINE, subject: "tokens.*.*.*" } }
      { stream: { account: PIPELINE, subject: "events.*.*.*" } }
    ]
    include ./graders.conf
  }
}
`
