package queue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// DriftError says that a stream or consumer exists with another configuration than this program needs.
// It was left as it is.
type DriftError struct {
	Kind   string // "stream" or "consumer"
	Name   string
	Fields []Drift
	Remedy string // the command of the nats CLI that sets it right
	Fixed  bool   // the server does not change it in place
}

// Drift is one setting that differs.
type Drift struct {
	Field string `json:"field"`
	Have  string `json:"have"`
	Want  string `json:"want"`
}

func (e *DriftError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s exists with another configuration:", e.Kind, e.Name)
	for i, f := range e.Fields {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s is %s, want %s", f.Field, f.Have, f.Want)
	}
	if e.Fixed {
		fmt.Fprintf(&b, "; it cannot be changed in place: %s", e.Remedy)
	} else {
		fmt.Fprintf(&b, "; change it with: submitter admin init, or: %s", e.Remedy)
	}
	return b.String()
}

// setting is one field of a configuration: its name, the flag that `nats … edit` has for it (empty
// if the server never changes it), and its value.
type setting[C any] struct {
	field, flag string
	value       func(C) string
}

// streamSettings are the settings that matter. Replicas and placement are the operator's, and so are other limits, see [streamDrift].
func streamSettings() []setting[jetstream.StreamConfig] {
	type cfg = jetstream.StreamConfig
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []setting[cfg]{
		{"subjects", "--subjects", func(c cfg) string { return sorted(c.Subjects) }},
		{"retention", "", func(c cfg) string { return c.Retention.String() }},
		{"storage", "", func(c cfg) string { return c.Storage.String() }},
		{"persist_mode", "", func(c cfg) string { return c.PersistMode.String() }},
		{"discard", "--discard", func(c cfg) string { return strings.ToLower(strings.TrimPrefix(c.Discard.String(), "Discard")) }},
		{"discard_new_per_subject", "--discard-per-subject", func(c cfg) string { return strconv.FormatBool(c.DiscardNewPerSubject) }},
		{"max_msgs", "--max-msgs", func(c cfg) string { return number(c.MaxMsgs) }},
		{"max_bytes", "--max-bytes", func(c cfg) string { return number(c.MaxBytes) }},
		{"max_age", "--max-age", func(c cfg) string { return c.MaxAge.String() }},
		{"max_msg_size", "--max-msg-size", func(c cfg) string { return number(int64(c.MaxMsgSize)) }},
		{"max_msgs_per_subject", "--max-msgs-per-subject", func(c cfg) string { return number(c.MaxMsgsPerSubject) }},
		{"duplicate_window", "--dupe-window", func(c cfg) string { return c.Duplicates.String() }},
		{"allow_direct", "--allow-direct", func(c cfg) string { return strconv.FormatBool(c.AllowDirect) }},
		{"allow_rollup_hdrs", "--allow-rollup", func(c cfg) string { return strconv.FormatBool(c.AllowRollup) }},
		{"deny_delete", "", func(c cfg) string { return strconv.FormatBool(c.DenyDelete) }},
		{"deny_purge", "", func(c cfg) string { return strconv.FormatBool(c.DenyPurge) }},
		{"sealed", "", func(c cfg) string { return strconv.FormatBool(c.Sealed) }},
	}
}

func consumerSettings() []setting[jetstream.ConsumerConfig] {
	type cfg = jetstream.ConsumerConfig
	return []setting[cfg]{
		{"filter_subjects", "--filter", func(c cfg) string { return sorted(append([]string{c.FilterSubject}, c.FilterSubjects...)) }},
		{"ack_policy", "", func(c cfg) string { return c.AckPolicy.String() }},
		{"ack_wait", "--wait", func(c cfg) string { return c.AckWait.String() }},
		{"max_deliver", "--max-deliver", func(c cfg) string { return strconv.Itoa(c.MaxDeliver) }},
		{"max_ack_pending", "--max-pending", func(c cfg) string { return strconv.Itoa(c.MaxAckPending) }},
		{"backoff", "--backoff", func(c cfg) string {
			if len(c.BackOff) == 0 {
				return "none"
			}
			return fmt.Sprint(c.BackOff)
		}},
		{"headers_only", "--headers-only", func(c cfg) string { return strconv.FormatBool(c.HeadersOnly) }},
		{"inactive_threshold", "--inactive-threshold", func(c cfg) string { return c.InactiveThreshold.String() }},
		{"deliver_subject", "", func(c cfg) string { return c.DeliverSubject }},
		{"priority_policy", "", func(c cfg) string { return fmt.Sprint(c.PriorityPolicy) }},
	}
}

