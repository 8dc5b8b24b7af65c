package cli_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
)

// gradedAs returns a judge whose verdict is a field of the answer.
func gradedAs(key, model string) string {
	return script(":t/grader", ":eval/grade", `:kind :judge :in-schema :req/eval :out-schema :res/any`,
		fmt.Sprintf(`{:template {:score "{{input.task/result.%s}}" :judge {:key "b3:k" :model %q}}}`, key, model))
}

// markedAnchors returns labelled answers whose :mark agrees with the label,
// and whose :other disagrees for every second good one.
func markedAnchors() string {
	var b strings.Builder
	b.WriteString("{:anchors [")
	for i := range 20 {
		other := "0.9"
		if i%2 == 0 {
			other = "0.1"
		}
		fmt.Fprintf(&b, "{:label :good :task/call {:input {:text \"good %d\"}} :task/result {:text \"x\" :mark \"0.9\" :other %q}}\n", i, other)
		fmt.Fprintf(&b, "{:label :bad :task/call {:input {:text \"bad %d\"}} :task/result {:text \"y\" :mark \"0.1\" :other \"0.1\"}}\n", i)
	}
	return b.String() + "]}"
}

// ago changes the age of a record.
func (w *world) ago(file string, age time.Duration) calibration.Record {
	r := readRecord(w.t, file)
	r.At = r.At.Add(-age)
	rel, err := filepath.Rel(w.dir, file)
	require.NoError(w.t, err)
	w.write(rel, r.Value().String())
	return r
}
