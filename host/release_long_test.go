//go:build external && long && linux

package host_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
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

// OPS-006, OPS-008, CLI-006, LOCK-001: the packages of a release are the same each time
// they are made. A new operator on a machine without Go and with an empty home runs the
// archive: the configuration of profile prod is valid, the daemon gets ready, the first
// user acts with a token, and a backup is restored under the next version. The Debian
// package has every file at its place.
func TestRelease(t *testing.T) {
	dist := t.TempDir()
	makeRelease := func(name string) string {
		out := filepath.Join(dist, name)
		cmd := exec.Command("go", "run", "./.ci/release", "-out", out, "-version", "1.2.3", "-level", "1")
		cmd.Dir, cmd.Env = "..", append(os.Environ(), "SOURCE_DATE_EPOCH=1760000000")
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", text)
		return out
	}
	one, two := makeRelease("one"), makeRelease("two")
	sums := checkSums(t, one)
	assert.Len(t, sums, 3)
	assert.Equal(t, sums, checkSums(t, two), "two builds have equal bytes")

	archive, err := filepath.Glob(filepath.Join(one, "*.tar.gz"))
	require.NoError(t, err)
	require.Len(t, archive, 1)
	home := newOperator(t, archive[0])
	assert.Contains(t, home.run("bin/ferment version"), "1.2.3")
	assert.Contains(t, home.run("bin/ferment validate --strict"), "ferment.hcl ok")
	assert.Contains(t, home.run("zcat -f share/man/man1/ferment-serve.1"), ".TH FERMENT")
	stop := home.serve()
	home.run("echo 'three small words' | bin/ferment user add ann --role admin")
	token := strings.TrimSpace(home.run("bin/ferment token create ann 2>/dev/null"))
	const act = `curl -sS -H 'Content-Type: application/json' -d '{"proto":1,"trace":{"id":"t-1"},"task":{"intent":"chess/best-move"},"input":{"fen":"6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"}}' `
	assert.Contains(t, home.run(act+"http://127.0.0.1:7180/v1/act"), "auth/unauthorized")
	assert.Contains(t, home.run(act+"-H 'Authorization: Bearer "+token+"' http://127.0.0.1:7180/v1/act"), `"move":"d1d8"`)
	home.run("bin/ferment admin backup " + filepath.Join(dist, "b.tar"))
	stop()

	upgraded := newOperator(t, filepath.Join(two, filepath.Base(archive[0])))
	assert.Contains(t, upgraded.run("bin/ferment admin restore "+filepath.Join(dist, "b.tar")+" --yes"), "restored")
	stop = upgraded.serve()
	assert.Contains(t, upgraded.run(act+"-H 'Authorization: Bearer "+token+"' http://127.0.0.1:7180/v1/act"), `"move":"d1d8"`)
	assert.Contains(t, upgraded.run("bin/ferment runs verify"), "2 runs verified, none damaged")
	stop()
	t.Run("deb", func(t *testing.T) { checkDebian(t, one) })
}

// checkSums compares SHA256SUMS with the files, and returns the hashes by name.
func checkSums(t *testing.T, dir string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	require.NoError(t, err)
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		hash, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		file, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		sum := sha256.Sum256(file)
		assert.Equal(t, hex.EncodeToString(sum[:]), hash, name)
		out[name] = hash
		if strings.HasSuffix(name, ".spdx.json") {
			var bill struct {
				Packages []struct{ Name, VersionInfo string }
			}
			require.NoError(t, json.Unmarshal(file, &bill))
			assert.Greater(t, len(bill.Packages), 30)
		}
	}
	return out
}

// operator is a person with an unpacked archive and nothing else.
type operator struct {
	t   *testing.T
	dir string
}

func newOperator(t *testing.T, archive string) *operator {
	t.Helper()
	o := &operator{t, t.TempDir()}
	require.NoError(t, os.Mkdir(filepath.Join(o.dir, "home"), 0o700))
	text, err := exec.Command("tar", "-xzf", archive, "-C", o.dir, "--strip-components=1").CombinedOutput()
	require.NoError(t, err, "%s", text)
	return o
}

