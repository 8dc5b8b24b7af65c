//go:build slow

package cli_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// CNV-021: a daemon is killed at any moment of a send. No text of the user is lost: it
// is a turn with its answer, once, or a draft; there is never half a turn. What a client
// was told is committed.
func TestConversationKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatting(`{:stream ["a" "h" "a"] :chunk-ms 15 :value {:text "aha" :finish :stop}}`)...)
	random := rand.New(rand.NewPCG(killSeed, 8))
	s := w.serve()
	opened := s.request(t.Context(), "POST", "/v1/act", envelopeOf("conversation/open", `{:conversation/id "c-01"}`, ""))
	require.Equal(t, 200, opened.status, "%s", opened.body)
	told := map[string]bool{}
	for round := range proof.Size(t, "kills in a send", 12, 200) {
		if round > 0 {
			s = w.serve()
		}
		if round%2 == 0 { // no run is under way in three kills in a row
			require.Eventually(t, func() bool { return len(w.recorded(t, "open")) == 0 }, runLimit, 5*time.Millisecond)
		}
		said := fmt.Sprint("say ", round)
		answered := make(chan bool, 1)
		go func() {
			a := s.request(context.Background(), "POST", "/v1/act",
				envelopeOf("conversation/send", fmt.Sprintf(`{:conversation/id "c-01" :text %q}`, said), ""))
			answered <- a.err == nil && a.status == 200
		}()
		<-time.NewTimer(time.Duration(random.IntN(100)) * time.Millisecond).C
		s.signal(syscall.SIGKILL)
		s.wait()
		told[said] = <-answered
		require.Empty(t, w.left(runLimit))
	}
	s = w.serve()
	require.Eventually(t, func() bool { return len(w.recorded(t, "open")) == 0 }, runLimit, 5*time.Millisecond)
	path, drafts := w.texts(t, "c-01"), w.say(t, "get", `{:conversation/id "c-01" :window 0}`).Key("drafts").String()
	s.stop()
	answers := map[string]string{}
	if path != "" {
		all := strings.Split(path, "|")
		require.Zero(t, len(all)%2, "half a turn: %s", path)
		for i := 0; i < len(all); i += 2 {
			require.NotContains(t, answers, all[i], "a text is there twice: %s", path)
			answers[all[i]] = all[i+1]
		}
	}
	kept := openStore(t, w)
	defer func() { require.NoError(t, kept.Close()) }()
	runs, err := kept.Runs(t.Context(), store.Filter{Limit: 100_000})
	require.NoError(t, err)
	resumed := 0
	for _, run := range runs {
		records, err := kept.Read(t.Context(), run.ID, 0, 1)
		require.NoError(t, err)
		said, asked := records[0].Body.(*journal.RunAccepted).Request.Value().Key("input").Key("text").AsString()
		if !asked {
			continue
		}
		if run.Epoch > 1 {
			resumed++
		}
		if answer, there := answers[said]; there {
			assert.Equal(t, "aha", answer)
		} else {
			assert.Contains(t, drafts, edn.Text(said).String(), "run %s, which is %s, lost its text", run.ID, run.State)
		}
	}
	for said, was := range told {
		assert.True(t, !was || answers[said] != "", "%s was answered", said)
	}
	require.Positive(t, resumed, "no send was cut")
	t.Logf("%d of %d texts are turns, %d of them after a restart", len(answers), len(told), resumed)
}
