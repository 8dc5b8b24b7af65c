package cli_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
)

// identified is a profile under which callers of the listener need credentials.
const identified = "\nauth {\n  required = true\n\n  basic {\n    memory = \"8MiB\"\n    time   = 1\n  }\n}\n"

// AUTH-001, AUTH-003, AUTH-012, AUTH-031, CLI-003: the first user is made over the admin
// socket, tokens admit over HTTP, runs belong to their user, and all of it outlives the
// daemon; a revoked token does not.
func TestUsersOfADaemon(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+identified)
	s := w.serve()
	refused := s.ask("mine/data", "{}")
	assert.Equal(t, "auth/not-configured", refused.failure(t))
	assert.Contains(t, string(refused.body), "ferment user add")

	none := w.run("user", "list")
	assert.Contains(t, none.stdout, "ferment user add NAME --role admin")
	added := w.feed("three small words\n", "user", "add", "root", "--role", "admin")
	require.Equal(t, 0, added.code, added.stderr)
	assert.Regexp(t, `^root \(user/1\): added\ntype simple  status active  roles admin user\n$`, added.stdout)
	w.data("user", "add", "ann", "--no-password")
	w.data("user", "add", "eve", "--no-password")

	made := w.run("token", "create", "ann", "--label", "of a test", "--ttl", "2h")
	require.Equal(t, 0, made.code, made.stderr)
	assert.Regexp(t, `^fmt_\S{58}\n$`, made.stdout, "only the token is on standard output")
	assert.NotContains(t, made.stderr, strings.TrimSpace(made.stdout))
	ann := "Bearer " + strings.TrimSpace(made.stdout)
	eve := "Bearer " + plain(w.data("token", "create", "eve").Key("token"))

	ask := func(as string) answer {
		return s.request(t.Context(), "POST", "/v1/act", envelopeOf("mine/data", "{}", ""), "Authorization", as)
	}
	first := ask(ann)
	require.Equal(t, http.StatusOK, first.status, "%s", first.body)
	run := first.header.Get("Ferment-Run-Id")
	show := func(as string) int {
		return s.request(t.Context(), "GET", "/v1/runs/"+run, "", "Authorization", as).status
	}
	assert.Equal(t, []int{200, 404}, []int{show(ann), show(eve)}, "the run of another caller does not exist")
	accepted := w.run("runs", "records", run, "--edn").stdout
	assert.Contains(t, accepted, ":principal \"user/2\"")
	assert.Contains(t, accepted, ":what :http.v1/act", "AUTH-013: the decision is recorded")
	assert.Equal(t, http.StatusForbidden, s.request(t.Context(), "POST", "/v1/admin", "{:action :status}", "Authorization", ann).status)
	assert.Contains(t, w.run("admin", "audit").stdout, "auth/denied")
	assert.NotContains(t, w.run("admin", "events").stdout, "auth/denied", "they need only diag/read")

	w.fromElsewhere(s, strings.TrimPrefix(ann, "Bearer "), strings.TrimPrefix(eve, "Bearer "), run)

	listed := w.run("token", "list", "--user", "ann")
	assert.Regexp(t, `(?m)^[a-z0-9]{8} +ann +\S+Z +all +of a test$`, listed.stdout)
	w.write("create.edn", `{:action :create-user :user "kay"}`)
	once := w.data("admin", "action", "--key", "k-1", "create.edn")
	s.stop()
	s = w.serve()
	assert.Equal(t, []int{200, 404}, []int{show(ann), show(eve)}, "after a restart")
	assert.Equal(t, once.String(), w.data("admin", "action", "--key", "k-1", "create.edn").String(), "HTTP-008: the same answer after a restart")
	w.write("create.edn", `{:action :create-user :user "joe"}`)
	assert.Contains(t, w.run("admin", "action", "--key", "k-1", "create.edn").stderr, "idempotency/mismatch")

	id := strings.Split(ann, "_")[1]
	dry := w.run("token", "revoke", id, "--dry-run")
	assert.Contains(t, dry.stdout, "nothing was done")
	assert.Equal(t, 2, w.run("token", "revoke", id).code, "there is no terminal to ask on")
	assert.Equal(t, 200, show(ann))
	assert.Equal(t, 0, w.run("token", "revoke", id, "--yes").code)
	assert.Equal(t, http.StatusUnauthorized, show(ann))

	tenants(t, w, s, run)
	w.data("user", "lock", "eve", "--yes")
	assert.Equal(t, http.StatusUnauthorized, show(eve))
	w.data("user", "unlock", "eve")
	assert.Equal(t, http.StatusNotFound, show(eve))
	s.stop()
}

