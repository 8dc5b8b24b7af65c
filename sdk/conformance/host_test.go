package conformance_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// SDK-004: a fixed answer may repeat texts of the request that it answers.
func TestAnswersRepeatTheRequest(t *testing.T) {
	h := &conformance.Host{}
	h.AnswerValue("model/chat", edn.MustRead(`{:text "{{input.code}}-{{input.at.depth}} {{input.none}} {{input.n}} {{}} {{input.code" :n 7}`))
	request := edn.MustRead(`{:task {:intent :model/chat} :input {:code "c1" :at {:depth "d"} :n 3}}`)
	response, err := h.Invoke(context.Background(), wire.Call{Request: request}, nil)
	require.NoError(t, err)
	assert.Equal(t, `{:n 7 :text "c1-d {{input.none}} {{input.n}} {{}} {{input.code"}`, response.Key("result").Key("out").String())
}
