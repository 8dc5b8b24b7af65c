package conversation_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// CNV-002: an agent cannot change the history that it reads, nor anyone a message
// that exists: these programs do not compile.
func TestHistoryCannotBeChanged(t *testing.T) {
	imports := compiled(t)
	for _, c := range []struct{ name, body, problem string }{
		{"control", `for m := range c.All() { fmt.Println(m.Text(), c.Len()) }`, ""},
		{"element of a context", `c[0] = conversation.User("x")`, "cannot index"},
		{"append to a context", `c = append(c, conversation.User("x"))`, "must be a slice"},
		{"add to a context", `c.Add(conversation.User("x"))`, "no field or method Add"},
		{"length of a context", `c.Len() = 0`, "cannot assign"},
		{"context as a slice", `_ = c.([]conversation.Message)`, "impossible type assertion"},
		{"list of a context", `_ = c.(conversation.list)`, "not exported"},
		{"field of a message", `m.m = nil`, "m.m undefined"},
		{"literal of a message", `m = conversation.Message{m: nil}`, "unexported field m"},
		{"role of a message", `m.Role() = "user"`, "cannot assign"},
		{"part of a message", `m.Parts()[0] = conversation.Text{}`, "cannot index"},
		{"identity of messages", `_ = m == conversation.User("x")`, "cannot be compared"},
		{"foreign part", `type own struct{}; _, _ = conversation.New("user", own{})`, "does not implement"},
		{"pending messages", `tx.Pending() = nil`, "cannot assign"},
		{"state of a transaction", `tx.state = nil`, "tx.state undefined"},
	} {
		source := `package p
import ("fmt"; "github.com/fermenthq/ferment/sdk/conversation")
var _ = fmt.Sprint
func f(c conversation.Context, m conversation.Message, tx *conversation.Transaction) { ` + c.body + " }"
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "p.go", source, 0)
		require.NoError(t, err, c.name)
		_, err = (&types.Config{Importer: importer.ForCompiler(set, "gc", imports)}).Check("p", set, []*ast.File{file}, nil)
		if c.problem == "" {
			assert.NoError(t, err, c.name)
		} else {
			assert.ErrorContains(t, err, c.problem, c.name)
		}
	}
}

// compiled returns what the compiler exports of this package and of fmt.
func compiled(t *testing.T) importer.Lookup {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Export", ".", "fmt").Output()
	require.NoError(t, err)
	files := map[string]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		files[p.ImportPath] = p.Export
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}
