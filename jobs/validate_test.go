package jobs

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// tool is the definition of a function.
const tool = `{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}`

// talk is one in which the model called a function, and was told what came of it.
func talk() []Message {
	return []Message{
		{Role: RoleUser, Content: "What is two and three?"},
		{Role: RoleAssistant, Thinking: "I add.", ToolCalls: []ToolCall{{ID: "c1", Name: "add", Arguments: json.RawMessage(`{"a": 2, "b": 3}`)}}},
		{Role: RoleTool, Content: "5", ToolName: "add", ToolCallID: "c1"},
	}
}

func TestValidateJob(t *testing.T) {
	long := strings.Repeat("x", MaxName+1)
	chat := func(j *Job, turns ...Message) { j.Prompt, j.Messages = "", turns }
	embed := func(j *Job) {
		*j = Job{V: j.V, ID: j.ID, User: j.User, Batch: j.Batch, Class: j.Class, Model: j.Model, Plan: PlanLocal, Embed: &Embed{Input: []string{"a", "b"}}}
	}
	tests := []struct {
		name   string
		change func(*Job)
		want   string // empty: still valid
	}{
		{"nothing", func(*Job) {}, ""},
		{"version", func(j *Job) { j.V = 2 }, "v is 2"},
		{"no id", func(j *Job) { j.ID = "" }, "id is"},
		{"id in upper case", func(j *Job) { j.ID = strings.ToUpper(testID) }, "want a UUID in lower case"},
		{"id with braces", func(j *Job) { j.ID = "{" + testID + "}" }, "want a UUID in lower case"},
		{"no user", func(j *Job) { j.User = "" }, "user is empty"},
		{"no batch", func(j *Job) { j.Batch = "" }, `batch is empty; use "single"`},
		{"long user", func(j *Job) { j.User = long }, "user is 201 bytes long; 200 are allowed"},
		{"long batch", func(j *Job) { j.Batch = long }, "batch is 201 bytes long"},
		{"long custom id", func(j *Job) { j.CustomID = long }, "custom_id is 201 bytes long"},
		{"custom id that moves the cursor", func(j *Job) { j.CustomID = "a\x1b[2J" }, "custom_id"},
		{"custom id that turns the text around", func(j *Job) { j.CustomID = "a\u202eb" }, "custom_id"},
		{"invalid batch", func(j *Job) { j.Batch = "\xff" }, "batch"},
		{"no class", func(j *Job) { j.Class = "" }, "want interactive or batch"},
		{"no model", func(j *Job) { j.Model = "" }, "model is empty"},
		{"model not canonical", func(j *Job) { j.Model = "disaggregated:m:1b" }, `its canonical form is "m:1b"`},
		{"plan", func(j *Job) { j.Plan = "fast" }, "want disaggregated, local or auto"},
		{"think", func(j *Job) { j.Think = "much" }, "want on, off, low, medium or high"},
		{"replay of nothing", func(j *Job) { j.ReplayOf = "x" }, "replay_of"},
		{"no prompt", func(j *Job) { j.Prompt = " \n" }, "prompt is empty; give a prompt or messages"},
		{"invalid prompt", func(j *Job) { j.Prompt = "a\xff" }, "not valid UTF-8; convert"},
		{"long prompt", func(j *Job) { j.Prompt = strings.Repeat("x", 5<<20) }, "the prompt is 5242880 bytes long; 4194304 are allowed"},
		{"long together", func(j *Job) { j.Prompt, j.System = strings.Repeat("x", MaxBody), "x" }, "bytes long"},
		{"prompt and messages", func(j *Job) { j.Messages = []Message{{Role: RoleUser, Content: "a"}} }, "both set"},
		{"system and messages", func(j *Job) { chat(j, Message{Role: RoleUser, Content: "a"}); j.System = "s" }, "make system the first message"},
		{"chat", func(j *Job) { chat(j, Message{Role: RoleSystem, Content: "a"}, Message{Role: RoleUser, Content: "b"}) }, ""},
		{"role", func(j *Job) { chat(j, Message{Role: "critic", Content: "x"}) }, `messages[0].role is "critic"; want system, user, assistant or tool`},
		{"tools", func(j *Job) { j.Tools = []json.RawMessage{[]byte(tool)} }, ""},
		{"a tool without a name", func(j *Job) {
			j.Tools = []json.RawMessage{[]byte(tool), []byte(`{"type": "function", "function": {}}`)}
		}, "tools[1] is none"},
		{"a tool that is a text", func(j *Job) { j.Tools = []json.RawMessage{[]byte(`"add"`)} }, "tools[0] is no JSON object"},
		{"a tool with a key twice", func(j *Job) { j.Tools = []json.RawMessage{[]byte(`{"type": "function", "type": "function"}`)} }, "tools[0]: JSON at byte"},
		{"a deep tool", func(j *Job) {
			j.Tools = []json.RawMessage{[]byte(`{"x":` + strings.Repeat("[", 60) + strings.Repeat("]", 60) + `}`)}
		}, "tools[0]: JSON at byte"},
		{"tool_choice", func(j *Job) { j.ToolChoice = "add" }, `tool_choice is "add"; want auto, none or required`},
		{"a call of nothing", func(j *Job) { j.ToolChoice = ToolsRequired }, "tool_choice is required, and there are no tools"},
		{"a whole talk", func(j *Job) { chat(j, talk()...) }, ""},
		{"raw", func(j *Job) { j.Raw, j.System = true, "" }, ""},
		{"raw with a system prompt", func(j *Job) { j.Raw, j.System = true, "Be kind." }, "raw is set together with system"},
		{"suffix", func(j *Job) { j.Suffix = "}" }, ""},
		{"suffix of messages", func(j *Job) { chat(j, Message{Role: RoleUser, Content: "x"}); j.Suffix = "}" }, "suffix or raw is set together with messages"},
		{"invalid suffix", func(j *Job) { j.Suffix = "\xff" }, "not valid UTF-8"},
		{"embed", func(j *Job) { embed(j) }, ""},
		{"embed on two machines", func(j *Job) { embed(j); j.Plan = "" }, "plan is disaggregated; embeddings"},
		{"embed and a prompt", func(j *Job) { embed(j); j.Prompt = "x" }, "prompt and embed are both set"},
		{"embed and tools", func(j *Job) { embed(j); j.Tools = []json.RawMessage{[]byte(tool)} }, "tools and embed are both set"},
		{"embed, streamed", func(j *Job) { embed(j); j.Stream = true }, "stream and embed are both set"},
		{"embed nothing", func(j *Job) { embed(j); j.Embed.Input = nil }, "embed.input has 0 texts; want 1 to 2048"},
		{"embed an empty text", func(j *Job) { embed(j); j.Embed.Input[1] = "" }, "embed.input[1] is empty"},
		{"embed invalid text", func(j *Job) { embed(j); j.Embed.Input[0] = "\xff" }, "embed.input[0] is empty or not valid"},
		{"embed many texts", func(j *Job) { embed(j); j.Embed.Input = slices.Repeat([]string{"x"}, 2049) }, "embed.input has 2049 texts"},
		{"embed long texts", func(j *Job) { embed(j); j.Embed.Input = slices.Repeat([]string{strings.Repeat("x", MaxBody/4)}, 5) }, "bytes long"},
		{"embed in fewer than no dimensions", func(j *Job) { embed(j); j.Embed.Dimensions = -1 }, "embed.dimensions is -1"},
		{"embed after a prefix", func(j *Job) { embed(j); j.SharedPrefix = 1 }, "shared_prefix is 1"},
		{"hold", func(j *Job) { j.Hold = true }, ""},
		{"hold on the decode machine", func(j *Job) { j.Hold, j.Plan = true, PlanLocal }, "plan is local; a job with hold"},
		{"continues nothing", func(j *Job) { j.Continues = "x" }, `continues is "x"; want a UUID`},
		{"a user calls", func(j *Job) { chat(j, talk()...); j.Messages[1].Role = RoleUser }, "messages[1].tool_calls is there in a message of role user"},
		{"a call without arguments", func(j *Job) { chat(j, talk()...); j.Messages[1].ToolCalls[0].Arguments = nil }, "messages[1].tool_calls[0].arguments is no JSON object"},
		{"an answer of a user", func(j *Job) { chat(j, talk()...); j.Messages[2].Role = RoleUser }, "messages[2].tool_name or tool_call_id"},
		{"an image", func(j *Job) { chat(j, Message{Role: RoleUser, Images: []string{"iVBORw0KGgo="}}) }, ""},
		{"an image that is none", func(j *Job) { chat(j, Message{Role: RoleUser, Images: []string{"file:///etc/passwd"}}) }, "messages[0].images[0] is not the base64 of a file"},
		{"many images", func(j *Job) {
			chat(j, Message{Role: RoleUser, Images: slices.Repeat([]string{strings.Repeat("AAAA", MaxBody/16)}, 5)})
		}, "the prompt is"},
		{"long role", func(j *Job) { chat(j, Message{Role: Role(strings.Repeat("x", 10_000)), Content: "a"}) }, `role is "` + strings.Repeat("x", 60) + `"; want`},
		{"empty last message", func(j *Job) { chat(j, Message{Role: RoleUser, Content: " "}) }, "the last message is empty"},
		{"invalid message", func(j *Job) { chat(j, Message{Role: RoleUser, Content: "\xff"}) }, "not valid UTF-8"},
		{"many messages", func(j *Job) { chat(j, slices.Repeat([]Message{{Role: RoleUser, Content: "a"}}, MaxMessages+1)...) }, "4097 turns; 4096 are allowed"},
		{"prefix in messages", func(j *Job) { chat(j, Message{Role: RoleUser, Content: "abc"}); j.SharedPrefix = 1 }, ""},
		{"prefix beyond messages", func(j *Job) { chat(j, Message{Role: RoleUser, Content: "abc"}); j.SharedPrefix = 2 }, "shared_prefix is 2"},
		{"whole prompt shared", func(j *Job) { j.Prompt, j.SharedPrefix = "aé", 3 }, ""},
		{"prefix beyond prompt", func(j *Job) { j.Prompt, j.SharedPrefix = "aé", 4 }, "shared_prefix is 4"},
		{"followed by fewer than none", func(j *Job) { j.Following.Jobs = -1 }, "following.jobs is -1"},
		{"followed by less than no text", func(j *Job) { j.Following.PromptBytes = -2 }, "following.prompt_bytes is -2"},
		{"prefix below 0", func(j *Job) { j.SharedPrefix = -1 }, "shared_prefix is -1"},
		{"prefix within é", func(j *Job) { j.Prompt, j.SharedPrefix = "aé", 2 }, "within a character"},
		{"format json", func(j *Job) { j.Format = json.RawMessage(` "json"`) }, ""},
		{"format yaml", func(j *Job) { j.Format = json.RawMessage(`"yaml"`) }, "neither"},
		{"format of a list", func(j *Job) { j.Format = json.RawMessage(`[]`) }, "neither"},
		{"broken format", func(j *Job) { j.Format = json.RawMessage(`{"type":}`) }, "format: JSON at byte 8"},
		{"format with a key twice", func(j *Job) { j.Format = json.RawMessage(`{"a":1,"a":2}`) }, `format: JSON at byte 10: duplicate key "a"`},
		{"long format", func(j *Job) { j.Format = json.RawMessage(`{"a":"` + strings.Repeat("x", MaxFormat) + `"}`) }, "format is"},
		{"hot", func(j *Job) { j.Options.Temperature = new(11.0) }, "options.temperature is 11; want 0 to 10"},
		{"no temperature", func(j *Job) { j.Options.Temperature = new(math.NaN()) }, "options.temperature is NaN"},
		{"top_p", func(j *Job) { j.Options.TopP = new(1.5) }, "options.top_p"},
		{"min_p", func(j *Job) { j.Options.MinP = new(-0.5) }, "options.min_p"},
		{"repeat_penalty", func(j *Job) { j.Options.RepeatPenalty = new(math.Inf(1)) }, "options.repeat_penalty"},
		{"num_predict", func(j *Job) { j.Options.NumPredict = new(0) }, "options.num_predict is 0; want 1 to"},
		{"num_ctx", func(j *Job) { j.Options.NumCtx = new(MaxTokens + 1) }, "options.num_ctx"},
		{"top_k", func(j *Job) { j.Options.TopK = new(-1) }, "options.top_k"},
		{"all options at 0", func(j *Job) {
			j.Options = Options{Temperature: new(0.0), Seed: new(int64(0)), TopK: new(0), TopP: new(0.0)}
		}, ""},
		{"many stops", func(j *Job) { j.Options.Stop = slices.Repeat([]string{"x"}, MaxStops+1) }, "options.stop has 17 words"},
		{"empty stop", func(j *Job) { j.Options.Stop = []string{""} }, "options.stop has a word of 0 bytes"},
		{"invalid stop", func(j *Job) { j.Options.Stop = []string{"\xff"} }, "options.stop"},
		{"many labels", func(j *Job) {
			j.Labels = map[string]string{}
			for i := range MaxLabels + 1 {
				j.Labels[strings.Repeat("x", i)] = ""
			}
		}, "labels has 33 entries"},
		{"long label", func(j *Job) { j.Labels = map[string]string{"a": strings.Repeat("x", MaxLabel+1)} }, `labels."a" is longer than 256 bytes`},
		{"invalid label", func(j *Job) { j.Labels = map[string]string{"a": "\xff"} }, `labels."a" is not valid UTF-8`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := validJob()
			tt.change(j)
			if err := j.Validate(); tt.want != "" {
				wantInvalid(t, err, tt.want)
			} else if err != nil {
				t.Fatal(err)
			} else if data, err := Encode(j); err != nil {
				t.Error(err)
			} else if _, err := Decode[Job](data); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestValidateOthers(t *testing.T) {
	tests := []struct {
		name string
		v    record
		want string // empty: valid
	}{
		{"hand-over", &Handover{V: 1, Stage: StageDecode, Kind: KindNone, Job: *validJob()}, ""},
		{"fallback", &Handover{V: 1, Stage: StageFallback, Job: *validJob()}, ""},
		{"hand-over without stage", &Handover{V: 1, Kind: KindNone, Job: *validJob()}, "want decode or fallback"},
		{"hand-over without kind", &Handover{V: 1, Stage: StageDecode, Job: *validJob()}, "kind is empty"},
		{"hand-over of a new kind", &Handover{V: 1, Stage: StageDecode, Kind: "soul", Job: *validJob()}, "want state, context or none"},
		{"hand-over of nothing", &Handover{V: 1, Stage: StageFallback}, "job: v is 0"},
		{"hand-over of a state that is not there", &Handover{V: 1, Stage: StageDecode, Kind: KindState, Job: *validJob()}, "state is missing"},
		{"hand-over of another kind with a state", &Handover{V: 1, Stage: StageDecode, Kind: KindNone, State: validState(), Job: *validJob()}, `state is set in a hand-over of kind "none"`},
		{"hand-over with a failure that is no name", &Handover{V: 1, Stage: StageDecode, Kind: KindNone, Failure: "No room!", Job: *validJob()}, `failure is "No room!"`},
		{"hand-over with a failure of a newer version", &Handover{V: 1, Stage: StageDecode, Kind: KindNone, Failure: "too_hot", Job: *validJob()}, ""},
		{"result with a failure that is no name", reported(&HandoverReport{Failure: "X"}), `handover.failure is "X"`},
		{"result with a failure that is too long", reported(&HandoverReport{Failure: Failure(strings.Repeat("x", MaxFailure+1))}), "handover.failure is"},
		{"result with a report", reported(&HandoverReport{Failure: FailDigest}), ""},
		{"result", NewResult(validJob(), Succeeded), ""},
		{"result without address", &Result{V: 1, JobID: testID, Status: Succeeded, Batch: "b"}, "user is empty"},
		{"result without status", NewResult(validJob(), ""), "want succeeded, failed, cancelled or expired"},
		{"failed without reason", NewResult(validJob(), Failed), "error is missing"},
		{"chunk", &Chunk{V: 1, JobID: testID}, ""},
		{"chunk without job", &Chunk{V: 1}, "job_id"},
		{"chunk of another version", &Chunk{JobID: testID}, "v is 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Encode(tt.v); tt.want != "" {
				wantInvalid(t, err, tt.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func reported(h *HandoverReport) *Result {
	r := NewResult(validJob(), Succeeded)
	r.Handover = h
	return r
}

func validState() *State {
	return &State{URL: "http://192.0.2.7:8002/state/0011", Token: "s3cret", Bytes: 1, Tokens: 1, First: []TokenProb{{ID: 0, LogProb: 0}}}
}

// What a state says is checked before anybody acts on it, and what is secret of it is in no error.
func TestValidateState(t *testing.T) {
	long := strings.Repeat("x", MaxMark+1)
	tests := []struct {
		name   string
		change func(*State)
		want   string // empty: still valid
	}{
		{"nothing", func(*State) {}, ""},
		{"https", func(s *State) { s.URL = "https://[2001:db8::1]:8002/state/0011" }, ""},
		{"no prediction", func(s *State) { s.First = nil }, ""},
		{"rounded up", func(s *State) { s.First[0].LogProb = 1e-6 }, ""},
		{"prefix of all tokens", func(s *State) { s.Prefix = 1 }, ""},
		{"prefix of more", func(s *State) { s.Prefix = 2 }, "state.prefix is 2; want 0 to the 1 tokens"},
		{"negative prefix", func(s *State) { s.Prefix = -1 }, "state.prefix is -1"},
		{"no url", func(s *State) { s.URL = "" }, "state.url is no address"},
		{"file", func(s *State) { s.URL = "file:///state/0011" }, "state.url is no address"},
		{"no host", func(s *State) { s.URL = "http:///state/0011" }, "state.url is no address"},
		{"broken url", func(s *State) { s.URL = "http://192.0.2.7:eight/state/0011" }, "state.url is no address"},
		{"long url", func(s *State) { s.URL += strings.Repeat("x", MaxURL) }, "state.url is 2080 bytes long; 2048 are allowed"},
		{"no token", func(s *State) { s.Token = "" }, "state.token has 0 bytes"},
		{"token of two lines", func(s *State) { s.Token = "s3cret\r\nHost: x" }, "state.token has 15 bytes"},
		{"long token", func(s *State) { s.Token = strings.Repeat("s3cret", 43) }, "state.token has 258 bytes; want 1 to 256"},
		{"no bytes", func(s *State) { s.Bytes = 0 }, "state.bytes is 0"},
		{"no tokens", func(s *State) { s.Tokens = 0 }, "state.tokens is 0"},
		{"many tokens", func(s *State) { s.Tokens = MaxTokens + 1 }, "state.tokens is"},
		{"saved before it began", func(s *State) { s.SaveSeconds = -1 }, "state.save_seconds is -1"},
		{"never saved", func(s *State) { s.SaveSeconds = math.NaN() }, "state.save_seconds is NaN"},
		{"long prediction", func(s *State) { s.First = make([]TokenProb, MaxFirst+1) }, "state.first has 65 tokens"},
		{"token below 0", func(s *State) { s.First[0].ID = -1 }, "state.first.id is -1"},
		{"more than certain", func(s *State) { s.First[0].LogProb = 0.5 }, "state.first.logprob is 0.5"},
		{"impossible", func(s *State) { s.First[0].LogProb = math.Inf(-1) }, "state.first.logprob is -Inf"},
		{"no probability", func(s *State) { s.First[0].LogProb = math.NaN() }, "state.first.logprob is NaN"},
		{"long build", func(s *State) { s.Fingerprint.Build = long }, "state.fingerprint.build has 1025 bytes"},
		{"build that moves the cursor", func(s *State) { s.Fingerprint.Build = "b\x1b[2J" }, "state.fingerprint.build"},
		{"streams below 0", func(s *State) { s.Fingerprint.Streams = -1 }, "state.fingerprint.streams is -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := validState()
			tt.change(s)
			_, err := Encode(&Handover{V: 1, Stage: StageDecode, Kind: KindState, State: s, Job: *validJob()})
			if tt.want != "" {
				wantInvalid(t, err, tt.want)
			} else if err != nil {
				t.Fatal(err)
			}
			if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "0011")) {
				t.Errorf("the error shows address or token: %v", err)
			}
		})
	}
}

func TestIDsSort(t *testing.T) {
	ids := make([]string, 5000)
	for i := range ids {
		ids[i] = NewID()
	}
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != cap(ids) {
		t.Error("ids made later do not sort later, or repeat")
	}
}

func TestExpired(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		deadline time.Time
		want     bool
	}{{time.Time{}, false}, {now.Add(time.Second), false}, {now, false}, {now.Add(-time.Second), true}} {
		if got := (&Job{Deadline: tt.deadline}).Expired(now); got != tt.want {
			t.Errorf("deadline %v at %v: expired = %t, want %t", tt.deadline, now, got, tt.want)
		}
	}
}

// The hash tells apart what goes to the model differently.
func TestPromptSHA256(t *testing.T) {
	seen := map[string]int{}
	for i, j := range []Job{
		{Prompt: "ab"}, {System: "a", Prompt: "b"}, {System: "ab"},
		{Messages: []Message{{Role: RoleUser, Content: "ab"}}},
		{Messages: []Message{{Role: RoleUser, Content: "a"}, {Role: RoleUser, Content: "b"}}},
		{Messages: []Message{{Role: RoleSystem, Content: "ab"}}},
	} {
		hash := j.PromptSHA256()
		if other, ok := seen[hash]; ok {
			t.Errorf("jobs %d and %d have the same hash", i, other)
		}
		seen[hash] = i
	}
	const nothing = "374708fff7719dd5979ec875d56cd2286f6d3cf7ec317a3b25632aab28ec37bb" // sha256 of 16 zero bytes: two empty parts
	if got := (&Job{}).PromptSHA256(); got != nothing {
		t.Errorf("hash of nothing = %s, want %s", got, nothing)
	}
}
