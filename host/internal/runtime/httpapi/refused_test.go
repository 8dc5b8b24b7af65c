package httpapi_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
)

// AUTH-013, AUTH-030: a request over the admin socket without the token of the daemon is in
// the audit trail like refused credentials elsewhere: a plugin that tries to become
// administrator is what an operator must see. A flood of them does not fill the trail.
func TestRefusedOnTheAdminSocket(t *testing.T) {
	w := newWorld(t, func(s *httpapi.Settings) { s.Limits.AnonymousRate = config.Rate{Events: 2, Per: time.Hour} })
	try := func(header ...string) {
		got := w.through(w.admin, "localhost", "POST /v1/admin", `{"action":"list-users"}`, header...)
		assert.Equal(t, http.StatusUnauthorized, got.status)
	}
	try()
	try("Authorization", "Bearer another")
	all := w.denied()
	require.Len(t, all, 2)
	for _, d := range all {
		assert.Equal(t, "auth/failed", d.Event)
		assert.Equal(t, fmt.Sprintf("uid/%d", os.Geteuid()), d.Principal)
		assert.Equal(t, "auth/unauthorized", d.Reason)
	}
	for range 10 {
		try()
	}
	assert.Len(t, w.denied(), 2, "twice the rate of callers without credentials")
	assert.Equal(t, http.StatusOK, w.operator("POST /v1/admin", `{"action":"list-users"}`).status)
	assert.Empty(t, w.denied())
}

// JRN-006: while the audit trail cannot record, an action that changes something is refused
// and not executed. A look, and what an operator needs on a full disk, are not refused.
func TestActionsThatCannotBeRecorded(t *testing.T) {
	w := newWorld(t)
	w.unrecorded.Store(contract.Errorf("journal/full", "the disk is full"))
	do := func(body string) answer { return w.operator("POST /v1/admin", body) }
	assert.Equal(t, "journal/full", do(`{"action":"create-user","user":"ann"}`).failure(t))
	assert.Equal(t, "journal/full", w.operator("POST /v1/runs/"+sampleRun+"/pin", "").failure(t))
	w.unrecorded.Store(nil)
	assert.Equal(t, http.StatusNotFound, do(`{"action":"show-user","user":"ann"}`).status, "it was not executed")

	w.unrecorded.Store(contract.Errorf("journal/full", "the disk is full"))
	for _, body := range []string{`{"action":"status"}`, `{"action":"list-users"}`, `{"action":"drain"}`, `{"action":"gc"}`} {
		assert.Less(t, do(body).status, 300, body)
	}
}
