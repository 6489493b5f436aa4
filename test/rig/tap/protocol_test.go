package tap

import (
	"bytes"
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seen copies an Op, whose payload is not to be kept.
func seen(o *Op) Op {
	c := *o
	c.Payload, c.Done = bytes.Clone(o.Payload), nil
	return c
}

var parsed = []struct {
	name   string
	client bool
	text   string
	want   Op
}{
	{"publish", true, "PUB jobs.a 5\r\nhello\r\n", Op{Verb: "PUB", Subject: "jobs.a", Payload: []byte("hello")}},
	{"publish with a reply", true, "pub\tjobs.a  _INBOX.1 \t 2\r\n\r\n\r\n", Op{Verb: "PUB", Subject: "jobs.a", Reply: "_INBOX.1", Payload: []byte("\r\n")}},
	{"publish nothing", true, "PUB a 0\n\r\n", Op{Verb: "PUB", Subject: "a", Payload: []byte{}}},
	{"publish a header", true, "HPUB a 29 31\r\nNATS/1.0\r\nnats-Msg-Id:a.b\r\n\r\nhi\r\n", Op{Verb: "HPUB", Subject: "a", Header: textproto.MIMEHeader{"nats-Msg-Id": {"a.b"}}, Payload: []byte("hi")}},
	{"publish a header with a reply", true, "HPUB a r 28 28\r\nNATS/1.0\r\nA: 1\r\nA: 2\r\nB:\r\n\r\n\r\n",
		Op{Verb: "HPUB", Subject: "a", Reply: "r", Header: textproto.MIMEHeader{"A": {"1", "2"}, "B": {""}}, Payload: []byte{}}},
	{"subscribe", true, "Sub jobs.> workers 12\r\n", Op{Verb: "SUB", Subject: "jobs.>"}},
	{"unsubscribe", true, "UNSUB 12 1\r\n", Op{Verb: "UNSUB"}},
	{"connect", true, "CONNECT {\"name\":\"a b\"}\r\n", Op{Verb: "CONNECT", Payload: []byte(`{"name":"a b"}`)}},
	{"ping of the client", true, "ping\r\n", Op{Verb: "PING"}},
	{"pong of the client", true, "PONG\r\n", Op{Verb: "PONG"}},
	{"message", false, "MSG jobs.a 1 3\r\nabc\r\n", Op{Verb: "MSG", Subject: "jobs.a", Payload: []byte("abc")}},
	{"message with a reply", false, "msg jobs.a 1 $JS.ACK.x 3\r\nMSG\r\n", Op{Verb: "MSG", Subject: "jobs.a", Reply: "$JS.ACK.x", Payload: []byte("MSG")}},
	{"message with a header", false, "HMSG a 1 r 18 19\r\nNATS/1.0\r\nK: v\r\n\r\nx\r\n",
		Op{Verb: "HMSG", Subject: "a", Reply: "r", Header: textproto.MIMEHeader{"K": {"v"}}, Payload: []byte("x")}},
	{"status", false, "HMSG a 1 28 28\r\nNATS/1.0 404 No Messages\r\n\r\n\r\n", Op{Verb: "HMSG", Subject: "a", Header: textproto.MIMEHeader{}, Status: "404", Payload: []byte{}}},
	{"status alone", false, "HMSG a 1 16 16\r\nNATS/1.0 100\r\n\r\n\r\n", Op{Verb: "HMSG", Subject: "a", Header: textproto.MIMEHeader{}, Status: "100", Payload: []byte{}}},
	{"information", false, "INFO {\"server_id\":\"x\"} \r\n", Op{Verb: "INFO", Payload: []byte(`{"server_id":"x"}`)}},
	{"ok", false, "+ok\r\n", Op{Verb: "+OK"}},
	{"error", false, "-ERR 'Unknown Protocol Operation'\r\n", Op{Verb: "-ERR", Payload: []byte("'Unknown Protocol Operation'")}},
	{"ping of the server", false, "PING\r\n", Op{Verb: "PING"}},
	{"pong of the server", false, "PONG \r\n", Op{Verb: "PONG"}},
}

func TestOperations(t *testing.T) {
	for _, tt := range parsed {
		t.Run(tt.name, func(t *testing.T) {
			for cut := range len(tt.text) + 1 {
				var got []Op
				var out bytes.Buffer
				s := sieve{out: &out, fromClient: tt.client, conn: 7, on: func(o *Op) Verdict {
					if out.Len() > 0 {
						t.Error("bytes were passed on before anybody was asked")
					}
					got = append(got, seen(o))
					return Pass
				}}
				n, err := s.pass([]byte(tt.text[:cut]))
				if err != nil {
					t.Fatalf("the first %d bytes: %v", cut, err)
				}
				if cut < len(tt.text) && n != 0 {
					t.Fatalf("took %d of the first %d bytes", n, cut)
				}
				if _, err := s.pass([]byte(tt.text)[n:]); err != nil {
					t.Fatal(err)
				}
				want := tt.want
				want.Conn, want.FromClient = 7, tt.client
				if d := cmp.Diff([]Op{want}, got); d != "" {
					t.Fatalf("cut at %d: %s", cut, d)
				}
				if out.String() != tt.text {
					t.Fatalf("passed on %q, want %q", out.String(), tt.text)
				}
			}
		})
	}
}

func TestNotOperations(t *testing.T) {
	for _, tt := range []struct {
		name   string
		client bool
		text   string
	}{
		{"another protocol", true, "GET / HTTP/1.1\r\n"},
		{"TLS", true, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03"},
		{"of the other side", true, "MSG a 1 0\r\n\r\n"},
		{"of the client", false, "PUB a 0\r\n\r\n"},
		{"no subject", true, "PUB 5\r\nhello\r\n"},
		{"too many arguments", true, "PUB a b c 5\r\nhello\r\n"},
		{"a size that is none", true, "PUB a -5\r\nhello\r\n"},
		{"a size over the limit", true, "PUB a 16777217\r\n"},
		{"a size beyond numbers", true, "PUB a 99999999999999999999999999\r\n"},
		{"longer than it says", true, "PUB a 5\r\nhello!\r\n"},
		{"a header larger than all", true, "HPUB a 12 10\r\nNATS/1.0\r\n\r\n\r\n"},
		{"a header that is none", true, "HPUB a 2 2\r\nhi\r\n"},
		{"a header without an end", true, "HPUB a 10 10\r\nNATS/1.0\r\n\r\n"},
		{"a header line without a colon", true, "HPUB a 17 17\r\nNATS/1.0\r\nabc\r\n\r\n\r\n"},
		{"an empty line", true, "\r\n"},
		{"information that is none", false, "INFO x\r\n"},
		{"a line without an end", true, "CONNECT " + strings.Repeat("x", maxLine)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			s := sieve{out: &out, fromClient: tt.client, on: func(*Op) Verdict { return Pass }}
			before := "PING\r\n"
			n, err := s.pass([]byte(before + tt.text))
			if !errors.Is(err, errUnparsable) {
				t.Fatalf("pass = %d, %v, want errUnparsable", n, err)
			}
			if out.String() != before {
				t.Errorf("passed on %q, want what was before: %q", out.String(), before)
			}
		})
	}
}

func TestLargestOperation(t *testing.T) {
	text := append(fmt.Appendf(nil, "PUB a %d\r\n", maxPayload), make([]byte, maxPayload)...)
	text = append(text, "\r\n"...)
	var out bytes.Buffer
	s := sieve{out: &out, fromClient: true}
	if n, err := s.pass(text); n != len(text) || err != nil || !bytes.Equal(out.Bytes(), text) {
		t.Errorf("pass = %d, %v, and %d bytes came out; want all %d", n, err, out.Len(), len(text))
	}
}

func TestVerdicts(t *testing.T) {
	const before, op, after = "PING\r\n", "PUB a 1\r\nx\r\n", "PUB b 1\r\ny\r\n"
	for _, tt := range []struct {
		verdict Verdict
		want    string
		err     error
	}{
		{Pass, before + op + after, nil},
		{Lose, before + after, nil},
		{Cut, before, errCut},
		{Reset, before, errReset},
	} {
		var out bytes.Buffer
		s := sieve{out: &out, fromClient: true, on: func(o *Op) Verdict {
			if o.Subject == "a" {
				if out.String() != before {
					t.Errorf("asked about the second operation when %q had passed, want %q", out.String(), before)
				}
				return tt.verdict
			}
			return Pass
		}}
		if _, err := s.pass([]byte(before + op + after)); !errors.Is(err, tt.err) || out.String() != tt.want {
			t.Errorf("verdict %d: %q passed, %v; want %q, %v", tt.verdict, out.String(), err, tt.want, tt.err)
		}
	}
}

func TestInformationLeadsNobodyPast(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`INFO {"host":"127.0.0.1","port":4222,"connect_urls":["127.0.0.1:4222"],"client_ip":"127.0.0.1","max_payload":9007199254740993}` + "\r\n",
			`INFO {"host":"127.0.0.1","max_payload":9007199254740993,"port":4222}` + "\r\n"},
		{"info  {\"a\": \"<&>\",\"client_ip\":\"::1\"}\r\nPING\r\n", "INFO {\"a\":\"<&>\"}\r\nPING\r\n"},
		{"info  {\"a\": 1}\r\n", "info  {\"a\": 1}\r\n"},
	} {
		for _, on := range []func(*Op) Verdict{nil, func(*Op) Verdict { return Pass }} {
			var out bytes.Buffer
			s := sieve{out: &out, on: on}
			if _, err := s.pass([]byte(tt.text)); err != nil || out.String() != tt.want {
				t.Errorf("%q became %q, %v; want %q", tt.text, out.String(), err, tt.want)
			}
		}
	}
}

