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
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// jail is a root folder and a network of its own, for programs that need nothing else.
type jail struct {
	t             *testing.T
	root, network string
	user          string // as chroot takes it; empty: root
	env           []string
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
	for _, dir := range []string{"bin", "proc", "dev", "tmp"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	require.NoError(t, os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky))
	return &jail{t: t, root: root, network: network, env: []string{"HOME=/var/lib/ferment"}}
}

// command is a program of the root folder, with no other program in reach.
func (j *jail) command(ctx context.Context, args ...string) *exec.Cmd {
	enter := `mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"`
	if j.user != "" {
		enter = strings.Replace(enter, "chroot", "chroot --userspec="+j.user, 1)
	}
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", j.network, "unshare", "--mount", "sh", "-c", enter, j.root}, args...)...)
	cmd.Env = append([]string{"PATH=/usr/bin:/usr/sbin:/bin:/sbin"}, j.env...)
	return cmd
}

func (j *jail) run(stdin string, args ...string) string {
	j.t.Helper()
	cmd := j.command(j.t.Context(), args...)
	cmd.Stdin = strings.NewReader(stdin)
	text, err := cmd.CombinedOutput()
	require.NoError(j.t, err, "%q\n%s", args, text)
	return string(text)
}

// serve starts a daemon, waits until status says that it is ready, and returns a function
// that stops it.
func (j *jail) serve(program string, flags ...string) (stop func()) {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	j.t.Cleanup(cancel)
	cmd := j.command(ctx, append([]string{program, "serve"}, flags...)...)
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
		return j.command(ctx, append([]string{program, "status"}, flags...)...).Run() == nil
	}, 2*time.Minute, 100*time.Millisecond)
	return func() {
		j.t.Helper()
		require.NoError(j.t, cmd.Process.Signal(os.Interrupt))
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

// packageOf makes a release and returns its Debian package.
func packageOf(t *testing.T, version string) string {
	t.Helper()
	out := t.TempDir()
	cmd := exec.Command("go", "run", "./.ci/release", "-out", out, "-version", version, "-level", "1")
	cmd.Dir = ".."
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	found, err := filepath.Glob(filepath.Join(out, "*.deb"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

const moveRequest = `{"proto":1,"trace":{"id":"t-1"},"task":{"intent":"chess/best-move"},"input":{"fen":"6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"}}`

// OPS-006, OPS-008, AUTH-030: the steps of docs/operations.md with the Debian package in a
// root folder that has nothing else, and in a network of its own: install, first user, TLS,
// an act from another network, upgrade from an earlier version, and restore of a backup.
func TestInstall(t *testing.T) {
	first, second := packageOf(t, "1.2.3"), packageOf(t, "1.2.4")
	network, other := twoNetworks(t)
	root := t.TempDir()
	must(t, "", "dpkg-deb", "--extract", first, root)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib/ferment"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(root, "var/lib/ferment"), 0o700))
	j := newJail(t, root, network)
	const config = "--config=/etc/ferment/ferment.hcl"
	ferment := func(stdin string, args ...string) string {
		t.Helper()
		return j.run(stdin, append(append([]string{"/usr/bin/ferment"}, args...), config)...)
	}
	cert := filepath.Join(root, "etc/ferment/tls/cert.pem")
	certificate(t, "ferment.test", cert, filepath.Join(root, "etc/ferment/tls/key.pem"))
	openListener(t, filepath.Join(root, "etc/ferment/ferment.hcl"))
	ferment("", "validate", "--strict")

	stop := j.serve("/usr/bin/ferment", config)
	ferment("three small words", "user", "add", "ann", "--role", "admin")
	made := regexp.MustCompile(`fmt_\S+`).FindString(ferment("", "token", "create", "ann", "--edn"))
	token := strings.TrimRight(made, `"`)
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
	ferment("", "admin", "backup", "/var/lib/ferment/backups/before.tar")
	ferment("", "admin", "backup", "verify", "/var/lib/ferment/backups/before.tar")
	stop()

	// dpkg keeps a configuration that was changed.
	must(t, "", "sh", "-c", `dpkg-deb --fsys-tarfile "$0" | tar -x -C "$1" --exclude ./etc/ferment/ferment.hcl`, second, root)
	assert.Contains(t, ferment("", "version"), "1.2.4")
	ferment("", "validate", "--strict")
	stop = j.serve("/usr/bin/ferment", config)
	assert.Contains(t, call(url, token), `"move":"d1d8"`, "the token outlives the upgrade")
	assert.Contains(t, ferment("", "runs", "verify"), "2 runs verified, none damaged")
	stop()

	saved := filepath.Join(root, "tmp", "before.tar")
	require.NoError(t, os.Rename(filepath.Join(root, "var/lib/ferment/backups/before.tar"), saved))
	require.NoError(t, os.RemoveAll(filepath.Join(root, "var/lib/ferment")))
	require.NoError(t, os.Mkdir(filepath.Join(root, "var/lib/ferment"), 0o700))
	assert.Contains(t, ferment("", "admin", "restore", "/tmp/before.tar", "--yes"), "restored")
	stop = j.serve("/usr/bin/ferment", config)
	assert.Contains(t, ferment("", "runs", "verify"), "1 run verified, none damaged")
	assert.Contains(t, call(url, token), `"move":"d1d8"`)
	stop()
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
