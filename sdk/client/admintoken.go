package client

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
)

// adminToken is the token of the daemon process at an admin socket. It is safe for
// concurrent use.
type adminToken struct {
	file string

	mu    sync.Mutex
	token string
}

// current returns the token that was read last.
func (a *adminToken) current() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.token
}

// read reads the token from its file.
func (a *adminToken) read() (string, error) {
	token, err := os.ReadFile(a.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", contract.Errorf("runtime/not-ready", "the daemon runs, but its token file does not exist: %s",
			a.file).WithHint("try again in a few seconds: the daemon restores the file, or its log has the reason")
	case err != nil:
		return "", contract.Errorf("auth/forbidden", "the token of the daemon cannot be read: %w", err).
			WithHint("run as the user of the daemon")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = strings.TrimSpace(string(token))
	return a.token, nil
}
