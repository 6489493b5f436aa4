package access

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// reloadLimit is how long the server may take to read its configuration again.
const reloadLimit = 10 * time.Second

// Reload has the server at the URL read its configuration again: it lets in those who were added and ends the connections of those who
// were revoked. The others' connections stay.
func (f Folder) Reload(ctx context.Context, url string) error {
	key, err := nats.NkeyOptionFromSeed(f.sys())
	if err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "read key: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reloadLimit)
	defer cancel()
	nc, err := nats.Connect(url, key, nats.RootCAs(f.CA()), nats.Name("tandem-admin"), nats.Timeout(reloadLimit/2))
	if err != nil {
		return jobs.Errorf(jobs.CodeNATS, "connect to NATS at %s: %s", protocol.RedactURL(url), protocol.RedactText(err.Error()))
	}
	defer nc.Close()
	msg, err := nc.RequestWithContext(ctx, "$SYS.REQ.SERVER."+nc.ConnectedServerId()+".RELOAD", nil)
	if err != nil {
		return jobs.Errorf(jobs.CodeNATS, "ask NATS at %s to reload: %w", protocol.RedactURL(url), err)
	}
	var answer struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return jobs.Errorf(jobs.CodeNATS, "read the answer of NATS at %s: %w", protocol.RedactURL(url), err)
	}
	if answer.Error != nil {
		return jobs.Errorf(jobs.CodeNATS, "NATS at %s cannot read its configuration: %s", protocol.RedactURL(url), answer.Error.Description)
	}
	return nil
}
