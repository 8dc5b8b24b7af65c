package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// VAL-006: messages, tools and the form of the answer in JSON give the same
// provider request as in EDN.
func TestRequestsInTheirJSONView(t *testing.T) {
	for name, text := range map[string]string{
		"a tool": `{:messages [{:role :user :content "Read a.go."}]
		  :tools [{:tool/id :fs/read :description "reads" :in-schema [:map [:path :string]]}]}`,
		"tools and calls": `{:messages [{:role :system :content "Be brief."} {:role :user :content "Read a.go."}
		    {:role :assistant :tool/calls [{:id "t1" :tool/id :fs/read :args {:path "a.go"}}]}
		    {:role :tool :tool/id "t1" :content "package a"}]
		  :tools [{:tool/id :fs/read :in-schema [:map {:closed true} [:path [:string {:min 1 :unit :path}]] [:lines {:optional true} [:vector :int]]]}
		          {:tool/id :fs/list :in-schema :map}
		          {:tool/id :chess/move :in-schema [:map [:kind [:or [:enum "quiet" "capture"] :nil]] [:to [:re "^[a-h][1-8]$"]]]}]}`,
		"the form of an answer": `{:messages [{:role :user :content "Grade it."}]
		  :output {:name :res/grade :schema [:map {:closed true} [:score [:number {:min 0 :max 1}]] [:why {:optional true} [:ref :ferment/text]]]}}`,
	} {
		for _, dialect := range []string{"openai-chat", "anthropic-messages", "ollama-chat"} {
			input := edn.MustRead(text)
			said, err := edn.WriteJSON(input)
			require.NoError(t, err)
			view, err := edn.ReadJSON(said)
			require.NoError(t, err)
			require.False(t, edn.Equal(input, view))
			var bodies []map[string]any
			for _, v := range []edn.Value{input, view} {
				r := newRig(t, dialect, "", "", talks()[dialect].whole("ok"))
				r.ask(t.Context(), "model/chat", v.String(), "", nil)
				require.Len(t, r.server.Requests(), 1, name)
				bodies = append(bodies, r.body())
			}
			assert.Equal(t, bodies[0], bodies[1], "%s %s", name, dialect)
		}
	}
}

// VAL-006: an invalid schema is rejected before anything is sent.
func TestSchemasInNoSpelling(t *testing.T) {
	r := newRig(t, "openai-chat", "", "")
	for _, form := range []string{`["mapp"]`, `"strng"`, `"[:map"`, `["map" ["a"]]`, `{:type "object"}`, `[:map [:a "string"]]`, `7`} {
		for _, input := range []string{
			`{:messages [{:role :user :content "x"}] :tools [{:tool/id :a/b :in-schema ` + form + `}]}`,
			`{:messages [{:role :user :content "x"}] :output {:name :a/b :schema ` + form + `}}`,
		} {
			o := r.ask(t.Context(), "model/chat", input, "", nil)
			require.NotNil(t, o.err, input)
			assert.Equal(t, "input/invalid", o.err.Type, input)
		}
	}
	assert.Empty(t, r.server.Requests())
}
