package contract_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/messagegen"
	"github.com/fermenthq/ferment/sdk/schema"
)

// LM-008, CNV-002: the data of a message is that message, as EDN and as JSON, and
// is of the form that models read.
func TestMessagesAreData(t *testing.T) {
	chat, err := schema.Compile(schema.Builtin()["req/chat"])
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		m := messagegen.Message().Draw(t, "message")
		v := contract.MessageValue(m)
		again, err := edn.Read(v.Canonical())
		require.NoError(t, err)
		got, failed := contract.MessageFromValue(again)
		require.Nil(t, failed, "%s", v)
		assert.True(t, got.Equal(m), "%s\n got %v\nwant %v", v, got, m)
		assert.True(t, edn.Equal(v, contract.MessageValue(got)))

		json, err := edn.WriteJSON(v)
		require.NoError(t, err)
		plain, err := edn.ReadJSON(json)
		require.NoError(t, err)
		got, failed = contract.MessageFromValue(plain)
		require.Nil(t, failed, "%s", json)
		assert.True(t, got.Equal(m), "%s", json)

		for p := range m.Parts() {
			if _, stored := p.(conversation.Reference); stored {
				return // is replaced by what it refers to before a model reads it
			}
		}
		assert.Empty(t, chat.Validate(edn.MustMap(edn.K("messages"), edn.Vector(v))), "%s", v)
	})
}

// LM-008: the forms of messages that exist, and what they are written as.
func TestMessageForms(t *testing.T) {
	for form, written := range map[string]string{
		`{:role :user :content "Hello"}`:                         ``,
		`{"role" "user"}`:                                        `error`,
		`{:role "user" :content [{:type "text" :text "Hello"}]}`: `{:content "Hello" :role :user}`,
		`{:role :user :content ({:type :text :text ""} {:type :text :text "a" :cache? true})}`:  `{:cache? true :content "a" :role :user}`,
		`{:role :user :content [{:type :text :text "a" :cache? true} {:type :text :text "b"}]}`: ``,
		`{:role :system :content "Be brief." :cache? true :unknown 1}`:                          `{:cache? true :content "Be brief." :role :system}`,
		`{:role :assistant :content [{:type :thinking :text ".." :signature ".." :model "m"} {:type :tool-call :id "t1"}]
		  :tool/calls [{:id "t1" :tool/id :fs/read :args {:path "a.go"}}]}`: `{:content [{:model "m" :signature ".." :text ".." :type :thinking}] :role :assistant :tool/calls [{:args {:path "a.go"} :id "t1" :tool/id :fs/read}]}`,
		`{:role :assistant :tool/calls [{:id "t2" :tool/id ":clock"} {:id "t1" :tool/id :clock :args {}}]
		  :content [{:type :tool-call :id "t1"} {:type :text :text "then"}] :cache? true}`: `{:cache? true :content [{:id "t1" :type :tool-call} {:text "then" :type :text} {:id "t2" :type :tool-call}] :role :assistant :tool/calls [{:args {} :id "t1" :tool/id :clock} {:args {} :id "t2" :tool/id :clock}]}`,
		`{:content "no clock" :role :tool :tool/failed? true :tool/id "t1"}`: ``,
		`{:role :tool :tool/id "t1"}`:                                        ``,
		`{:attribution {:agent/id "docs-writer" :cap/id :llm/voice :finish :length :model "m" :run "r-1"} :content "Hel" :role :assistant}`: ``,
		`{:role :user :content [{:type :image :url "https://a.example/b"}] :cache? true}`:                                                   `{:cache? true :content [{:type :image :url "https://a.example/b"}] :role :user}`,
		`{:content [{:hash "b3:00" :media-type "text/plain" :type :reference}] :role :user}`:                                                ``,
	} {
		v := edn.MustRead(form)
		m, failed := contract.MessageFromValue(v)
		if written == `error` {
			assert.NotNil(t, failed, form)
			continue
		}
		require.Nil(t, failed, form)
		if written == "" {
			written = form
		}
		assert.Equal(t, edn.MustRead(written).String(), contract.MessageValue(m).String())
	}
}