// TestWithoutAnybodyToAsk makes sure that operations then pass together.
func TestWithoutAnybodyToAsk(t *testing.T) {
	text := []byte(strings.Repeat("MSG a 1 3\r\nabc\r\n", 100))
	var out writes
	s := sieve{out: &out}
	allocs := testing.AllocsPerRun(10, func() {
		out = 0
		if n, err := s.pass(text); n != len(text) || err != nil {
			t.Errorf("pass = %d, %v", n, err)
		}
	})
	if out != 1 || allocs > 3 {
		t.Errorf("100 messages were %d writes and %.0f allocations, want 1 write", out, allocs)
	}
}

type writes int

func (w *writes) Write(b []byte) (int, error) { *w++; return len(b), nil }

// FuzzOperations holds that bytes come out as they went in, however they are cut, up to what cannot be parsed.
func FuzzOperations(f *testing.F) {
	for _, tt := range parsed {
		f.Add([]byte(tt.text+tt.text), 3, tt.client)
	}
	f.Add([]byte("PUB a 16777217\r\n"), 5, true)
	f.Add([]byte("HPUB a 2 1\r\n\n\r\n"), 1, true)
	f.Fuzz(func(t *testing.T, b []byte, cut int, client bool) {
		if bytes.Contains(bytes.ToUpper(b), []byte("INFO")) {
			return // the one that is written anew, see TestInformationLeadsNobodyPast
		}
		var out bytes.Buffer
		ops := 0
		s := sieve{out: &out, fromClient: client, on: func(*Op) Verdict { ops++; return Pass }}
		whole, wholeErr := s.pass(b)
		if !bytes.Equal(out.Bytes(), b[:whole]) {
			t.Fatalf("%q came out, want %q", out.Bytes(), b[:whole])
		}
		if whole > 0 != (ops > 0) && wholeErr == nil {
			t.Fatalf("%d bytes were %d operations", whole, ops)
		}
		out.Reset()
		cut = min(max(cut, 0), len(b))
		n, err := s.pass(b[:cut])
		if err == nil {
			var m int
			m, err = s.pass(b[n:])
			n += m
		}
		if n != whole || (err == nil) != (wholeErr == nil) || !bytes.Equal(out.Bytes(), b[:whole]) {
			t.Fatalf("cut at %d: took %d, %v, and %q came out; whole: %d, %v", cut, n, err, out.Bytes(), whole, wholeErr)
		}
	})
}
