package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/contract"
)

// socketAnswers is the time limit for checking whether a process listens on an existing socket.
const socketAnswers = time.Second

// socket is a listener with its socket file. Close deletes the file only if it is still that of
// this listener, because another daemon may have bound the path since.
type socket struct {
	*net.UnixListener
	path string
	file fs.FileInfo
}

// there reports whether the path still leads to this socket.
func (s *socket) there() bool {
	now, err := os.Lstat(s.path)
	return err == nil && os.SameFile(now, s.file)
}

// Close implements net.Listener.
func (s *socket) Close() error {
	own := s.there() // checked first: the inode is not reused while it is open
	err := s.UnixListener.Close()
	if own {
		_ = os.Remove(s.path)
	}
	return err
}

// listenUnix binds the admin socket.
func listenUnix(ctx context.Context, path string) (*socket, error) {
	if len(path) > config.MaxSocketPath {
		return nil, contract.Errorf("config/range", "the path of the admin socket has %d bytes, the limit is %d: %s",
			len(path), config.MaxSocketPath, path).
			WithHint("name a shorter one in http.admin_socket, or a shorter ferment.data_dir")
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("admin socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, contract.Errorf("config/range", "the path of the admin socket exists and is not a socket: %s",
			path).
			WithHint("remove it, or name another path in http.admin_socket")
	case answers(ctx, path):
		return nil, fmt.Errorf("admin socket %s: another process listens on it; name another path in http.admin_socket: %w", path, syscall.EADDRINUSE)
	default:
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("admin socket: %w", err)
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("admin socket %s: %w", path, cause(err))
	}
	s := &socket{UnixListener: l.(*net.UnixListener), path: path}
	s.SetUnlinkOnClose(false)
	if err = os.Chmod(path, 0o600); err == nil {
		s.file, err = os.Lstat(path)
	}
	if err != nil {
		_ = l.Close()
		_ = os.Remove(path)
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	return s, nil
}

// answers reports whether a process listens on a socket. The socket of a killed process refuses
// connections.
func answers(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, socketAnswers)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return true
	}
	return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
}
