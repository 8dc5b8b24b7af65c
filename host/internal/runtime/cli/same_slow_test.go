//go:build slow

package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// CLI-008: run and act print the string at :out :text, else :out as indented
// EDN; the transcript is on standard error then. In JSON and EDN it is a key
// of the response, and standard error is empty.
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
