package act

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// RUN-006: a run whose deadline passed before it began or went on ends because of the
// deadline, and one that was canceled because of that.
func TestErrorOfRunThatDidNotBegin(t *testing.T) {
	late, stop := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer stop()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, past := range []*journal.History{nil, {Active: true}} {
		assert.Equal(t, "queue/deadline-exceeded", (&flight{ctx: late, past: past}).unbegun().Type)
		assert.Equal(t, "canceled", (&flight{ctx: canceled, past: past}).unbegun().Type)
	}
}
