package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Lines keep their numbers. A byte order mark, line ends of other systems and empty
// lines are left out, and of a line that is too long only a bounded part is kept.
func TestEachLine(t *testing.T) {
	long := strings.Repeat("x", 3*edn.Body.Bytes)
	lines := map[int]string{}
	err := eachLine(strings.NewReader("\ufeffone\r\n\n  \n four \n"+long+"\nsix"), func(number int, text []byte) bool {
		lines[number] = string(text)
		return true
	})
	require.NoError(t, err)
	cut := lines[5]
	delete(lines, 5)
	assert.Equal(t, map[int]string{1: "one", 4: "four", 6: "six"}, lines)
	assert.Greater(t, len(cut), edn.Body.Bytes)
	assert.Less(t, len(cut), edn.Body.Bytes+(1<<20))
}

// RUN-022: a failure of the daemon is retried, one of the run is the result.
func TestPassing(t *testing.T) {
	for text, want := range map[string]bool{
		`{:error {:type :runtime/starting}}`:                                      true,
		`{:error {:type :runtime/draining} :run/id "run_1"}`:                      true, // the next daemon resumes it
		`{:error {:type :runtime/overloaded}}`:                                    true,
		`{:error {:type :runtime/overloaded} :run/id "run_1"}`:                    false,
		`{:error {:type :auth/rate-limited}}`:                                     true,
		`{:error {:type :auth/unauthorized}}`:                                     true, // the token of an earlier daemon
		`{:error {:type :journal/full}}`:                                          true,
		`{:error {:type :budget/exceeded :source :request}}`:                      false,
		`{:error {:type :invalid-request}}`:                                       false,
		`{:error {:type :policy/blocked} :run/id "run_1"}`:                        false,
		`{:result {:type :value :out {}} :run/id "run_1"}`:                        false,
		`{:error {:type :provider/overloaded :source :downstream} :run/id "run"}`: false,
	} {
		response := edn.MustRead(text)
		assert.Equal(t, want, passing(response, failureOf(response)), text)
	}
	assert.Error(t, lasting(edn.MustMap(), contract.Errorf("db/not-configured", "x")))
	assert.NoError(t, lasting(edn.MustRead(`{:run/id "run_1"}`), contract.Errorf("db/not-configured", "x")))
}

// The key of a line depends on what determines its run, and not on its deadline.
func TestBatchKeys(t *testing.T) {
	key := func(name string, number int, request string, isJSON bool, failed int) string {
		b := &batch{command: &command{env: Env{Dir: "/d"}}, name: name}
		return b.key(number, edn.MustRead(request), isJSON, failed)
	}
	one := key("a", 1, "{:input 1}", false, 0)
	assert.Equal(t, one, key("a", 1, "{:input 1 :deadline-ms 5}", false, 0))
	assert.LessOrEqual(t, len(one), 128)
	all := map[string]bool{one: true}
	for _, other := range []string{
		key("b", 1, "{:input 1}", false, 0), key("a", 2, "{:input 1}", false, 0), key("a", 1, "{:input 2}", false, 0),
		key("a", 1, "{:input 1}", true, 0), key("a", 1, "{:input 1}", false, 1),
	} {
		assert.False(t, all[other])
		all[other] = true
	}
}

// CLI-001: the remaining time follows from the lines that were executed; stored
// answers take none.
func TestBatchProgress(t *testing.T) {
	var p batchProgress
	p.start(true, 100)
	assert.Equal(t, "0 of 100 lines", p.text(p.begun))
	for range 40 {
		p.answered(true, false)
	}
	assert.Equal(t, "40 of 100 lines", p.text(p.begun.Add(time.Second)))
	for i := range 20 {
		p.answered(false, i == 0)
	}
	assert.Equal(t, "60 of 100 lines, 1 failed, 2.0 lines/s, 20s left", p.text(p.begun.Add(10*time.Second)))
	p.total = 0
	assert.Equal(t, "60 lines, 1 failed, 20 lines/s", p.text(p.begun.Add(time.Second)))
}