// command runs without the Go toolchain and with an empty home.
func (o *operator) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = o.dir, []string{"PATH=/usr/bin:/bin", "HOME=" + filepath.Join(o.dir, "home")}
	return cmd
}

func (o *operator) run(line string) string {
	o.t.Helper()
	text, err := o.command(o.t.Context(), line).CombinedOutput()
	require.NoError(o.t, err, "%s\n%s", line, text)
	return string(text)
}

// serve starts the daemon and returns a function that stops it, which must succeed.
func (o *operator) serve() (stop func()) {
	o.t.Helper()
	require.Eventually(o.t, func() bool { // the port of the shipped configuration
		l, err := net.Listen("tcp", "127.0.0.1:7180")
		return err == nil && l.Close() == nil
	}, time.Minute, 50*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	cmd := o.command(ctx, "exec bin/ferment serve")
	var log bytes.Buffer
	cmd.Stderr = &log
	require.NoError(o.t, cmd.Start())
	o.t.Cleanup(cancel)
	require.Eventually(o.t, func() bool { return o.command(ctx, "bin/ferment status").Run() == nil }, time.Minute, 50*time.Millisecond)
	return func() {
		o.t.Helper()
		require.NoError(o.t, cmd.Process.Signal(os.Interrupt))
		require.NoError(o.t, cmd.Wait(), log.String())
	}
}

// checkDebian unpacks the package with the tools of Debian and looks at what it has.
func checkDebian(t *testing.T, dir string) {
	dpkg, err := exec.LookPath("dpkg-deb")
	if err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	root := t.TempDir()
	text, err := exec.Command(dpkg, "--raw-extract", found[0], root).CombinedOutput()
	require.NoError(t, err, "%s", text)
	for _, name := range []string{"usr/bin/ferment", "usr/lib/ferment/plugins/chess", "etc/ferment/ferment.hcl", "etc/ferment/ferment.lock.hcl",
		"usr/share/man/man1/ferment.1.gz", "usr/share/bash-completion/completions/ferment", "usr/share/doc/ferment/host/docs/operations.md",
		"usr/share/doc/ferment/examples/operations/alerts.yml", "DEBIAN/postinst"} {
		assert.FileExists(t, filepath.Join(root, name))
	}
	assert.NoFileExists(t, filepath.Join(root, "usr/lib/ferment/plugins/scripted"), "a plugin of tests")
	unit, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/ferment.service"))
	require.NoError(t, err)
	assert.Contains(t, string(unit), "ExecStart=/usr/bin/ferment serve --config /etc/ferment/ferment.hcl\n")
	assert.Contains(t, string(unit), "User=ferment\n")
	assert.NotRegexp(t, regexp.MustCompile(`/tmp|/home`), string(unit))
	about, err := os.ReadFile(filepath.Join(root, "DEBIAN/control"))
	require.NoError(t, err)
	assert.Contains(t, string(about), "Version: 1.2.3\n")
	sums := exec.Command("md5sum", "--check", "--quiet", "DEBIAN/md5sums")
	sums.Dir = root
	text, err = sums.CombinedOutput()
	require.NoError(t, err, "%s", text)
	// The programs of the package with its configuration, at their places below a root.
	config, err := os.ReadFile(filepath.Join(root, "etc/ferment/ferment.hcl"))
	require.NoError(t, err)
	config = bytes.ReplaceAll(config, []byte(`"/usr/lib/`), []byte(`"`+root+`/usr/lib/`))
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/ferment/ferment.hcl"), config, 0o644))
	check := exec.Command(filepath.Join(root, "usr/bin/ferment"), "validate", "--strict", "--config", filepath.Join(root, "etc/ferment/ferment.hcl"))
	check.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}
	text, err = check.CombinedOutput()
	require.NoError(t, err, "%s", text)
}
