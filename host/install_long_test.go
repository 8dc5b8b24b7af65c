//go:build external && long && linux

package host_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// jail is a root folder, for programs that need nothing else.
type jail struct {
	t        *testing.T
	root     string
	network  string // empty: one of its own for each program
	dir      string // working directory
	user     string // number of user and group; empty: root
	env      []string
	readOnly bool     // all but writable and ownTmp is read-only
	writable []string // directories
	ownTmp   bool     // /tmp is empty and writable
}

// must runs a program of the machine.
func must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%q\n%s", args, text)
	return string(text)
}

func newJail(t *testing.T, root, network string) *jail {
	t.Helper()
	for _, dir := range []string{"proc", "dev", "tmp", "run"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	require.NoError(t, os.Chmod(root, 0o755))
	require.NoError(t, os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky))
	return &jail{
		t:       t,
		root:    root,
		network: network,
		dir:     "/",
		env:     []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/var/lib/ferment"},
	}
}

// command is a program of the root folder, with no other program in reach.
func (j *jail) command(ctx context.Context, args ...string) *exec.Cmd {
	steps := []string{`set -e; mount --bind "$0" "$0"; mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"`}
	for _, dir := range j.writable {
		steps = append(steps, fmt.Sprintf(`mount --bind "$0%[1]s" "$0%[1]s"`, dir))
	}
	if j.readOnly {
		steps = append(steps, `mount -o remount,bind,ro "$0"`)
	}
	if j.ownTmp {
		steps = append(steps, `mount -t tmpfs -o mode=1777 tmpfs "$0/tmp"`)
	}
	steps = append(steps, `cd /; exec "$@"`)
	program, err := exec.LookPath("unshare") // below, PATH is that of the jail
	require.NoError(j.t, err)
	enter := append([]string{"setpriv", "--no-new-privs", "env", "-i"}, j.env...)
	enter = append(enter, program, "--root="+j.root, "--wd="+j.dir)
	if j.user != "" {
		enter = append(enter, "--setgid="+j.user, "--setuid="+j.user)
	}
	in := []string{"ip", "netns", "exec", j.network}
	if j.network == "" {
		in = []string{"unshare", "--net"}
		steps[0] += "; ip link set lo up"
	}
	line := append(append(in, "unshare", "--mount", "sh", "-c", strings.Join(steps, "; "), j.root), append(enter, args...)...)
	return exec.CommandContext(ctx, line[0], line[1:]...)
}

func (j *jail) run(stdin string, args ...string) string {
	j.t.Helper()
	cmd := j.command(j.t.Context(), args...)
	cmd.Stdin = strings.NewReader(stdin)
	text, err := cmd.CombinedOutput()
	require.NoError(j.t, err, "%q\n%s", args, text)
	return string(text)
}

// serve starts a daemon, waits until the command says that it is ready, and returns a
// function that stops it.
func (j *jail) serve(start []string, ready func(ctx context.Context) *exec.Cmd) (stop func()) {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	j.t.Cleanup(cancel)
	cmd := j.command(ctx, start...)
	var log bytes.Buffer
	cmd.Stderr = &log
	require.NoError(j.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	require.Eventually(j.t, func() bool {
		select {
		case err := <-ended:
			require.NoError(j.t, err, log.String())
			require.Fail(j.t, "the daemon ended", log.String())
		default:
		}
		return ready(ctx).Run() == nil
	}, 5*time.Minute, 100*time.Millisecond)
	return func() {
		j.t.Helper()
		require.NoError(j.t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(j.t, <-ended, log.String())
	}
}

// twoNetworks connects two networks of their own, and returns their names. The first has
// the address 10.77.0.1, the second 10.77.0.2.
func twoNetworks(t *testing.T) (host, other string) {
	t.Helper()
	host, other = fmt.Sprintf("fh%d", os.Getpid()), fmt.Sprintf("fo%d", os.Getpid())
	for _, name := range []string{host, other} {
		must(t, "", "ip", "netns", "add", name)
		t.Cleanup(func() { must(t, "", "ip", "netns", "del", name) })
	}
	must(t, "", "ip", "-n", host, "link", "add", "veth0", "type", "veth", "peer", "name", "veth1", "netns", other)
	for name, link := range map[string][2]string{host: {"veth0", "10.77.0.1/24"}, other: {"veth1", "10.77.0.2/24"}} {
		must(t, "", "ip", "-n", name, "address", "add", link[1], "dev", link[0])
		must(t, "", "ip", "-n", name, "link", "set", link[0], "up")
		must(t, "", "ip", "-n", name, "link", "set", "lo", "up")
	}
	return host, other
}

// certificate writes a certificate for a name, and its key.
func certificate(t *testing.T, name, cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		DNSNames:              []string{name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &secret.PublicKey, secret)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(secret)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(cert), 0o755))
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
}

