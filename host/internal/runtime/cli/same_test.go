package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// CLI-007: an act has the same result over HTTP, over the admin socket, and in
// the process of the command; an action has the same result over the socket,
// by its own command and by "admin action". This build has no identities, so
// actions are not available over HTTP. TestEveryActionHasOneVerb covers the
// commands.
func TestSameResultByEveryWay(t *testing.T) {
	t.Parallel()
	w := answering(t, "\nbudget \"user\" {\n  max_attempts = 50\n}\n")
	s := w.serve()
	over := s.ask("mine/data", "{}").value(t)
	for _, flags := range []string{"", " --local"} {
		got := w.run(strings.Fields("act mine/data {} --edn" + flags)...)
		require.Equal(t, 0, got.code, got.stderr)
		assert.Equal(t, over.Key("result").String(), got.value(t).Key("result").String(), flags)
	}
	refused := s.ask("mine/nope", "{}").value(t).Key("error")
	for _, flags := range []string{"", " --local"} {
		got := w.run(strings.Fields("act mine/nope {} --edn" + flags)...)
		e := got.value(t).Key("error")
		assert.Equal(t, refused.Key("type").String(), e.Key("type").String(), flags)
		assert.Equal(t, refused.Key("message").String(), e.Key("message").String(), flags)
	}

	for verb, action := range map[string]string{
		"explain mine/data":     `{:action :explain :intent :mine/data}`,
		"protocol export":       `{:action :protocol-export}`,
		"config show --running": `{:action :config-show}`,
		"admin budget show":     `{:action :budget-show}`,
		"admin events":          `{:action :events}`,
		"judge list":            `{:action :judge-list}`,
	} {
		t.Run(verb, func(t *testing.T) {
			bySocket := s.admin(action)
			require.Equal(t, 200, bySocket.status, "%s", bySocket.body)
			// Each action is in the stream of the host, so the cursor of events moves on.
			same := func(v edn.Value) string { return v.Dissoc(edn.K("cursor")).String() }
			want := same(bySocket.value(t).Key("result"))
			byVerb := w.run(append(strings.Fields(verb), "--edn")...)
			require.Equal(t, 0, byVerb.code, byVerb.stderr)
			assert.Equal(t, want, same(byVerb.value(t)))
			byAction := w.feed(action, "admin", "action", "-", "--edn")
			require.Equal(t, 0, byAction.code, byAction.stderr)
			assert.Equal(t, want, same(byAction.value(t)))
		})
	}
	s.stop()
}