// tenants has users of two tenants act: an operator of a tenant knows the runs of its
// tenant and no others, and an administrator of one cannot administer the host (AUTH-012).
func tenants(t *testing.T, w *world, s *served, ofHost string) {
	as := map[string]string{}
	for login, flags := range map[string]string{
		"pia": "--tenant lab", "pat": "--tenant lab --role operator", "sam": "--tenant shop --role operator", "adm": "--tenant lab --role admin", "opa": "--role operator",
	} {
		w.data(append([]string{"user", "add", login, "--no-password"}, strings.Fields(flags)...)...)
		as[login] = "Bearer " + plain(w.data("token", "create", login).Key("token"))
	}
	made := s.request(t.Context(), "POST", "/v1/act", envelopeOf("mine/data", "{}", ""), "Authorization", as["pia"])
	require.Equal(t, http.StatusOK, made.status, "%s", made.body)
	run := made.header.Get("Ferment-Run-Id")
	records := w.run("runs", "records", run, "--edn").stdout
	assert.Contains(t, records, `:tenant "lab"`)
	_, value, _ := strings.Cut(records, `:response "`)
	value, _, _ = strings.Cut(value, `"`)
	require.Regexp(t, `^b3:`, value)
	for login, want := range map[string][3]int{"pia": {200, 404, 200}, "pat": {200, 404, 200}, "adm": {200, 404, 200}, "sam": {404, 404, 404}, "opa": {200, 200, 200}} {
		status := func(path string) int {
			return s.request(t.Context(), "GET", path, "", "Authorization", as[login]).status
		}
		got := [3]int{status("/v1/runs/" + run), status("/v1/runs/" + ofHost), status("/v1/values/" + value)}
		assert.Equal(t, want, got, login)
		listed := s.request(t.Context(), "GET", "/v1/runs", "", "Authorization", as[login])
		assert.Equal(t, want[0] == 200, strings.Contains(string(listed.body), run), login)
		assert.Equal(t, want[1] == 200, strings.Contains(string(listed.body), ofHost), login)
	}
	admin := s.request(t.Context(), "POST", "/v1/admin", `{:action :list-users}`, "Authorization", as["adm"], "Content-Type", "application/edn")
	assert.Equal(t, http.StatusForbidden, admin.status, "%s", admin.body)
	assert.Contains(t, string(admin.body), "without a tenant")
}

