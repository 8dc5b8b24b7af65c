package host_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/fermenthq/ferment"

// settings is the room of the configuration, which has rooms of its own.
const settings = "host/internal/runtime/config"

// rooms is the house from the top floor to the cellar. A package belongs to
// the longest prefix that fits. It may import itself, the rooms named in
// mayUse, and everything those rooms may use in turn; nothing else of this
// module. An import that points up is a defect of the design, not of the test.
var rooms = []room{
	{prefix: "host/ferment", mayUse: []string{"host/internal/runtime/cli"}},

	// runtime: main -> cli -> daemon -> {history -> {setup, httpapi}, telemetry, console} -> config
	// The command line also checks plugins, with what their authors check them.
	{prefix: "host/internal/runtime/cli", mayUse: []string{"host/internal/runtime/daemon", "host/internal/runtime/conform", "sdk/client"}},
	{prefix: "host/internal/runtime/conform", mayUse: append([]string{"sdk/conformance"}, adapters...)},
	{prefix: "host/internal/runtime/daemon", mayUse: []string{"host/internal/runtime/history", "host/internal/runtime/telemetry", "host/internal/runtime/console", settings + "/view"}},
	{prefix: "host/internal/runtime/history", mayUse: []string{"host/internal/runtime/setup", "host/internal/runtime/httpapi"}},
	{prefix: "host/internal/runtime/setup", mayUse: []string{settings + "/view"}},
	{prefix: "host/internal/runtime/httpapi", mayUse: []string{"host/internal/runtime/config"}},
	{prefix: "host/internal/runtime/telemetry", mayUse: []string{"host/internal/runtime/config"}},
	{prefix: "host/internal/runtime/console", mayUse: []string{"host/internal/runtime/config"}},

	// config: configtest -> view -> (root) -> build -> plugins -> {files, decode} -> expression -> {syntax, disk} -> language -> diag
	{prefix: settings + "/configtest", mayUse: []string{settings + "/view"}},
	{prefix: settings + "/view", mayUse: []string{settings}},
	{prefix: settings, mayUse: []string{settings + "/build"}},
	{prefix: settings + "/build", mayUse: []string{settings + "/plugins", "sdk/text/packfile"}},
	{prefix: settings + "/plugins", mayUse: append([]string{settings + "/files", settings + "/decode", settings + "/pricelist"}, adapters...)},
	{prefix: settings + "/pricelist", mayUse: []string{"sdk/contract"}},
	{prefix: settings + "/files", mayUse: []string{settings + "/expression"}},
	{prefix: settings + "/decode", mayUse: []string{settings + "/expression", "host/internal/domain/policy"}},
	{prefix: settings + "/expression", mayUse: []string{settings + "/syntax", settings + "/disk", "host/internal/domain/quality"}},
	{prefix: settings + "/syntax", mayUse: []string{settings + "/language"}},
	{prefix: settings + "/disk", mayUse: []string{settings + "/language"}},
	{prefix: settings + "/language", mayUse: []string{settings + "/diag"}},
	{prefix: settings + "/diag", mayUse: []string{"sdk/contract"}},

	{prefix: "host/internal/adapters/plugin", mayUse: append(slices.Clone(below), "host/internal/adapters/dirlock")},
	{prefix: "host/internal/adapters/store", mayUse: append(slices.Clone(below), "host/internal/adapters/dirlock")},
	{prefix: "host/internal/adapters/dirlock"},
	{prefix: "host/internal/adapters/issuer", mayUse: below},
	{prefix: "host/internal/adapters/cluster", mayUse: below},

	// orchestration: act -> {eval, queue, cache}, {eval, cache} -> dispatch -> {budget, journal, conversation -> session}
	{prefix: "host/internal/orchestration/act", mayUse: []string{"host/internal/orchestration/eval", "host/internal/orchestration/queue", "host/internal/orchestration/cache"}},
	{prefix: "host/internal/orchestration/cache", mayUse: []string{"host/internal/orchestration/dispatch"}},
	{prefix: "host/internal/orchestration/eval", mayUse: []string{"host/internal/orchestration/dispatch"}},
	{prefix: "host/internal/orchestration/dispatch", mayUse: []string{"host/internal/orchestration/budget", "host/internal/orchestration/journal", "host/internal/orchestration/conversation"}},
	{prefix: "host/internal/orchestration/identity", mayUse: domain},
	{prefix: "host/internal/orchestration/queue", mayUse: domain},
	{prefix: "host/internal/orchestration/budget", mayUse: domain},
	{prefix: "host/internal/orchestration/journal", mayUse: domain},
	{prefix: "host/internal/orchestration/conversation", mayUse: []string{"host/internal/orchestration/session"}},
	{prefix: "host/internal/orchestration/session", mayUse: append(slices.Clone(domain), "sdk/conversation")},

	// domain: routing -> plan -> {policy, quality, prompt} -> registry -> request
	{prefix: "host/internal/domain/routing", mayUse: []string{"host/internal/domain/plan"}},
	{prefix: "host/internal/domain/plan", mayUse: []string{"host/internal/domain/policy", "host/internal/domain/quality", "host/internal/domain/prompt"}},
	{prefix: "host/internal/domain/policy", mayUse: []string{"host/internal/domain/registry"}},
	{prefix: "host/internal/domain/quality", mayUse: []string{"host/internal/domain/registry"}},
	{prefix: "host/internal/domain/prompt", mayUse: []string{"host/internal/domain/registry"}},
	{prefix: "host/internal/domain/turns", mayUse: []string{"sdk/contract"}},
	{prefix: "host/internal/domain/registry", mayUse: []string{"host/internal/domain/request", "sdk/text"}},
	{prefix: "host/internal/domain/request", mayUse: []string{"sdk/effects"}},

	// sdk: sdktest -> conformance -> {(root), launch -> confine, text};
	// workspace -> (root) -> wire -> contract -> {schema -> edn, conversation};
	// {client, effects} -> contract
	{prefix: "sdk/client", mayUse: []string{"sdk/contract"}},
	{prefix: "sdk/sdktest", mayUse: []string{"sdk/conformance"}},
	{prefix: "sdk/conformance", mayUse: []string{"sdk", "sdk/launch", "sdk/text"}},
	{prefix: "sdk/workspace", mayUse: []string{"sdk"}},
	{prefix: "sdk/launch", mayUse: []string{"sdk/confine"}},
	{prefix: "sdk/confine"},
	{prefix: "sdk", exact: true, mayUse: []string{"sdk/wire"}},
	{prefix: "sdk/wire", mayUse: []string{"sdk/contract", "sdk/internal/pluginv1"}},
	{prefix: "sdk/internal/pluginv1"}, // generated from sdk/wire/plugin.proto
	{prefix: "sdk/effects", mayUse: []string{"sdk/contract"}},
	{prefix: "sdk/contract", mayUse: []string{"sdk/schema", "sdk/conversation"}},
	{prefix: "sdk/schema", mayUse: []string{"sdk/edn"}},
	{prefix: "sdk/edn", mayUse: []string{"sdk/internal/kebab"}},
	{prefix: "sdk/internal/kebab"},
	{prefix: "sdk/conversation"},
	{prefix: "sdk/internal/messagegen", mayUse: []string{"sdk/conversation"}}, // messages for property tests
	{prefix: "sdk/text"},
	{prefix: "sdk/text/packfile", mayUse: []string{"sdk/edn", "sdk/text"}}, // files of packs: the only part of text that reads
}

