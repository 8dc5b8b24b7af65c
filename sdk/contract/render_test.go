package contract

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// ERR-003, ERR-020: each error renders as text, EDN and JSON. The golden files
// hold the output.
func TestRendering(t *testing.T) {
	plan := []byte("{:nodes [{:op :call\n          :input {:prompt \"a\"}\n          :input {:prompt \"b\"}}]}\n")
	_, syntax := edn.Read(plan, edn.WithSource("plan.edn"))
	require.Error(t, syntax)
	badRequest := Fault{Type: "invalid-request", Reason: "shape/unknown-key", Message: "the request has an unknown key :constraint"}.
		Named(edn.K("constraint"), []string{"constraints", "context"}).Err()
	require.NotNil(t, badRequest)
	_, badMetadata := ParseCapability(edn.MustRead(`{:cap/id :engine :cap/intents #{:chess/best-move} :io/in-schema :req/any :io/out-schema :res/any :cap/cost {:usd 0.5} :cap/tag #{:a}}`))
	require.Error(t, badMetadata)

	crash := Errorf("runtime/crashed", "plugin chess (instance 3) was killed by signal 9 during :chess/best-move").
		WithWhere("node", edn.Text("c-01")).WithWhere("cap/id", edn.K("chess/engine")).WithWhere("attempt", edn.Int(2)).
		WithDetail("signal", edn.Int(9)).WithDetail("generation", edn.Int(3)).
		WithDetail("stderr-tail", edn.Vector(edn.Text("fatal: out of range")))

	for _, tt := range []struct {
		name string
		err  *Error
		src  SourceText
	}{
		{"crashed", crash, SourceText{}},
		{"causes", Errorf("repair/exhausted", "two rounds changed nothing").WithOp("repair", ":llm/code").
			WithCause(Errorf("eval/must-failed", "check :tests-pass failed").WithSource(SourceDownstream).WithCause(crash)), SourceText{}},
		{"position", SyntaxError("plan/invalid", syntax), SourceText{Name: "plan.edn", Text: plan}},
		{"reader-excerpt", SyntaxError("plan/invalid", syntax), SourceText{Name: "plan.edn"}},
		{"unknown-key", badRequest, SourceText{}},
		{"metadata", AsError(badMetadata), SourceText{}},
		{"own-type", ErrorFromValue(edn.MustRead(`{:type :demo/own :details {"a" 1 :a 2}}`), SourcePlugin), SourceText{}},
		{"untyped", AsError(assert.AnError), SourceText{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join("testdata", "errors", tt.name)
			golden(t, file+".txt", []byte(tt.err.Error()+"\n\n"+tt.err.Text(tt.src)+"\n"))
			golden(t, file+".edn", append(tt.err.EDN(), '\n'))
			golden(t, file+".json", append(tt.err.JSON(), '\n'))

			back, err := edn.Read(tt.err.EDN())
			require.NoError(t, err)
			assert.True(t, edn.Equal(tt.err.Value(), back))
			assert.NotContains(t, tt.err.Error(), "\n")
		})
	}
}

// ERR-003: the excerpt is short and the caret is under its column for any line.
func TestExcerpt(t *testing.T) {
	at := func(line, column int64) *Error {
		return Errorf("plan/invalid", "x").WithWhere("line", edn.Int(line)).WithWhere("column", edn.Int(column))
	}
	for _, tt := range []struct {
		name, source string
		line, column int64
		want         string
	}{
		{"first line", "abc\ndef", 1, 2, "   1 | abc\n     |  ^"},
		{"tabs become spaces", "\t\tab", 1, 3, "   1 |   ab\n     |   ^"},
		{"carriage return", "ab\r\ncd\r\n", 2, 1, "   2 | cd\n     | ^"},
		{"beyond the end of the line", "ab", 1, 9, "   1 | ab\n     |   ^"},
		{"beyond the end of the text", "ab", 7, 1, ""},
		{"no column", "ab", 1, 0, "   1 | ab\n     | ^"},
		{"code points, not bytes", "żółć!", 1, 5, "   1 | żółć!\n     |     ^"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, text, _ := strings.Cut(at(tt.line, tt.column).Text(SourceText{Name: "f", Text: []byte(tt.source)}), "\n")
			text, _, _ = strings.Cut(text, "\n  type")
			if tt.want == "" {
				assert.True(t, strings.HasPrefix(text, "  type"), text)
				return
			}
			assert.Equal(t, tt.want, text)
		})
	}
	long := at(1, 500).Text(SourceText{Name: "f", Text: []byte(strings.Repeat("x", 1000))})
	lines := strings.Split(long, "\n")
	assert.Equal(t, 80+2, len([]rune(strings.TrimPrefix(lines[1], "   1 | "))), "the window and its two marks")
	assert.Less(t, len([]rune(lines[2])), 100)
	assert.Equal(t, 'x', []rune(lines[1])[len([]rune(lines[2]))-1], "the caret points at a character of the line")
}

// ERR-005: a long list of findings is cut and counted.
func TestFindingsInText(t *testing.T) {
	var list []edn.Value
	for i := range 25 {
		list = append(list, edn.MustMap(kPath, edn.Vector(edn.Int(int64(i))), kMessage, edn.Text("should be a string"), kGot, edn.Int(7)))
	}
	text := Errorf("schema/invalid", "x").WithDetail("findings", edn.Vector(list...)).Text(SourceText{})
	assert.Contains(t, text, "\n    [9] should be a string, got 7")
	assert.Contains(t, text, "\n    and 15 more")
	assert.NotContains(t, text, "[10]")
	list = []edn.Value{edn.MustMap(kMessage, edn.Text("a page is damaged")), edn.MustMap(kPath, edn.Text("a"))}
	text = Errorf("backup/invalid", "x").WithDetail("findings", edn.Vector(list...)).Text(SourceText{})
	assert.Contains(t, text, "\n    a page is damaged\n    \"a\"\n", "a finding without a path, and one without a message")
}