// option writes the flag that sets the value. The nats CLI knows --x and --no-x, not --x=false.
func (s setting[C]) option(value string) string {
	switch value {
	case "true":
		return s.flag
	case "false":
		return "--no-" + strings.TrimPrefix(s.flag, "--")
	}
	return s.flag + "=" + value
}

func sorted(names []string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" })
	slices.Sort(names)
	return strings.Join(names, ",")
}

// differences compares two configurations. edit has the flags that correct them, and is nil if one of
// the fields cannot be edited.
func differences[C any](settings []setting[C], have, want C) (drifts []Drift, edit []string) {
	fixed := false
	for _, s := range settings {
		h, w := s.value(have), s.value(want)
		if h == w {
			continue
		}
		drifts = append(drifts, Drift{s.field, h, w})
		edit = append(edit, s.option(w))
		fixed = fixed || s.flag == ""
	}
	if fixed {
		edit = nil
	}
	return drifts, edit
}

// updatedStream is a configuration with all the settings of [streamSettings] that the server changes in place as they are wanted. How much a
// stream may hold is the operator's choice; that there is a limit, where one is wanted, is not.
func updatedStream(have, want jetstream.StreamConfig) jetstream.StreamConfig {
	if have.MaxMsgs <= 0 {
		have.MaxMsgs = want.MaxMsgs
	}
	if have.MaxBytes <= 0 {
		have.MaxBytes = want.MaxBytes
	}
	have.Subjects, have.Discard, have.DiscardNewPerSubject = want.Subjects, want.Discard, want.DiscardNewPerSubject
	have.MaxAge, have.MaxMsgSize, have.MaxMsgsPerSubject, have.Duplicates = want.MaxAge, want.MaxMsgSize, want.MaxMsgsPerSubject, want.Duplicates
	have.AllowDirect, have.AllowRollup = want.AllowDirect, want.AllowRollup
	return have
}

// updatedConsumer is the same of a consumer and [consumerSettings].
func updatedConsumer(have, want jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	have.FilterSubject, have.FilterSubjects = want.FilterSubject, want.FilterSubjects
	have.AckWait, have.MaxDeliver, have.MaxAckPending, have.BackOff = want.AckWait, want.MaxDeliver, want.MaxAckPending, want.BackOff
	have.HeadersOnly, have.InactiveThreshold = want.HeadersOnly, want.InactiveThreshold
	return have
}

// streamDrift is nil or a *DriftError.
func streamDrift(have, want jetstream.StreamConfig) error {
	updated := updatedStream(have, want)
	want.MaxMsgs, want.MaxBytes = updated.MaxMsgs, updated.MaxBytes
	drifts, edit := differences(streamSettings(), have, want)
	if len(drifts) == 0 {
		return nil
	}
	e := &DriftError{Kind: "stream", Name: want.Name, Fields: drifts, Fixed: edit == nil}
	if edit != nil {
		e.Remedy = fmt.Sprintf("nats stream edit %s %s", want.Name, strings.Join(edit, " "))
	} else {
		e.Remedy = fmt.Sprintf("nats stream rm %s (its messages are lost: first let the workers finish them, or keep a copy "+
			"with nats stream backup %[1]s DIR; submitter admin init creates it anew)", want.Name)
	}
	return e
}

// consumerDrift is nil or a *DriftError.
func consumerDrift(stream string, have, want jetstream.ConsumerConfig) error {
	drifts, edit := differences(consumerSettings(), have, want)
	if len(drifts) == 0 {
		return nil
	}
	e := &DriftError{Kind: "consumer", Name: want.Durable, Fields: drifts, Fixed: edit == nil}
	if edit != nil {
		e.Remedy = fmt.Sprintf("nats consumer edit %s %s %s", stream, want.Durable, strings.Join(edit, " "))
	} else {
		e.Remedy = fmt.Sprintf("nats consumer rm %s %s (no job is lost; submitter admin init creates it anew)", stream, want.Durable)
	}
	return e
}