var (
	domain = []string{"host/internal/domain/routing", "host/internal/domain/turns"}

	orchestration = append([]string{"host/internal/orchestration/act", "host/internal/orchestration/identity"}, domain...)

	// Adapters reach the wire, the launcher and the sandbox besides the
	// interfaces of the layers below.
	below = append([]string{"sdk/wire", "sdk/launch"}, orchestration...)

	adapters = append([]string{"host/internal/adapters/plugin", "host/internal/adapters/store", "host/internal/adapters/issuer", "host/internal/adapters/cluster"}, orchestration...)
)

type room struct {
	prefix string
	exact  bool
	mayUse []string
}

func roomOf(pkg string) *room {
	best := -1
	for i, r := range rooms {
		fits := pkg == r.prefix || (!r.exact && strings.HasPrefix(pkg, r.prefix+"/"))
		if fits && (best < 0 || len(r.prefix) > len(rooms[best].prefix)) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return &rooms[best]
}

// reach is the set of rooms that a room may import, with itself.
func reach(prefix string, seen map[string]bool) map[string]bool {
	if seen[prefix] {
		return seen
	}
	seen[prefix] = true
	for i := range rooms {
		if rooms[i].prefix == prefix {
			for _, below := range rooms[i].mayUse {
				reach(below, seen)
			}
		}
	}
	return seen
}

type listed struct {
	ImportPath string
	Dir        string
	Name       string
	Imports    []string
	GoFiles    []string

	TestImports, XTestImports []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Name,Imports,GoFiles,TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	require.NoError(t, err)
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if len(p.GoFiles) > 0 {
			all = append(all, p)
		}
	}
	require.NotEmpty(t, all)
	return all
}

