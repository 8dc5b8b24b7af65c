package exit

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
)

// ERR-020: the documentation is generated from the catalogue. Set
// UPDATE_GOLDEN=1 to write it.
func TestDocumentationIsCurrent(t *testing.T) {
	const name = "../../../../../sdk/contract/ERRORS.md"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(name, markdown(), 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(markdown()), "%s is out of date: run with UPDATE_GOLDEN=1 and look at the difference", name)
}

// markdown renders the catalogue as the table of ERRORS.md.
func markdown() []byte {
	var b strings.Builder
	b.WriteString("# Error types\n\n" +
		"Generated from the catalogue of package contract; a test keeps this file current.\n\n" +
		"Class determines what the evaluator does next: `retry` calls the same executor again, `switch` the next one,\n" +
		"`repair` the same one with the findings, `stop` ends the node unless `:switch-on` names the type, `stop!` always\n" +
		"ends it. \"Again\" is yes if sending the same request again can succeed. Of two entries, the first is for errors\n" +
		"that the request caused and the second for all others. Exit is the exit code of a command that ends with the\n" +
		"error.\n\n" +
		"| type | class | source | again | HTTP | exit | meaning | next step |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range contract.Rows() {
		fmt.Fprintf(&b, "| `:%s` | %s | %s | %s | %s | %s | %s | %s |\n", r.Type, classText(r), sourceText(r),
			both(r, func(o contract.Outcome) string { return yesNo(o.Retryable) }),
			both(r, func(o contract.Outcome) string { return status(o.HTTP) }), exitText(r), r.Help, r.Hint)
	}
	b.WriteString("\n## Other names\n\n| name | stands for |\n|---|---|\n")
	for _, r := range contract.Rows() {
		for _, alias := range r.Aliases {
			fmt.Fprintf(&b, "| `:%s` | `:%s` |\n", alias, r.Type)
		}
	}
	return []byte(b.String())
}

// both shows the outcome for source request and, if it differs, the outcome for
// other sources.
func both(r contract.Row, show func(contract.Outcome) string) string {
	first, other := show(r.For(contract.SourceRequest)), show(r.For(contract.SourcePlugin))
	if first == other {
		return first
	}
	return first + " · " + other
}

func classText(r contract.Row) string {
	text := both(r, func(o contract.Outcome) string { return o.Class.String() })
	for class := contract.ClassRetry; class <= contract.ClassFinal; class++ {
		if class != r.For(contract.SourceRequest).Class && class != r.For(contract.SourcePlugin).Class &&
			r.Allows(class, contract.SourceRequest) {
			text += " or " + class.String()
		}
	}
	return text
}

func sourceText(r contract.Row) string {
	if r.AsCause {
		return "as cause"
	}
	names := []string{r.Source.String()}
	for _, s := range r.Sources.List() {
		if s != r.Source {
			names = append(names, s.String())
		}
	}
	return strings.Join(names, ", ")
}

func exitText(r contract.Row) string {
	if r.HTTP == 0 {
		return "-"
	}
	code := func(s contract.Source) string { return strconv.Itoa(Code(&contract.Error{Type: r.Type, Source: s})) }
	first, second := code(contract.SourceRequest), code(contract.SourcePlugin)
	if first == second {
		return first
	}
	return first + " · " + second
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func status(code int) string {
	if code == 0 {
		return "-"
	}
	return strconv.Itoa(code)
}
