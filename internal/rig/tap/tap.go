// Package tap sits on a wire between two processes: it shows what passes, can stop it at an exact step, and makes the network as bad as asked for.
//
// A NATS tap understands the client protocol, an HTTP tap requests and answers, a raw one only bytes. All listen on a
// loopback port that stays the same until Close, also while nobody listens at the target.
package tap

import (
	"net/http"
	"net/textproto"
	"time"
)

// Conditions is the weather on a wire, in both directions. The zero value is a good day.
type Conditions struct {
	Delay          time.Duration // added to every piece, which keep their order
	BytesPerSecond int           // 0: no limit
	Drop           bool          // nothing passes any more, and nobody is told, as behind a firewall that drops
	Refuse         bool          // new connections are reset at once
}

// Op is one operation of a NATS connection, about to be passed on.
type Op struct {
	Conn       int                  // counts the connections of this tap, from 1
	FromClient bool                 // PUB, HPUB, SUB, … of the client; else MSG, HMSG, INFO, … of the server
	Verb       string               // upper case
	Subject    string               // of PUB, HPUB, MSG, HMSG, SUB
	Reply      string               // of the first four, if there is one
	Header     textproto.MIMEHeader // of HPUB and HMSG; keys exactly as sent
	Status     string               // of an HMSG that is a status: "404", "408", "100", …
	Payload    []byte               // not to be kept or changed
}

// Verdict says what becomes of an operation or request.
type Verdict int

// The verdicts.
const (
	Pass  Verdict = iota // on to the other side
	Cut                  // not passed on: both connections are closed
	Reset                // the same with a TCP reset to both
	Lose                 // not passed on, and the connection goes on
)

// NATSOptions describe a NATS tap.
type NATSOptions struct {
	Target string // host:port of the server
	// On is asked about each operation, one at a time for each direction of a connection, and may take its time: that direction
	// waits meanwhile. It may be nil.
	On func(*Op) Verdict
}

// Exchange is one HTTP request on its way.
type Exchange struct {
	Request *http.Request // its Body was read into Body; context ends when the client goes away
	Body    []byte
}

// Answer is what an HTTP tap does with a request. The zero value passes it on.
type Answer struct {
	Verdict  Verdict       // Lose: it is never answered, until the client goes away
	Status   int           // not 0: answered with this, by the tap itself
	Header   http.Header   // of that answer
	Text     string        // its body
	Cut      int           // not 0: the target's answer is cut off, by closing the connection, after so many bytes of body
	Hang     int           // not 0: it stops after so many bytes, and never ends until the client goes away
	Append   string        // written after so many bytes (Cut) instead of closing with an error: the answer ends regularly then
	Flip     int           // not 0: bit 0 of the body's byte at this offset (from 1) is flipped
	Answered func()        // called when the answer has begun to pass, before its first byte; may be nil, may wait
	Ended    func()        // called when the exchange is over; may be nil
	Delay    time.Duration // before it is passed on
}

// HTTPOptions describe an HTTP tap.
type HTTPOptions struct {
	Target string                 // host:port of the server, which may change: see SetTarget
	On     func(*Exchange) Answer // asked about each request; may be nil, may wait
}

// Tap is a wire with somebody on it.
//
//	func ListenNATS(o NATSOptions) (*Tap, error)
//	func ListenHTTP(o HTTPOptions) (*Tap, error)
//	func ListenRaw(target string) (*Tap, error)
//	func (t *Tap) Addr() string            // where it listens, host:port
//	func (t *Tap) Set(c Conditions)        // from now on, for existing connections as well
//	func (t *Tap) Cut()                    // closes every connection that exists
//	func (t *Tap) Reset()                  // the same with a TCP reset
//	func (t *Tap) SetTarget(addr string)   // for connections from now on
//	func (t *Tap) Close() error            // returns when all its goroutines have ended
type Tap struct{}