func inModule(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

// Imports point down the house only.
func TestHouseImportsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		rel, _ := inModule(p.ImportPath)
		for _, imp := range p.Imports {
			if imp == "olympos.io/encoding/edn" {
				assert.Equal(t, "sdk/edn", rel, "%s imports olympos.io/encoding/edn; only sdk/edn may (VAL-005)", rel)
			}
			target, ours := inModule(imp)
			if !ours {
				continue
			}
			switch {
			case strings.HasPrefix(rel, "plugins/"), strings.HasPrefix(rel, "examples/"):
				own := strings.Join(strings.SplitN(rel, "/", 3)[:2], "/")
				ok := slices.ContainsFunc([]string{"sdk/", own + "/", "plugins/internal/"}, func(room string) bool { return strings.HasPrefix(target+"/", room) })
				assert.True(t, ok, "%s imports %s: plugins and examples use sdk, their own packages and what the plugins share", rel, target)
			default:
				from, to := roomOf(rel), roomOf(target)
				if !assert.NotNil(t, from, "%s has no place in the house", rel) || !assert.NotNil(t, to, "%s has no place in the house", target) {
					continue
				}
				assert.True(t, reach(from.prefix, map[string]bool{})[to.prefix], "%s must not import %s", rel, target)
			}
		}
	}
}

// Tests of a layer of the host import no layer above it.
func TestHouseTestsPointDown(t *testing.T) {
	layer := func(path string) int {
		return slices.IndexFunc([]string{"domain", "orchestration", "adapters", "runtime"},
			func(name string) bool { return strings.HasPrefix(path, module+"/host/internal/"+name+"/") })
	}
	for _, p := range packages(t) {
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			if from := layer(p.ImportPath); from >= 0 {
				assert.LessOrEqual(t, layer(imp), from, "a test of %s must not import %s", p.ImportPath, imp)
			}
		}
	}
}

// engine are the packages of the workspace engine and those of it that each may
// import, directly or through others. The empty name is the engine itself.
var engine = map[string][]string{
	"":              {"git", "id", "ignore", "scan", "store", "tree"},
	"agent":         nil,
	"id":            nil,
	"id/legacy":     nil,
	"ignore":        nil,
	"git":           nil,
	"tree":          {"id"},
	"scan":          {"git", "id", "ignore", "tree"},
	"log":           {"id"},
	"store":         {"git", "id", "ignore", "log", "scan", "tree"},
	"view":          {"id", "ignore", "store", "tree"},
	"report":        {"id", "store", "tree", "view"},
	"storetest":     {"id", "store", "tree"},
	"watch":         {"", "git", "id", "ignore", "log", "scan", "store", "tree"},
	"extract":       nil,
	"derive":        {"agent", "derive/policy", "extract", "id", "ignore", "store", "tree"},
	"derive/policy": {"id", "store"},
	"coretest":      nil,
	"killtest":      {"id", "log"},
}

// The workspace engine knows no plugin protocol, command line, terminal or
// network, and its packages import each other in one direction. WS-030, WS-231: its
// matcher of ignore rules is its own, not that of go-git, and it needs no C.
func TestHouseWorkspaceEngineIsApart(t *testing.T) {
	const core = "plugins/workspace/core"
	found := 0
	for _, p := range packages(t) {
		rel, _ := inModule(p.ImportPath)
		name, ok := strings.CutPrefix(rel, core)
		name = strings.TrimPrefix(name, "/")
		if !ok {
			continue
		}
		found++
		mayUse, known := engine[name]
		assert.True(t, known, "%s is not listed here", rel)
		for _, imp := range p.Imports {
			if target, ours := inModule(imp); ours {
				part, inner := strings.CutPrefix(target+"/", core+"/")
				part = strings.TrimSuffix(part, "/")
				assert.True(t, inner && slices.Contains(mayUse, part) || slices.Contains([]string{"sdk/contract", "sdk/edn"}, target), "%s imports %s", rel, target)
			}
			for _, outer := range []string{"net", "net/http", "google.golang.org/grpc", "github.com/hashicorp", "github.com/spf13", "golang.org/x/term", "github.com/go-git", "C"} {
				assert.False(t, imp == outer || strings.HasPrefix(imp, outer+"/") && outer != "net", "%s imports %s", rel, imp)
			}
		}
	}
	assert.Len(t, engine, found)
}

