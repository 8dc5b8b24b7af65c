package transport_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
)

// clocks are names that read the machine's time or wait on it, by package; a *
// stands for all names of a package.
var clocks = map[string][]string{
	"time":         {"Now", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Since", "Until"},
	"context":      {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
	"net":          {"DialTimeout"},
	"math/rand":    {"*"},
	"math/rand/v2": {"*"},
	"crypto/rand":  {"*"},
}

// sources are the only files that access time and randomness: the machine's
// clock, and the judge's main function, which passes in its source.
var sources = []string{"internal/provider/transport/clock.go", "judge/main.go"}

// LM-006: clocks, timers and randomness are injected: no code of the plugins
// that call models reads the machine's clock or draws random numbers directly.
// Test servers are exempt.
func TestTimeAndChanceAreInjected(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	seen, used := 0, map[string]bool{}
	for _, dir := range []string{"llm", "mlx", "judge", "internal/provider"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains([]string{"livetest", "wiretest", "servertest", "testdata", "node_modules"}, d.Name()):
				return filepath.SkipDir
			case d.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
				return nil
			}
			seen++
			name, err := filepath.Rel(root, path)
			require.NoError(t, err)
			for _, use := range clockUses(t, path) {
				if slices.Contains(sources, filepath.ToSlash(name)) {
					used[filepath.ToSlash(name)] = true
					continue
				}
				assert.Fail(t, "the clock or chance of the machine", "LM-006: %s uses %s: take a transport.Clock or an io.Reader", name, use)
			}
			return nil
		}))
	}
	assert.Greater(t, seen, 60, "the walk found the plugins")
	assert.Len(t, used, len(sources), "each exception is one")
}

// clockUses returns the names in a file that are listed in clocks.
func clockUses(t *testing.T, path string) []string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	require.NoError(t, err)
	packages := map[string]string{} // by the name in the file
	for _, i := range file.Imports {
		p := strings.Trim(i.Path.Value, `"`)
		name := strings.TrimSuffix(p, "/v2")
		name = name[strings.LastIndex(name, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		packages[name] = p
	}
	var uses []string
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := s.X.(*ast.Ident)
		if !ok || x.Obj != nil { // a variable of this name
			return true
		}
		names := clocks[packages[x.Name]]
		if slices.Contains(names, s.Sel.Name) || slices.Contains(names, "*") {
			uses = append(uses, x.Name+"."+s.Sel.Name+" in line "+files.Position(s.Pos()).String())
		}
		return true
	})
	return uses
}

// LM-006: a time limit runs on the given clock.
func TestWithin(t *testing.T) {
	clock := wiretest.NewClock()
	ctx, cancel := transport.Within(t.Context(), clock, time.Hour)
	defer cancel()
	clock.Fire(t, time.Hour)
	<-ctx.Done()
	assert.Equal(t, context.DeadlineExceeded, context.Cause(ctx))
	early, stop := transport.Within(t.Context(), clock, time.Hour)
	stop()
	assert.Zero(t, clock.Armed(), "a canceled bound has no timer that a test could fire instead of its own")
	<-early.Done()
	assert.Equal(t, context.Canceled, context.Cause(early))
}