// CLI-001, CLI-002, CLI-005: exit codes and outputs of the verbs about users.
func TestUserVerbs(t *testing.T) {
	t.Parallel()
	w := answering(t, identified+"\nrole \"auditor\" {}\n\noperations {\n  rule \"runs/any\" {\n    any = [\"auditor\"]\n  }\n}\n")
	assert.Equal(t, 3, w.run("user", "list").code, "no daemon")
	s := w.serve()
	require.Equal(t, 0, w.feed("three small words", "user", "add", "root", "--role", "admin").code)
	require.Equal(t, 0, w.feed("three small words", "user", "add", "ann", "--role", "auditor,operator").code)
	for args, want := range map[string]struct {
		stdin string
		exit  int
		says  string
	}{
		"user add ann":                              {"three small words", 6, "already"},
		"user add bob":                              {"", 2, "--no-password"},
		"user add bob --role auditr":                {"three small words", 5, "auditor"},
		"user add bob ":                             {"short", 2, "expected 12 to 1024"},
		"user add Bob --no-password":                {"", 2, "not a login"},
		"user show bob":                             {"", 5, "user list"},
		"user passwd bob":                           {"three small words", 5, "no user"},
		"user delete root --yes":                    {"", 6, "no administrator"},
		"user lock root --dry-run":                  {"", 6, "no administrator"},
		"role grant ann anonymous":                  {"", 1, "cannot be granted"},
		"role revoke ann operator":                  {"", 2, "--yes"},
		"role create auditor":                       {"", 6, "configuration has the role"},
		"role create Night":                         {"", 1, "not the name of a role"},
		"role create night --include nope":          {"", 5, "there is no role"},
		"role delete auditor --yes":                 {"", 1, "is declared in the configuration"},
		"role delete night --yes":                   {"", 5, "role list"},
		"user add bob --no-password --tenant Lab":   {"", 2, "name of a tenant"},
		"token create bob":                          {"", 5, "no user"},
		"token create ann --ttl 400d":               {"", 2, "max_ttl"},
		"token create ann --operation http.v1/actt": {"", 2, "http.v1/act"},
		"token revoke abcdefgh --yes":               {"", 5, "token list"},
	} {
		got := w.feed(want.stdin, strings.Fields(args)...)
		assert.Equal(t, want.exit, got.code, "%s: %s", args, got.stderr)
		assert.Contains(t, strings.ReplaceAll(got.stderr, "\n", " "), want.says, args)
		assert.Empty(t, got.stdout, args)
	}
	listed := w.run("user", "list")
	assert.Regexp(t, `(?m)^login +id +type +status +tenant +roles$`, listed.stdout)
	assert.Regexp(t, `(?m)^ann +user/2 +simple +active +- +auditor operator user$`, listed.stdout)
	roles := w.run("role", "list")
	assert.Regexp(t, `(?m)^auditor +ann$`, roles.stdout)
	assert.Contains(t, w.run("role", "revoke", "ann", "auditor", "--dry-run").stdout, "dry run")
	assert.Contains(t, w.run("role", "revoke", "ann", "auditor", "--yes").stdout, "roles operator user")
	assert.Regexp(t, `^ann \(user/2\): .*\ntokens deleted: 0\n$`, w.run("user", "delete", "ann", "--yes").stdout)
	createdRoles(t, w)
	asJSON := w.run("user", "show", "root", "--json")
	assert.Contains(t, asJSON.stdout, `"login":"root"`)
	assert.NotContains(t, asJSON.stdout, "argon2")
	s.stop()
}

// createdRoles makes a role, uses it, and deletes it. A configuration that declares the
// same name is refused by a reload (AUTH-006, HTTP-008).
func createdRoles(t *testing.T, w *world) {
	made := w.run("role", "create", "night", "--include", "operator", "--doc", "from 22:00")
	assert.Equal(t, "role night: created\nincludes operator\n", made.stdout, made.stderr)
	require.Equal(t, 0, w.run("user", "add", "bob", "--no-password", "--role", "night", "--tenant", "lab").code)
	assert.Regexp(t, `(?m)^bob +user/\d+ +simple +active +lab +night operator user$`, w.run("user", "list").stdout)
	assert.Regexp(t, `(?m)^night +created +operator +from 22:00$`, w.run("role", "known").stdout)
	assert.Regexp(t, `(?m)^night +bob$`, w.run("role", "list").stdout)
	inUse := w.run("role", "delete", "night", "--yes")
	assert.Equal(t, 6, inUse.code)
	assert.Contains(t, inUse.stderr, "ferment role revoke bob night")
	w.rewrite("ferment.hcl", `role "auditor" {}`, "role \"auditor\" {}\n\nrole \"night\" {}")
	clash := w.run("admin", "reload")
	assert.NotZero(t, clash.code, clash.stdout)
	assert.Contains(t, clash.stderr, "config/duplicate")
	assert.Contains(t, w.run("role", "known").stdout, "created", "nothing was changed")
	w.rewrite("ferment.hcl", "role \"night\" {}", "")
	assert.Equal(t, 0, w.run("role", "revoke", "bob", "night", "--yes").code)
	assert.Contains(t, w.run("role", "delete", "night", "--dry-run").stdout, "nothing was done")
	assert.Contains(t, w.run("role", "delete", "night", "--yes").stdout, "role night: deleted")
	assert.NotContains(t, w.run("role", "known").stdout, "night")
}