// releaseOf makes a release of a commit at a time and returns its folder.
func releaseOf(t *testing.T, version string, at int) string {
	t.Helper()
	out := t.TempDir()
	cmd := exec.Command("go", "run", "./.ci/release", "-out", out, "-version", version, "-level", "1")
	cmd.Dir, cmd.Env = "..", append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", at))
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return out
}

const moveRequest = `{"proto":1,"trace":{"id":"t-1"},"task":{"intent":"chess/best-move"},"input":{"fen":"6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"}}`

// machine is a machine with a few programs of Debian and without a service manager: it does
// for the unit of the service what systemd does.
type machine struct {
	t       *testing.T
	root    string
	network string
	release string // folder with the packages
	stop    func() // of the service; nil: it does not run
}

func newMachine(t *testing.T, network string) *machine {
	t.Helper()
	m := &machine{t: t, root: t.TempDir(), network: network}
	for _, dir := range []string{"etc", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "dev", "var/log", "var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		require.NoError(t, os.MkdirAll(filepath.Join(m.root, dir), 0o755))
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		require.NoError(t, os.Symlink("usr/"+dir, filepath.Join(m.root, dir)))
	}
	for _, file := range []string{"etc/group", "etc/shadow", "etc/gshadow", "etc/login.defs", "var/lib/dpkg/status"} {
		require.NoError(t, os.WriteFile(filepath.Join(m.root, file), nil, 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(m.root, "etc/passwd"), []byte("root:x:0:0::/root:/bin/sh\n"), 0o644))
	must(t, "", "mknod", "-m", "666", filepath.Join(m.root, "dev/null"), "c", "1", "3") // for scripts of packages
	library := regexp.MustCompile(`/\S+\.so\S*`)
	for _, name := range []string{"sh", "getent", "useradd", "mkdir", "chown", "chgrp", "chmod", "mv"} {
		program, err := exec.LookPath(name)
		require.NoError(t, err)
		for _, file := range append(library.FindAllString(must(t, "", "ldd", program), -1), program) {
			to := filepath.Join(m.root, file)
			require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
			must(t, "", "cp", "--dereference", file, to)
		}
	}
	return m
}

func (m *machine) jail(user string) *jail {
	j := newJail(m.t, m.root, m.network)
	j.user = user
	return j
}

// user is the number of the user ferment, which the package creates.
func (m *machine) user() string {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.root, "etc/passwd"))
	require.NoError(m.t, err)
	found := regexp.MustCompile(`(?m)^ferment:[^:]*:(\d+):(\d+):`).FindSubmatch(text)
	require.NotNil(m.t, found, "%s", text)
	require.Equal(m.t, string(found[1]), string(found[2]), "user and group")
	return string(found[1])
}

// follow executes the commands of the block of docs/operations.md that has a text, and
// returns what they print.
func (m *machine) follow(text string) string {
	m.t.Helper()
	var out strings.Builder
	found := false
	for _, f := range fencesOf(m.t, "docs/operations.md") {
		if found || f.language != "text" || !strings.Contains(f.text, text) {
			continue
		}
		found = true
		for line := range strings.Lines(f.text) {
			out.WriteString(m.execute(strings.Fields(line)))
		}
	}
	require.True(m.t, found, text)
	return out.String()
}

// execute executes a command as sudo, dpkg and systemctl would.
func (m *machine) execute(words []string) string {
	m.t.Helper()
	switch line := strings.Join(words, " "); {
	case words[0] != "sudo":
		return must(m.t, "", "sh", "-c", `cd "$0" && `+line, m.release)
	case strings.HasPrefix(line, "sudo dpkg "):
		return must(m.t, "", "sh", "-c", `cd "$0" && dpkg --root="$1" --force-depends `+strings.TrimPrefix(line, "sudo dpkg "), m.release, m.root)
	case strings.HasPrefix(line, "sudo systemctl "):
		if m.stop != nil {
			m.stop()
			m.stop = nil
		}
		if !slices.Contains(words, "stop") {
			m.start()
		}
		return ""
	case words[1] == "-u":
		require.Equal(m.t, "ferment", words[2])
		return m.jail(m.user()).run("three small words", words[3:]...)
	}
	return m.jail("").run("", words[1:]...)
}