// CNV-029: each mistake is one typed error with its place.
func TestInvalidMessages(t *testing.T) {
	part := func(role, fields string) string { return `{:role :` + role + ` :content [{` + fields + `}]}` }
	call := func(fields string) string { return `{:role :assistant :tool/calls [{` + fields + `}]}` }
	for form, at := range map[string]string{
		`7`:                                             `[]`,
		`{}`:                                            `[]`,
		`{:role :robot :content "x"}`:                   `[]`,
		`{:role :user}`:                                 `[]`,
		`{:role :user :content ""}`:                     `[]`,
		`{:role :user :content []}`:                     `[]`,
		`{:role :user :content 7}`:                      `[:content]`,
		`{:role :user :content {:type :a}}`:             `[:content]`,
		`{:role :user :content ["x"]}`:                  `[:content 0 :type]`,
		part("user", `:type :sound`):                    `[:content 0 :type]`,
		part("user", `:type :text`):                     `[:content 0 :text]`,
		part("user", `:type :text :text 7`):             `[:content 0 :text]`,
		part("user", `:type :text :text "x" :cache? 7`): `[:content 0 :cache?]`,
		part("system", `:type :image :url "https://a"`): `[:content 0]`,
		part("user", `:type :image`):                    `[:content 0]`,
		part("user", `:type :image :data "AA==" :url "https://a"`): `[:content 0]`,
		part("user", `:type :reference :hash "b3:0"`):              `[:content 0]`,
		part("assistant", `:type :redacted-thinking :text "x"`):    `[:content 0]`,
		part("assistant", `:type :thinking`):                       `[:content 0]`,
		part("assistant", `:type :tool-call :id "t1"`):             `[:content 0 :id]`,
		call(`:id "t1"`):                                                   `[:tool/calls 0]`,
		call(`:tool/id :a/b`):                                              `[:tool/calls 0]`,
		call(`:id "t1" :tool/id :a/b :args 7`):                             `[:tool/calls 0 :args]`,
		call(`:id "t1" :tool/id :a/b} {:id "t1" :tool/id :a/b`):            `[:tool/calls 1 :id]`,
		`{:role :assistant :tool/calls 7}`:                                 `[:tool/calls]`,
		`{:role :user :content "x" :tool/calls [{:id "t" :tool/id :a/b}]}`: `[:tool/calls 0]`,
		`{:role :tool :content "x"}`:                                       `[:tool/id]`,
		`{:role :tool :tool/id "t1" :tool/failed? "yes"}`:                  `[:tool/failed?]`,
		`{:role :user :content "x" :cache? "yes"}`:                         `[:cache?]`,
	} {
		m, err := contract.MessageFromValue(edn.MustRead(form))
		if assert.NotNil(t, err, form) {
			assert.Equal(t, "conversation/invalid-message", err.Type, form)
			assert.Equal(t, at, err.Details.Key("path").String(), form)
			assert.True(t, m.Empty(), form)
		}
	}
}

// LM-008: an answer of a model is the message that is sent back.
func TestAnswersAreMessages(t *testing.T) {
	m, err := contract.MessageFromAnswer(edn.MustRead(`{:text "I look." :finish :tool-calls
		:tool/calls [{:id "t1" :tool/id :fs/read :args {:path "a.go"}}]}`))
	require.Nil(t, err)
	assert.Equal(t, `assistant: I look. [call t1: fs/read {:path "a.go"}]`, m.String())
	assert.Equal(t, "tool-calls", m.Attribution().Finish)
	m, err = contract.MessageFromAnswer(edn.MustRead(`{:text "then" :finish :tool-calls
		:parts [{:type :thinking :text "hm" :signature "s" :model "m"} {:type :tool-call :id "t1"} {:type :text :text "then"}]
		:tool/calls [{:id "t1" :tool/id :clock :args {}}]}`))
	require.Nil(t, err)
	assert.Equal(t, `assistant: [reasoning] [call t1: clock {}] then`, m.String())
	for _, prose := range []string{`{:content "then"}`, `{:answer "then"}`, `{:summary "then"}`, `{:explanation "then"}`} {
		m, err = contract.MessageFromAnswer(edn.MustRead(prose))
		require.Nil(t, err, prose)
		assert.Equal(t, "then", m.Text(), prose)
	}
	_, err = contract.MessageFromAnswer(edn.MustRead(`{:text "" :finish :stop}`))
	require.NotNil(t, err)
	assert.Equal(t, "conversation/invalid-message", err.Type)
}

// VAL-051: any data is one message, always the same, or one typed error.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{:role :user :content "Hello"}`, `{"role" "user" :content [{:type "text" :text "a" :cache? true}] :cache? true}`,
		`{:role :assistant :content [{:type :thinking :text "a"} {:type :tool-call :id :t1} {:type :text :text "b"}]
		  :tool/calls [{:id "t1" :tool/id "::a" :args {:b 1.50M nil #{}}} {:id ":t2" :tool/id :c/d}] :cache? true}`,
		`{:role :tool :tool/id :t1 :tool/failed? true :content [{:type :image :data "AA==" :media-type :image/png}]}`,
		`{:role :assistant :content "x" :attribution {:agent/id "a" :cap/id "b c" :finish :stop}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := edn.Read(text, edn.WithLimits(edn.Body))
		if err != nil {
			return
		}
		m, failed := contract.MessageFromValue(v)
		if failed != nil {
			assert.Equal(t, "conversation/invalid-message", failed.Type)
			assert.True(t, m.Empty())
			return
		}
		again, failed := contract.MessageFromValue(contract.MessageValue(m))
		require.Nil(t, failed, "%s", v)
		assert.True(t, again.Equal(m), "%s\n got %v\nwant %v", v, again, m)
	})
}
