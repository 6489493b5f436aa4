package natsembed

import (
	"fmt"
	"log/slog"
)

// logger hands what the server logs to slog. Notices, which tell of every start and stop, go to the debug level.
type logger struct {
	log    *slog.Logger
	failed chan<- error // gets the first fatal error, on which nats-server's own logger would end the process
}

func (l *logger) Noticef(format string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(format, v...)) }
func (l *logger) Warnf(format string, v ...any)   { l.log.Warn("nats: " + fmt.Sprintf(format, v...)) }
func (l *logger) Errorf(format string, v ...any)  { l.log.Error("nats: " + fmt.Sprintf(format, v...)) }
func (l *logger) Debugf(string, ...any)           {}
func (l *logger) Tracef(string, ...any)           {}

func (l *logger) Fatalf(format string, v ...any) {
	select {
	case l.failed <- fmt.Errorf(format, v...):
	default:
		l.Errorf(format, v...)
	}
}
