package wire

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermenthq/ferment/sdk/contract"
)

// The server ends a call at its deadline too, on a busy machine before the
// context of the call has ended. Both give the same error.
func TestDeadlineNoticedByTheServer(t *testing.T) {
	for code, deadline := range map[codes.Code]bool{codes.DeadlineExceeded: true, codes.Unavailable: false} {
		err := transport(t.Context(), "drain", status.Error(code, "the stream ended"))
		assert.Equal(t, deadline, errors.Is(err, contract.OfType("timeout/hard")), code)
		assert.Equal(t, deadline, errors.Is(err, context.DeadlineExceeded), code)
		assert.True(t, Transport(err), code)
	}
}

// WIRE-001, SUP-005: a failed TLS handshake is a violation of the contract, not a lost connection: another start would fail too. A
// handshake that was cut may succeed the next time.
func TestTLSThatFails(t *testing.T) {
	const lead = "connection error: desc = \"transport: authentication handshake failed: "
	for text, typ := range map[string]string{
		lead + "tls: failed to verify certificate: x509: certificate signed by unknown authority\"": "runtime/protocol",
		lead + "tls: first record does not look like a TLS handshake\"":                             "runtime/protocol",
		lead + "remote error: tls: bad certificate\"":                                               "runtime/protocol",
		lead + "EOF\"": "runtime/crashed",
		"error reading from server: remote error: tls: internal error": "runtime/crashed",
	} {
		err := transport(t.Context(), "describe", status.Error(codes.Unavailable, text))
		assert.Equal(t, typ, err.Type, text)
		assert.True(t, Transport(err), text)
	}
}