// start starts the service in the file system that its unit gives it.
func (m *machine) start() {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.root, "usr/lib/systemd/system/ferment.service"))
	require.NoError(m.t, err)
	unit := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			unit[key] = strings.ReplaceAll(v, "%t", "/run")
		}
	}
	require.Equal(m.t, "ferment", unit["User"])
	j := m.jail(m.user())
	j.dir = unit["WorkingDirectory"]
	j.readOnly, j.ownTmp = unit["ProtectSystem"] == "strict", unit["PrivateTmp"] == "yes"
	j.env = append(j.env, unit["Environment"])
	j.writable = []string{"/var/lib/" + unit["StateDirectory"], "/run/" + unit["RuntimeDirectory"]}
	for _, dir := range j.writable {
		require.NoError(m.t, os.MkdirAll(filepath.Join(m.root, dir), 0o700))
		must(m.t, "", "chown", j.user+":"+j.user, filepath.Join(m.root, dir))
	}
	for dir := range strings.FieldsSeq(unit["ReadWritePaths"]) {
		dir, optional := strings.CutPrefix(dir, "-")
		if _, err := os.Stat(filepath.Join(m.root, dir)); err != nil {
			require.True(m.t, optional, "systemd refuses a unit without %s", dir)
			continue
		}
		j.writable = append(j.writable, dir)
	}
	stop := j.serve(strings.Fields(unit["ExecStart"]), func(ctx context.Context) *exec.Cmd {
		return m.jail(j.user).command(ctx, "ferment", "status", "--config", "/etc/ferment/ferment.hcl")
	})
	m.stop = func() {
		stop()
		require.NoError(m.t, os.RemoveAll(filepath.Join(m.root, "run", unit["RuntimeDirectory"])))
	}
}

// OPS-006, OPS-008, AUTH-030: the steps of docs/operations.md with the Debian package on a
// machine that has nothing else, with a network of its own. The service runs as its own
// user, and may write only where its unit allows it: install, first user, TLS, an act from
// another network, backup, upgrade from an earlier version, and restore.
func TestInstall(t *testing.T) {
	first, second := releaseOf(t, "f00dcafe", 1760000000), releaseOf(t, "beefcafe", 1760000100)
	network, other := twoNetworks(t)
	m := newMachine(t, network)
	m.release = first
	m.follow("sudo systemctl enable")
	ferment := func(line string) string {
		t.Helper()
		return m.execute(strings.Fields("sudo -u ferment ferment " + line + " --config /etc/ferment/ferment.hcl"))
	}
	made := regexp.MustCompile(`fmt_\S+`).FindString(ferment("token create ann --edn"))
	token := strings.TrimRight(made, `"`)

	cert := filepath.Join(m.root, "etc/ferment/tls/cert.pem")
	certificate(t, "ferment.test", cert, filepath.Join(m.root, "etc/ferment/tls/key.pem"))
	openListener(t, filepath.Join(m.root, "etc/ferment/ferment.hcl"))
	m.follow("sudo chgrp ferment")
	call := func(url, token string) string {
		t.Helper()
		return must(t, "", "ip", "netns", "exec", other, "curl", "-sS", "--cacert", cert, "--resolve", "ferment.test:7180:10.77.0.1",
			"-H", "Content-Type: application/json", "-H", "Authorization: Bearer "+token, "-d", moveRequest, url+"/v1/act")
	}
	const url = "https://ferment.test:7180"
	assert.Contains(t, call(url, "nothing"), "auth/unauthorized")
	assert.Contains(t, call(url, token), `"move":"d1d8"`)
	plain := exec.Command("ip", "netns", "exec", other, "curl", "-sS", "--max-time", "5", "http://10.77.0.1:7180/health")
	text, _ := plain.CombinedOutput()
	assert.NotContains(t, string(text), `"ok?":true`, "nothing is served without TLS")
	assert.Contains(t, m.follow("ferment admin backup verify"), "verified")

	// The configuration that an operator changed is kept.
	m.release = second
	assert.NotContains(t, m.follow("ferment_*.deb\nsudo ferment plugin lock"), "downgrading")
	assert.Contains(t, ferment("version"), "beefcafe")
	assert.Contains(t, call(url, token), `"move":"d1d8"`, "the token outlives the upgrade")
	assert.Contains(t, ferment("runs verify"), "2 runs verified, none damaged")

	out := m.follow("sudo systemctl stop ferment")
	assert.Contains(t, out, "restored")
	assert.Contains(t, out, "1 run verified, none damaged")
	assert.Contains(t, call(url, token), `"move":"d1d8"`)
	m.execute([]string{"sudo", "systemctl", "stop", "ferment"})
}

