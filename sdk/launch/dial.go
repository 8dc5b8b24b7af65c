package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// errNoSocket means that an address leads out of the socket directory, or not
// to a socket.
var errNoSocket = errors.New("it is not a socket below the socket directory of the plugin, or its path contains a symbolic link")

// socketBelow returns the path of address relative to dir.
func socketBelow(dir, address string) (string, error) {
	rel, err := filepath.Rel(dir, filepath.Clean(address))
	if err != nil || !filepath.IsLocal(rel) || !filepath.IsAbs(address) {
		return "", fmt.Errorf("plugin listens on %s, which is not below its socket directory %s", address, dir)
	}
	return rel, nil
}

// dialBelow connects to a socket below dir. It follows no symbolic link,
// because the plugin can write in dir and could link to a socket of another
// program.
func dialBelow(ctx context.Context, dir, address string) (net.Conn, error) {
	rel, err := socketBelow(dir, address)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	path, release, err := pinSocket(dir, rel)
	if err != nil {
		return nil, fmt.Errorf("plugin listens on %s: %w", address, err)
	}
	defer release()
	return d.DialContext(ctx, "unix", path)
}

// checkSocket is pinSocket for systems without path descriptors: between check
// and use the plugin can still replace a part of the path.
func checkSocket(dir, rel string) (string, error) {
	path := dir
	parts := strings.Split(rel, string(filepath.Separator))
	for i, part := range parts {
		path = filepath.Join(path, part)
		info, err := os.Lstat(path)
		if err != nil {
			return "", err
		}
		want := fs.ModeDir
		if i == len(parts)-1 {
			want = fs.ModeSocket
		}
		if info.Mode().Type() != want {
			return "", errNoSocket
		}
	}
	return path, nil
}