// AUTH-030, AUTH-032: a listener that other machines can reach serves callers with
// credentials over TLS; without TLS the daemon does not start, and a reload that takes
// either away is refused.
func TestOpenListener(t *testing.T) {
	t.Parallel()
	open := "\nhttp {\n  listen = [\"0.0.0.0:0\"]\n"
	const encrypted = "\n  tls {\n    cert_file = \"cert.pem\"\n    key_file  = \"key.pem\"\n  }\n"
	w := answering(t, identified+open+"}\n")
	got := w.run("serve")
	assert.Equal(t, 78, got.code, got.stderr)
	assert.Contains(t, got.stderr, "http/insecure-listener")
	w.certify(1)
	config := filepath.Join(w.dir, "ferment.hcl")
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	secure := strings.Replace(string(text), open, open+encrypted, 1)
	w.write("ferment.hcl", strings.Replace(secure, "required = true", "required = false", 1))
	assert.Equal(t, 78, w.run("serve").code, "callers would not be identified")
	w.write("ferment.hcl", secure)
	s := w.serve()
	require.True(t, strings.HasPrefix(s.address, "[::]:") || strings.HasPrefix(s.address, "0.0.0.0:"), s.address)
	w.write("ferment.hcl", string(text))
	s.signal(syscall.SIGHUP)
	assert.Equal(t, 1, w.run("admin", "reload").code, "without TLS")
	s.stop()
}

// CLI-006: the examples in the help of the verbs about users are run.
func TestHelpExamplesOfUsers(t *testing.T) {
	t.Parallel()
	w := answering(t, identified)
	s := w.serve()
	w.data("user", "add", "root", "--role", "admin", "--no-password")
	w.data("user", "add", "another", "--no-password")
	id := plain(w.data("token", "create", "another").Key("token/id"))
	var lines []string
	for _, verb := range []string{"user", "role", "token"} {
		lines = append(lines, examplesOf(t, w, verb)...)
	}
	require.Greater(t, len(lines), 15)
	when := func(line string) int { // what ends comes last
		switch {
		case strings.Contains(line, " user add "):
			return 0
		case strings.Contains(line, " delete ") && strings.Contains(line, "--yes"):
			return 3
		case strings.Contains(line, "--yes"):
			return 2
		}
		return 1
	}
	slices.SortStableFunc(lines, func(a, b string) int { return when(a) - when(b) })
	for _, line := range lines {
		got := w.shell("echo three small words | " + strings.ReplaceAll(line, "k3v9q2ma", id))
		assert.Equal(t, 0, got.code, "%s\n%s", line, got.stderr)
	}
	s.stop()
}

