package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// CLI-007: an act has the same result over HTTP, over the command line by the
// admin socket, and in the process of the command line; an action has the same
// result over the socket, by its own verb and by "admin action". This build has
// no identities, so no action is possible over HTTP. That each action has one
// verb is in TestEveryActionHasOneVerb.
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
			want := bySocket.value(t).Key("result").String()
			byVerb := w.run(append(strings.Fields(verb), "--edn")...)
			require.Equal(t, 0, byVerb.code, byVerb.stderr)
			assert.Equal(t, want, byVerb.value(t).String())
			byAction := w.feed(action, "admin", "action", "-", "--edn")
			require.Equal(t, 0, byAction.code, byAction.stderr)
			assert.Equal(t, want, byAction.value(t).String())
		})
	}
	s.stop()
}

// CLI-008: run and act print the string at :out :text, else :out as pretty EDN;
// the transcript is on standard error then. In JSON and EDN it is a key of the
// answer, and standard error is empty.
func TestOutputOfAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", scripted("mine"), "mine.edn", `{:capabilities
		{:mine/text {:intents #{:mine/text} :in-schema :req/any :out-schema :res/any
		             :steps [{:value {:text "one\ntwo" :n 1}}]}
		 :mine/number {:intents #{:mine/number} :in-schema :req/any :out-schema :res/any :steps [{:value {:text 7}}]}
		 :mine/long {:intents #{:mine/long} :in-schema :req/any :out-schema :res/any
		             :steps [{:value {:first "a line of forty letters or a few more"
		                              :second "a line of forty letters or a few more" :third "and one more"}}]}}}`)
	for intent, want := range map[string]string{
		"mine/text":   "one\ntwo\n",
		"mine/number": "{:text 7}\n",
		"mine/long": "{:first \"a line of forty letters or a few more\"\n" +
			" :second \"a line of forty letters or a few more\"\n :third \"and one more\"}\n",
	} {
		w.write("plan.edn", "{:nodes [{:op :call :intent :"+intent+" :input {} :as :x} {:op :emit :input :x}]}\n")
		for _, command := range []string{"run plan.edn", "act " + intent + " {}"} {
			args := strings.Fields(command)
			got := w.run(args...)
			require.Equal(t, 0, got.code, got.stderr)
			assert.Equal(t, want, got.stdout, command)
			assert.Empty(t, got.stderr, command)

			got = w.run(append(args, "--transcript")...)
			assert.Equal(t, want, got.stdout, command)
			transcript, err := edn.ReadString(got.stderr, edn.WithLimits(edn.Body))
			require.NoError(t, err, "%s: %s", command, got.stderr)
			assert.Equal(t, 1, transcript.Len(), command)

			got = w.run(append(args, "--transcript", "--edn")...)
			assert.Equal(t, 1, got.value(t).Key("transcript").Len(), command)
			assert.Empty(t, got.stderr, command)

			got = w.run(append(args, "--transcript", "--json")...)
			var asJSON struct{ Transcript []any }
			require.NoError(t, json.Unmarshal([]byte(got.stdout), &asJSON), command)
			assert.Len(t, asJSON.Transcript, 1, command)
			assert.Empty(t, got.stderr, command)

			got = w.run(append(args, "--edn")...)
			assert.False(t, got.value(t).HasKey("transcript"), command)
		}
	}
}
