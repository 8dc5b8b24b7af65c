package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// TransportError marks an error of the connection, as opposed to an answer of
// the peer. A *contract.Error of this package wraps it.
type TransportError struct {
	Code codes.Code
	Err  error
}

// Error implements error.
func (e *TransportError) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.text()) }

// Unwrap returns the error of the gRPC library.
func (e *TransportError) Unwrap() error { return e.Err }

// Is makes a deadline that the server noticed first equal to the deadline of
// the call's context.
func (e *TransportError) Is(target error) bool {
	return target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded
}

func (e *TransportError) text() string {
	if s, ok := status.FromError(e.Err); ok {
		return s.Message()
	}
	return e.Err.Error()
}

// Transport reports whether err came from the connection, so that the effect of
// the call at the peer is unknown.
func Transport(err error) bool {
	var t *TransportError
	return errors.As(err, &t)
}

// notItself returns the reason why a TLS handshake failed, if the server does not have
// the certificate of the handshake line or does not accept that of the host. Another
// connection would fail in the same way. The gRPC library passes on only the text of the
// error of package tls.
func notItself(text string) (why string, ok bool) {
	for _, row := range []struct{ part, why string }{
		{"tls: failed to verify certificate", "the certificate in the handshake line is not that of the server"},
		{"tls: first record does not look like a TLS handshake",
			"the server does not speak TLS, and the host requires mutual TLS"},
		{"remote error: tls: ", "the server refuses the certificate of the host"},
	} {
		if strings.Contains(text, "authentication handshake failed: ") && strings.Contains(text, row.part) {
			return row.why, true
		}
	}
	return "", false
}

// transport converts an error of the gRPC library to a typed error. If ctx, the
// context of the call, has ended, its cause is the better explanation.
func transport(ctx context.Context, op string, err error) *contract.Error {
	var typed *contract.Error
	if errors.As(err, &typed) {
		return typed
	}
	if ended := endOf(ctx, op); ended != nil {
		return ended
	}
	if errors.Is(err, io.EOF) {
		return contract.Errorf("runtime/protocol", "%s: the stream ended without a result or an error", op)
	}
	line := &TransportError{Code: status.Code(err), Err: err}
	switch line.Code {
	case codes.Unavailable, codes.Canceled, codes.Aborted:
		if why, ok := notItself(line.Error()); ok {
			return contract.Errorf("runtime/protocol", "%s: %s: %w", op, why, line)
		}
		return contract.Errorf("runtime/crashed", "%s: the connection was lost: %w", op, line)
	case codes.DeadlineExceeded:
		return contract.Errorf("timeout/hard", "%s: %w", op, line)
	case codes.ResourceExhausted, codes.Unimplemented, codes.Internal, codes.InvalidArgument, codes.DataLoss:
		return contract.Errorf("runtime/protocol", "%s: %w", op, line)
	}
	return contract.Errorf("runtime/invoke-failed", "%s: %w", op, line)
}

// endOf returns the error for a context that has ended, otherwise nil.
func endOf(ctx context.Context, op string) *contract.Error {
	ended := ctx.Err()
	if ended == nil {
		return nil
	}
	cause := context.Cause(ctx)
	var typed *contract.Error
	if errors.As(cause, &typed) {
		return typed
	}
	line := &TransportError{Code: codes.Canceled, Err: cause}
	if errors.Is(ended, context.DeadlineExceeded) {
		line.Code = codes.DeadlineExceeded
		return contract.Errorf("timeout/hard", "%s: the deadline passed: %w", op, line)
	}
	return contract.Errorf("canceled", "%s: the caller canceled the call: %w", op, line)
}

// errorFrom reads an error from a peer. Details beyond MaxErrorDetails are
// replaced by their size, because records and answers repeat them.
func errorFrom(v edn.Value, from contract.Source) *contract.Error {
	e := contract.ErrorFromValue(v, from)
	left := MaxErrorDetails
	for c := range e.Chain() {
		size := len(c.Where.Canonical()) + len(c.Details.Canonical())
		if left -= size; left < 0 {
			c.Where, c.Details = edn.Nil(), edn.MustMap(edn.K("left-out-bytes"), edn.Int(int64(size)))
			left += size
		}
	}
	return e
}
