package plugin

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

// tailInError is the number of last output lines in an error. The transition has all lines that
// were kept.
const tailInError = 5

// failure is a failed start, with the facts that the machine needs to decide
// about the next one.
type failure struct {
	cause     Cause
	err       *contract.Error
	permanent bool
	refused   bool // the configuration does not permit the start
	uncounted bool
	report    *launch.Report
}

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns err.
func (f *failure) Unwrap() error { return f.err }

// crashError returns the error for a process that ended. Every call that it interrupted gets this
// value.
func crashError(name string, incarnation int, r launch.Report, calls int) *contract.Error {
	how := "ended with " + r.Exit.String()
	switch {
	case !r.Exited:
		how = "did not end after SIGKILL"
	case r.Exit.Signal != 0:
		how = "was " + r.Exit.String()
	}
	if len(r.Panic) > 0 {
		how += " (" + r.Panic[0] + ")"
	}
	e := contract.Errorf("runtime/crashed", "plugin %s (instance %d) %s", name, incarnation, how)
	return withReport(e, incarnation, r).WithDetail("calls", edn.Int(int64(calls)))
}

// withReport adds the report of a process to the details of an error.
func withReport(e *contract.Error, incarnation int, r launch.Report) *contract.Error {
	e = e.WithDetail("generation", edn.Int(int64(incarnation)))
	if r.PID != 0 {
		e = e.WithDetail("pid", edn.Int(int64(r.PID)))
	}
	switch {
	case !r.Exited || r.Killed: // the host stopped it
	case r.Exit.Signal != 0:
		e = e.WithDetail("signal", edn.Int(int64(r.Exit.Signal)))
	default:
		e = e.WithDetail("exit", edn.Int(int64(r.Exit.Code)))
	}
	if r.Output != "" {
		e = e.WithDetail("stdout", edn.Text(r.Output))
	}
	if len(r.Tail) > 0 {
		last := r.Tail[max(0, len(r.Tail)-tailInError):]
		lines := make([]edn.Value, len(last))
		for i, l := range last {
			lines[i] = edn.Text(l)
		}
		e = e.WithDetail("stderr-tail", edn.Vector(lines...))
	}
	return e
}

// startFailure classifies a failed start. err is the cause; it is kept if it is a *contract.Error.
func startFailure(name string, incarnation int, err error, r launch.Report) *failure {
	f := &failure{cause: CauseStartFailed}
	if r.PID != 0 {
		f.report = &r
	}
	var typed *contract.Error
	switch {
	case cannotExecute(err):
		f.cause, f.permanent = CauseMissing, true
		f.err = contract.Errorf("runtime/start-failed", "%w", err)
	case errors.As(err, &typed):
		f.err = typed
	default:
		if sentence, ok := protocolSentence(r.Tail); ok {
			f.err = contract.Errorf("runtime/protocol", "%s", sentence)
		} else {
			f.err = contract.Errorf("runtime/start-failed", "%w", err)
		}
	}
	switch {
	case f.err.Type == "runtime/protocol", f.err.Type == "capability/invalid-metadata":
		f.cause, f.permanent = CauseProtocol, true
	case f.err.Type == "runtime/integrity":
		f.cause, f.permanent = CauseIntegrity, true
	case f.err.Type == "config/plugin-schema":
		f.cause, f.permanent = CauseConfig, true
	case errors.Is(err, errRefused):
		f.cause, f.refused = CauseIsolation, true
	case f.err.Source == contract.SourceDownstream:
		f.uncounted = true
	}
	f.err = withReport(f.err.WithOp("start", "plugin "+name), incarnation, r)
	return f
}

// cannotExecute reports whether the program is missing or not executable, as
// opposed to one that fails.
func cannotExecute(err error) bool {
	for _, permanent := range []error{errNoFile, fs.ErrNotExist, fs.ErrPermission, syscall.ENOEXEC, syscall.ENOTDIR} {
		if errors.Is(err, permanent) {
			return true
		}
	}
	return false
}

// protocolSentence returns the line that a plugin with another protocol version prints before it
// exits (WIRE-005).
func protocolSentence(tail []string) (string, bool) {
	for _, line := range tail {
		if at := strings.Index(line, "the plugin speaks protocol "); at >= 0 {
			return line[at:], true
		}
	}
	return "", false
}

// findingsError returns the error for a configuration that the plugin rejects.
func findingsError(findings []schema.Finding) *contract.Error {
	values := make([]edn.Value, len(findings))
	for i, f := range findings {
		values[i] = f.Value()
	}
	first := findings[0]
	e := contract.Errorf("config/plugin-schema", "the plugin refuses its configuration at %s: %s",
		edn.Vector(first.Path...), first.Message)
	return e.WithDetail("findings", edn.Vector(values...))
}

// callError derives the type of an error from the gRPC status code (evaluation.md section 15) in
// cases where the wire package lacks the information.
func callError(err error) *contract.Error {
	e := contract.AsError(err)
	var line *wire.TransportError
	if !errors.As(err, &line) {
		return e
	}
	switch {
	case line.Code == codes.Unavailable && neverSent(line):
		return contract.Errorf("runtime/not-ready", "invoke: the plugin could not be reached: %w", line)
	case line.Code == codes.ResourceExhausted && !tooLarge(line):
		return contract.Errorf("runtime/overloaded", "invoke: %w", line).WithSource(contract.SourcePlugin)
	}
	return e
}

// neverSent reports whether dialing failed, so that nothing of the call was sent.
func neverSent(line *wire.TransportError) bool {
	return strings.Contains(line.Error(), "connection error: desc = ")
}

// tooLarge reports whether a message was over the size limit, which has the same status code as
// overload.
func tooLarge(line *wire.TransportError) bool {
	return strings.Contains(line.Error(), " larger than max ")
}
