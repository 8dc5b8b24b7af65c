package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ENV-018, IR-014, CNV-014: a request of a plugin may name only capabilities
// that its call was given, wherever it names them.
func TestAsked(t *testing.T) {
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{
		dispatchtest.Cap("t/a", ""), dispatchtest.Cap("t/b", ""),
		`{:cap/id :t/two :cap/kind :solver :cap/intents #{:text/respond :t/other} :io/in-schema :req/any :io/out-schema :res/any}`,
	}})
	granted := []string{"t/a", "t/two"}
	for request, want := range map[string]string{
		`{:task {:intent :text/respond} :input {}}`:                                                            "",
		`{:task {:intent :text/respond :cap/id :t/a} :input {}}`:                                               "",
		`{:task {:intent :text/respond} :input {:deep [{:cap/ref :t/a}]} :context {:m {:cap/ref :t/two}}}`:     "",
		`{:task {:intent :text/respond :dispatch {:candidates [:t/a {:cap/ref :t/two}]}} :input {}}`:           "",
		`{:task {:intent :text/respond} :input {:data {:cap/ref :t/b :note "data"}}}`:                          "",
		`{:task {:intent :text/respond :cap/id :t/b} :input {}}`:                                               "auth/forbidden",
		`{:task {:intent :text/respond} :cap/id :t/b :input {}}`:                                               "auth/forbidden",
		`{:task {:intent :text/respond} :routing {:cap/id :t/b} :input {}}`:                                    "auth/forbidden",
		`{:task {:intent :text/respond :dispatch {:candidates [:t/a :t/b]}} :input {}}`:                        "auth/forbidden",
		`{:task {:intent :text/respond :dispatch {:fallback-to [:t/b]}} :input {}}`:                            "auth/forbidden",
		`{:task {:intent :text/respond :dispatch {:candidates [{:cap/ref :t/b}]}} :input {}}`:                  "auth/forbidden",
		`{:task {:intent :text/respond} :input {:deep [#{{:cap/ref :t/b}}]}}`:                                  "auth/forbidden",
		`{:task {:intent :text/respond} :input {} :context {:m {:cap/ref :t/b}}}`:                              "auth/forbidden",
		`{:task {:intent :text/respond :cap/id :t/c} :input {}}`:                                               "cap/not-found",
		`{:task {:intent :plan/run} :input {:plan {:nodes [{:op :call :intent :text/respond :cap/id :t/b}]}}}`: "auth/forbidden",
		`{:task {:cap/id :t/two} :input {}}`:                                                                   "invalid-request",
	} {
		_, err := checkHandles(edn.MustRead(request), granted, w.Registry)
		typ := ""
		if err != nil {
			typ = contract.AsError(err).Type
		}
		assert.Equal(t, want, typ, request)
	}
	got, err := checkHandles(edn.MustRead(`{:task {:cap/id :t/a} :input {}}`), granted, w.Registry)
	require.NoError(t, err)
	assert.Equal(t, ":text/respond", got.Key("task").Key("intent").String(), "the only intent of a capability goes without saying")
}
