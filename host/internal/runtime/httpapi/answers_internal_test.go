package httpapi

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// HTTP-008: the error canceled is not kept as an answer. A canceled action may be repeated
// with its key, unless the shutdown of the daemon canceled it: then its outcome is unknown.
func TestCanceledIsNoAnswer(t *testing.T) {
	for name, row := range map[string]struct {
		stops bool
		again string
	}{"by itself": {false, "canceled"}, "by the end of the daemon": {true, "effects/outcome-unknown"}} {
		t.Run(name, func(t *testing.T) {
			a, calls := &API{}, 0
			a.working, a.stop = context.WithCancel(t.Context())
			defer a.stop()
			x := &exchange{api: a, w: httptest.NewRecorder(), r: httptest.NewRequestWithContext(t.Context(), "POST", "/v1/admin", nil)}
			var answers MemoryAnswers
			once := func() reply {
				r, _ := x.once(&answers, &Action{Name: "gc", space: "admin"}, "k", edn.MustMap(), func(ctx context.Context) reply {
					if calls++; row.stops {
						a.stop()
						<-ctx.Done()
					}
					return formAdmin.failure(contract.Errorf("canceled", "no longer needed"))
				})
				return r
			}
			first := once()
			require.NotNil(t, first.err)
			assert.Equal(t, "canceled", first.err.Type)
			again := once()
			require.NotNil(t, again.err)
			assert.Equal(t, row.again, again.err.Type)
			assert.Equal(t, map[bool]int{true: 1, false: 2}[row.stops], calls)
		})
	}
}
