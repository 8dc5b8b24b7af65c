package disk

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A printed name does not depend on the depth of the root.
func TestPrintedName(t *testing.T) {
	for _, tt := range []struct{ root, path, want string }{
		{"/srv/site", "/srv/site/ferment.hcl", "ferment.hcl"},
		{"/srv/site", "/srv/site", "."},
		{"/srv/site/config", "/srv/site/bin/plugins/echo", "../bin/plugins/echo"},
		{"/srv/site/config", "/srv/other", "../../other"},
		{"/srv/site", "/opt/plugins/echo", "/opt/plugins/echo"},
		{"/srv/a/b/c", "/opt/plugins/echo", "/opt/plugins/echo"},
		{"/srv", "/run/secrets/key", "/run/secrets/key"},
		{"/", "/opt/echo", "opt/echo"},
		{"/srv/site", "/", "/"},
		{"/srv/site", "bare", "bare"},
	} {
		assert.Equal(t, tt.want, PrintedName(filepath.FromSlash(tt.root), filepath.FromSlash(tt.path)), "%s from %s", tt.path, tt.root)
	}
}
