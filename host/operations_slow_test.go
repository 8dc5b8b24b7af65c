//go:build slow

package host_test

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// OPS-008, OPS-009, AUTH-031, as the page on operations shows it to a reader: a daemon of
// profile prod with a first user, an act with a token, a backup that verifies, and a
// second data directory that is filled from it.
func TestOperationsAsShown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	r := newReader(t)
	out, err := r.shell(t, r.dir, strings.ReplaceAll(shownBlock(t, "docs/operations.md", "bin/ferment serve"), "7182", port))
	require.NoError(t, err, out)
	assert.Contains(t, out, `"move":"d1d8"`)
	assert.Regexp(t, `(?m)^\S+monday.tar: \d+ \S+ in \d+ files, 1 run$`, out)
	assert.Regexp(t, `(?m)^\S+monday.tar: written .*: verified$`, out)
	assert.Contains(t, out, "this program knows up to ")
	assert.Contains(t, out, "nothing was done (dry run)")
	assert.Regexp(t, `(?m)^\S+/copy: restored .*, 1 run; 1 token revoked$`, out)
	assert.Contains(t, out, "1 run verified, none damaged")
}
