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
