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
		answered := false
		over := make(chan struct{})
		go func() {
			defer close(over)
			a := s.request(context.Background(), "POST", "/v1/act",
				envelopeOf("conversation/send", fmt.Sprintf(`{:conversation/id "c-01" :text %q}`, said), ""))
			answered = a.err == nil && a.status == 200
		}()
		if round%2 == 0 { // before its kill a run is recorded, however slow the machine is
			s.recordedOne(over)
		}
		<-time.NewTimer(time.Duration(random.IntN(100)) * time.Millisecond).C
		s.signal(syscall.SIGKILL)
		s.wait()
		<-over
		told[said] = answered
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

// CNV-021: a daemon is killed while a plan makes and deletes conversations. The resumed run does what is
// left: no call fails because of what it has done itself, and none is done twice.
func TestConversationsKilledWhileMade(t *testing.T) {
	t.Parallel()
	const each = 15
	w := newWorld(t, chatting(saysAha)...)
	random := rand.New(rand.NewPCG(killSeed, 9))
	s := w.serve()
	made, resumed := 1, 0
	opened := s.request(t.Context(), "POST", "/v1/act", envelopeOf("conversation/open", `{:conversation/id "root"}`, ""))
	require.Equal(t, 200, opened.status, "%s", opened.body)
	for round := range proof.Size(t, "kills while conversations are made", 4, 40) {
		if round > 0 {
			s = w.serve()
		}
		var nodes strings.Builder
		node := func(intent, input string) {
			fmt.Fprintf(&nodes, "{:op :call :intent :conversation/%s :input {:conversation/id %s}}\n", intent, input)
		}
		for i := range each {
			gone := fmt.Sprintf("gone-%d-%d", round, i)
			opened := s.request(t.Context(), "POST", "/v1/act", envelopeOf("conversation/open", fmt.Sprintf(`{:conversation/id %q}`, gone), ""))
			require.Equal(t, 200, opened.status, "%s", opened.body)
			node("spawn", fmt.Sprintf(`"root" :new/id "spawned-%d-%d"`, round, i))
			node("fork", fmt.Sprintf(`"root" :new/id "forked-%d-%d"`, round, i))
			node("spawn", `"root"`)
			node("delete", fmt.Sprintf("%q", gone))
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.request(context.Background(), "POST", "/v1/act", envelopeOf("plan/run", "{:plan {:nodes ["+nodes.String()+
				"{:op :emit :input {:done true}}]}}", ":effects {:allowed #{:db/read :db/write}}"))
		}()
		s.recordedOne(over)
		<-time.NewTimer(time.Duration(random.IntN(200)) * time.Millisecond).C
		s.signal(syscall.SIGKILL)
		s.wait()
		<-over
		require.Empty(t, w.left(runLimit))
		resumed += len(w.recorded(t, "open"))
		s = w.serve()
		require.Eventually(t, func() bool { return len(w.recorded(t, "open")) == 0 }, runLimit, 5*time.Millisecond)
		require.Empty(t, w.recorded(t, "failed"))
		require.Empty(t, w.recorded(t, "suspended"))
		made += 3 * each
		count, after := 0, ""
		for listed := edn.Nil(); count == 0 || listed.Len() > 0; count += listed.Len() {
			listed = w.say(t, "list", `{:any? true :limit 1000 :archived? true`+after+`}`).Key("conversations")
			if last, ok := listed.Nth(listed.Len() - 1); ok {
				after = " :after " + last.Key("conversation/id").String()
			}
		}
		assert.Equal(t, made, count)
		s.stop()
	}
	require.Positive(t, resumed, "no plan was cut")
}

// AUTH-004: whoever has the token of a session can neither read nor change the
// conversations and runs of other sessions of its user.
func TestSessionTokenIsConfined(t *testing.T) {
	t.Parallel()
	files := chatting(saysAha)
	files[1] = strings.Replace(files[1], "rule \"db/write\"", "rule \"db/read\" { any = [\"any\"] }\n  rule \"db/write\"", 1) + `
auth {
  required = true

  session_token {
    operations = ["http.v1/act", "http.v1/session", "runs/read"]
  }
}
`
	w := newWorld(t, files...)
	s := w.serve()
	w.data("user", "add", "ann", "--no-password")
	ann := []string{"Authorization", "Bearer " + plain(w.data("token", "create", "ann").Key("token"))}
	open := func(id string) answer {
		return s.request(t.Context(), "POST", "/v1/session", `{:action :open :session/id "`+id+`" :token? true}`, ann...)
	}
	token := []string{"X-Session-Token", plain(open("mine").value(t).Key("result").Key("session/token"))}
	require.Equal(t, 200, open("other").status)
	ask := func(who []string, intent, input, more string) answer {
		return s.request(t.Context(), "POST", "/v1/act", envelopeOf("conversation/"+intent, input, ":effects {:allowed #{:db/read :db/write}} "+more), who...)
	}
	for id, of := range map[string]string{"inside": `:session/id "mine"`, "outside": `:session/id "other"`, "free": ""} {
		made := ask(ann, "open", `{:conversation/id "`+id+`"}`, of)
		require.Equal(t, 200, made.status, "%s", made.body)
		status := 404
		if id == "inside" {
			status = 200
		}
		for _, do := range [][2]string{{"get", ""}, {"append", ` :messages [{:role :user :content "x"}]`}, {"delete", ""}} {
			got := ask(token, do[0], `{:conversation/id "`+id+`"`+do[1]+`}`, "")
			assert.Equal(t, status, got.status, "%s %s: %s", do[0], id, got.body)
		}
	}
	runs := func(who []string) int {
		return s.request(t.Context(), "GET", "/v1/runs?limit=200", "", who...).value(t).Key("runs").Len()
	}
	before := runs(token)
	require.Equal(t, 200, ask(ann, "list", "{}", `:session/id "other"`).status)
	assert.Equal(t, before, runs(token))
	require.Equal(t, 200, ask(ann, "list", "{}", `:session/id "mine"`).status)
	assert.Equal(t, before+1, runs(token))
	assert.Less(t, runs(token), runs(ann))
}
