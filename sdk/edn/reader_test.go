package edn_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// VAL-016: the message, the excerpt with a mark, and the error as data.
func TestSyntaxErrorGolden(t *testing.T) {
	text := "{:nodes [{:id :best\n          :input {:prompt \"a\"}\n          :input {:prompt \"b\"}}]}"
	_, err := edn.ReadString(text, edn.WithSource("plan.edn"))
	var syntax *edn.SyntaxError
	require.True(t, errors.As(err, &syntax))
	assert.Equal(t, strings.Join([]string{
		`plan.edn:3:11: duplicate key :input (first at 2:11) in [:nodes 0]`,
		`   3 |           :input {:prompt "b"}}]}`,
		`     |           ^`,
	}, "\n"), syntax.Error()+"\n"+syntax.Excerpt())
	want := edn.MustRead(`{:code :duplicate-key :line 3 :column 11 :offset 61 :path [:nodes 0]
	  :message "duplicate key :input (first at 2:11)" :first {:line 2 :column 11} :hint "merge the two values or rename one key"}`)
	assert.Equal(t, want.String(), syntax.Value().String())
}

// JSON text gets an error that says so; EDN text is never taken for JSON.
func TestTextOfJSON(t *testing.T) {
	for text, is := range map[string]bool{
		`{"nodes": [{"op": "emit"}]}`: true,
		"\n[{\"a\":{}}]":              true,
		`{"a":`:                       true,
		`{"a" :b :c}`:                 false,
		`{:a "b": 1}`:                 false,
		`{:a : 1}`:                    false,
	} {
		_, err := edn.ReadString(text)
		var syntax *edn.SyntaxError
		require.ErrorAs(t, err, &syntax, text)
		assert.Equal(t, is, strings.Contains(syntax.Message, "JSON"), text)
		if is {
			assert.NotEmpty(t, syntax.Hint, text)
		}
	}
	_, err := edn.ReadJSON([]byte(`{"a": }`))
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "expected EDN")
}
