package app_test

import (
	"os"
	"path/filepath"
	"testing"

	"tandem/internal/app"
	"tandem/internal/protocol"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// TestOpenAIServer: a decode worker beside a server of the OpenAI API, here a llama-server that asks for a key, does local jobs, and those that no prefill
// worker takes.
func TestOpenAIServer(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("key-of-the-server\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := standintest.StartLlamaServer(t, tinymodel.Tiny(tinymodel.BPE), "--api-key", "key-of-the-server", "--alias", "served-name")
	s.worker(protocol.RoleDecode, server+"/v1", func(f *app.WorkerFlags) {
		f.Engine, f.EngineKeyFile, f.EngineModel = "openai", key, "served-name"
	})
	for plan, method := range map[jobs.Plan]jobs.Method{jobs.PlanLocal: jobs.MethodLocal, jobs.PlanDisaggregated: jobs.MethodFallback} {
		j := s.job("Say something about the sea.")
		j.Plan = plan
		r := s.await(s.submit(j))
		if r.Status != jobs.Succeeded || r.Method != method || r.Text == "" || r.Usage.GeneratedTokens != 16 || r.Provenance.Engine != "openai" || r.Provenance.ModelDigest != "served-name" {
			t.Errorf("plan %s: %+v", plan, r)
		}
	}
}