// The domain is pure: no input or output, no goroutine, no wall clock. The
// orchestration starts no process and opens no socket.
func TestHouseInnerLayersArePure(t *testing.T) {
	forbidden := map[string][]string{
		"host/internal/domain/":        {"os", "os/exec", "net", "net/http", "math/rand", "math/rand/v2", "crypto/rand", "syscall", "log", "log/slog"},
		"host/internal/orchestration/": {"os", "os/exec", "net", "net/http", "syscall"},
	}
	for _, p := range packages(t) {
		rel, _ := inModule(p.ImportPath)
		for layer, names := range forbidden {
			if !strings.HasPrefix(rel, layer) {
				continue
			}
			for _, imp := range p.Imports {
				assert.NotContains(t, names, imp, "%s imports %s", rel, imp)
			}
		}
		if !strings.HasPrefix(rel, "host/internal/domain/") {
			continue
		}
		for _, name := range p.GoFiles {
			eachNode(t, filepath.Join(p.Dir, name), func(at string, n ast.Node) {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s: the domain starts no goroutine", at)
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && (n.Sel.Name == "Now" || n.Sel.Name == "Since" || n.Sel.Name == "Sleep") {
						t.Errorf("%s: the domain reads no wall clock", at)
					}
				}
			})
		}
	}
}

// No program follows a redirect without a decision about it: a client of net/http would send the
// headers, and with them a key, to a host that the configuration does not name.
func TestHouseClientsDecideAboutRedirects(t *testing.T) {
	clients := 0
	for _, p := range packages(t) {
		rel, _ := inModule(p.ImportPath)
		if rel == "host/bench" || strings.HasSuffix(rel, "test") || !slices.Contains(p.Imports, "net/http") {
			continue
		}
		for _, name := range p.GoFiles {
			var made, decided int
			eachNode(t, filepath.Join(p.Dir, name), func(at string, n ast.Node) {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					x, ok := n.X.(*ast.Ident)
					if !ok || x.Name != "http" {
						break
					}
					switch n.Sel.Name {
					case "DefaultClient", "Get", "Head", "Post", "PostForm":
						t.Errorf("%s: http.%s follows redirects", at, n.Sel.Name)
					case "Client":
						made++
					}
				case *ast.Ident:
					if n.Name == "CheckRedirect" {
						decided++
					}
				}
			})
			clients += made
			if made > 0 {
				assert.Positive(t, decided, "%s/%s has a client without CheckRedirect", rel, name)
			}
		}
	}
	assert.Positive(t, clients)
}

// subcommands are the files whose init runs a hidden subcommand in place of main,
// and does nothing otherwise.
var subcommands = []string{"sdk/confine/trampoline.go", "sdk/launch/hidden.go"}

// Every package says what it is for, none hides behind an empty name, none
// runs code by being imported.
func TestHousePackagesAreAtHome(t *testing.T) {
	for _, p := range packages(t) {
		rel, _ := inModule(p.ImportPath)
		generated := strings.HasSuffix(rel, "pluginv1")
		for _, bad := range []string{"util", "utils", "common", "helper", "helpers", "manager"} {
			assert.NotEqual(t, bad, p.Name, "%s: a package is named after what it holds", rel)
		}
		if p.Name != "main" && !generated {
			assert.Contains(t, p.GoFiles, "doc.go", "%s has no doc.go", rel)
		}
		if generated {
			continue
		}
		for _, name := range p.GoFiles {
			if slices.Contains(subcommands, path.Join(rel, name)) {
				continue
			}
			eachNode(t, filepath.Join(p.Dir, name), func(at string, n ast.Node) {
				if f, ok := n.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s: importing a package has no side effect, so there is no init", at)
				}
			})
		}
	}
}

// The top level holds what a visitor expects and nothing else.
func TestHouseTopLevel(t *testing.T) {
	cmd := exec.Command("git", "ls-files", "-co", "--exclude-standard")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil { // a source archive has no repository: read the folder instead
		entries, err := os.ReadDir("..")
		require.NoError(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		out = []byte(strings.Join(names, "\n"))
	}
	tops := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		tops[strings.SplitN(strings.TrimSpace(line), "/", 2)[0]] = true
	}
	allowed := []string{".ci", ".git", ".github", ".gitignore", "LICENSE", "Makefile", "README.md", "bin", "examples", "ferment.hcl", "go.mod", "go.sum", "host", "plugins", "sdk", "var"}
	var extra []string
	for name := range tops {
		if name != "" && !slices.Contains(allowed, name) {
			extra = append(extra, name)
		}
	}
	sort.Strings(extra)
	assert.Empty(t, extra, "these do not belong on the top level")
	assert.True(t, tops["go.mod"], "the listing must be that of the repository")
}

func eachNode(t *testing.T, path string, visit func(at string, n ast.Node)) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if n != nil {
			visit(set.Position(n.Pos()).String(), n)
		}
		return true
	})
}