// fromElsewhere uses a daemon with --server: ann and eve are tokens of two users, run is
// one of the first.
//
// CLI-003, CLI-007: commands reach a daemon over HTTP with a token from the environment or
// a private file, and do there what the user may. AUTH-011, AUTH-012: actions on runs are
// permitted to those who may read runs, for their own ones.
func (w *world) fromElsewhere(s *served, ann, eve, run string) {
	w.t.Helper()
	there := func(token string, args ...string) ended {
		other := *w
		other.dir = w.t.TempDir() // no configuration
		other.env = append(slices.Clone(w.env), "FERMENT_TOKEN="+token)
		return other.run(append([]string{"--server", "http://" + s.address}, args...)...)
	}
	done := there(ann, "act", "mine/data", "{}", "--edn")
	require.Equal(w.t, 0, done.code, done.stderr)
	assert.Contains(w.t, done.stdout, ":n 1")
	assert.Contains(w.t, there(ann, "runs", "list").stdout, run)
	assert.Contains(w.t, there(ann, "runs", "show", run).stdout, "mine/data")
	assert.Equal(w.t, 0, there(ann, "runs", "watch", run).code)
	assert.NotContains(w.t, there(eve, "runs", "list").stdout, run)
	assert.Equal(w.t, 5, there(eve, "runs", "show", run).code, "the run of another user does not exist")
	assert.Equal(w.t, 0, there(ann, "session", "open").code)
	for name, got := range map[string]ended{
		"an action for administrators": there(ann, "user", "list"),
		"the state of the host":        there(ann, "status"),
		"no such token":                there(ann[:len(ann)-1]+"x", "runs", "list"),
		"no token":                     there("", "runs", "list"),
	} {
		assert.Equal(w.t, 4, got.code, "%s: %s%s", name, got.stdout, got.stderr)
	}
	w.data("user", "add", "chief", "--role", "admin", "--no-password")
	chief := plain(w.data("token", "create", "chief").Key("token"))
	for _, line := range []string{
		"plugin list", "plugin inspect mine", "plugin logs mine", "explain mine/data", "dispatch stats", "judge list", "protocol export",
		"config show", "diff", "admin audit", "admin log-level", "admin db-status", "admin gc --dry-run", "admin migrate --dry-run", "admin backup",
	} {
		got := there(chief, strings.Fields(line)...)
		assert.Equal(w.t, 0, got.code, "%s: %s", line, got.stderr)
	}
	assert.Contains(w.t, there(chief, "config", "show", "--only", "plugin.mine").stdout, "plugin \"mine\"")
	assert.Contains(w.t, there(chief, "plugin", "list").stdout, "mine")
	w.logsElsewhere(there, "http://"+s.address, chief)
	for name, args := range map[string][]string{
		"local work":           {"validate"},
		"a file to replay":     {"runs", "replay", "./x"},
		"too many lines":       {"plugin", "logs", "mine", "--lines", "1001"},
		"no lines":             {"plugin", "logs", "mine", "--lines", "0"},
		"files to compare":     {"diff", "--against", "x"},
		"a path":               {"admin", "backup", "x"},
		"a file of this host":  {"runs", "import", "x"},
		"with --local":         {"act", "mine/data", "{}", "--local"},
		"a token in the flags": {"act", "mine/data", "{}", "--token", ann},
	} {
		assert.Equal(w.t, 2, there(ann, args...).code, name)
	}
	file := w.write("token", ann+"\n")
	require.NoError(w.t, os.Chmod(file, 0o600))
	with := func() ended { return w.run("--server", "http://"+s.address, "--token-file", file, "runs", "list") }
	assert.Equal(w.t, 0, with().code)
	require.NoError(w.t, os.Chmod(file, 0o640))
	shared := with()
	assert.Equal(w.t, 4, shared.code)
	assert.Contains(w.t, shared.stderr, "chmod 600")
	for server, code := range map[string]int{
		"http://192.0.2.1:7180": 1, // unencrypted to another machine
		"ftp://127.0.0.1":       2, "127.0.0.1:7180": 2, "http://a@127.0.0.1": 2, "http://127.0.0.1/v1": 2,
		"http://127.0.0.1:1": 3,
	} {
		assert.Equal(w.t, code, w.run("--server", server, "runs", "list").code, server)
	}
}

// logsElsewhere reads the log of a plugin of a daemon with --server, and follows it; there
// executes commands with a token.
func (w *world) logsElsewhere(there func(token string, args ...string) ended, server, token string) {
	w.t.Helper()
	log, err := os.OpenFile(plugin.LogPath(filepath.Join(w.dir, "var"), "mine"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(w.t, err)
	_, err = log.WriteString("not \"JSON\"\n")
	require.NoError(w.t, err)
	require.NoError(w.t, log.Close())
	for _, format := range []string{"text", "json"} {
		args := []string{"plugin", "logs", "mine", "--lines", "1", "-o", format}
		here := w.run(args...)
		require.Equal(w.t, 0, here.code, here.stderr)
		assert.Equal(w.t, here.stdout, there(token, args...).stdout, format)
	}
	other := *w
	other.env = append(slices.Clone(w.env), "FERMENT_TOKEN="+token)
	p := other.launch("", "/bin/sh", "-c", "exec "+built.ferment+" --server "+server+" plugin logs mine --lines 1 -f >&2")
	line, ok := p.line(0)
	require.True(w.t, ok)
	assert.Equal(w.t, "not \"JSON\"\n", line)
	p.signal(syscall.SIGINT)
	assert.Equal(w.t, 130, p.wait().code)
}

// AUTH-002: a password that is not UTF-8 would be stored as another text, with which no caller can
// log in; one of blanks alone is refused too.
func TestPasswordsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+identified)
	w.serve()
	for _, text := range []string{"\xff\xfeaaaaaaaaaaaa", "three \xc3 words", strings.Repeat(" ", 12), strings.Repeat("\t \u00a0", 6)} {
		assert.NotZero(t, w.feed(text, "user", "add", "root", "--role", "admin").code, "%q", text)
	}
	assert.Zero(t, w.data("user", "list").Key("users").Len())
}