// OPS-002, OPS-006: the image of examples/operations/Containerfile runs as its user, with
// nothing writable but its volumes and /tmp. Without a builder of images its steps are
// executed here.
func TestContainer(t *testing.T) {
	text, err := os.ReadFile("../examples/operations/Containerfile")
	require.NoError(t, err)
	if exec.Command("docker", "info").Run() == nil {
		containerOf(t)
		return
	}
	t.Log("no builder of images is here: the steps of the file are executed without one")
	dir := t.TempDir()
	var image struct {
		dir, user  string
		env        []string
		volumes    []string
		entrypoint []string
		command    []string
	}
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	for line := range strings.Lines(joined) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "RUN":
			if strings.Contains(rest, "./.ci/release") {
				rest = regexp.MustCompile(`/(image|dist)\b`).ReplaceAllString(rest, dir+"/$1")
				must(t, "", "sh", "-c", "cd .. && VERSION=1.2.3 SOURCE_DATE_EPOCH=0 && "+rest)
			}
		case "USER":
			image.user, _, _ = strings.Cut(rest, ":")
		case "WORKDIR":
			image.dir = rest
		case "ENV":
			image.env = strings.Fields(rest)
		case "VOLUME":
			image.volumes = strings.Fields(rest)
		case "ENTRYPOINT":
			require.NoError(t, json.Unmarshal([]byte(rest), &image.entrypoint))
		case "CMD":
			require.NoError(t, json.Unmarshal([]byte(rest), &image.command))
		}
	}
	j := newJail(t, filepath.Join(dir, "image"), "")
	j.dir, j.user, j.env = image.dir, image.user, image.env
	j.readOnly, j.ownTmp, j.writable = true, true, image.volumes
	stop := j.serve(append(image.entrypoint, image.command...), func(ctx context.Context) *exec.Cmd {
		return j.command(ctx, append(image.entrypoint, "status")...)
	})
	assert.Contains(t, j.run("", append(image.entrypoint, "act", "chess/best-move", `{:fen "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"}`)...), "d1d8")
	stop()
}

// containerOf builds the image and runs it as its first lines show.
func containerOf(t *testing.T) {
	t.Helper()
	const image = "ferment-test"
	must(t, "", "docker", "build", "-f", "../examples/operations/Containerfile", "-t", image, "..")
	id := strings.TrimSpace(must(t, "", "docker", "run", "--detach", "--read-only", "--tmpfs", "/tmp", image))
	t.Cleanup(func() { must(t, "", "docker", "rm", "--force", "--volumes", id) })
	require.Eventually(t, func() bool {
		return exec.Command("docker", "exec", id, "/opt/ferment/bin/ferment", "status").Run() == nil
	}, 5*time.Minute, time.Second)
	assert.Contains(t, must(t, "", "docker", "exec", id, "/opt/ferment/bin/ferment", "act", "chess/best-move", `{:fen "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"}`), "d1d8")
	must(t, "", "docker", "stop", id)
}

// openListener has a configuration serve other machines over TLS, as docs/operations.md
// shows.
func openListener(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	docs, err := os.ReadFile("docs/operations.md")
	require.NoError(t, err)
	_, block, ok := strings.Cut(string(docs), "```text\nhttp {")
	require.True(t, ok)
	block, _, ok = strings.Cut("http {"+block, "```")
	require.True(t, ok)
	block = strings.ReplaceAll(block, "ferment.example.org", "ferment.test")
	shipped := regexp.MustCompile(`(?ms)^http \{.*?^\}\n`)
	require.NoError(t, os.WriteFile(file, []byte(shipped.ReplaceAllString(string(text), "")+"\n"+block), 0o644))
}
