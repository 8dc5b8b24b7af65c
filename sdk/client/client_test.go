package client_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// A text that is not the URL of a daemon is refused before anything is sent.
func TestNew(t *testing.T) {
	for _, server := range []string{
		"", "127.0.0.1:8411", "localhost", "ftp://h", "http://", "http:///x", "http://h?q=1", "http://h#f", "http://ann:secret@h", "http://h:port",
	} {
		_, err := client.New(server)
		require.ErrorIs(t, err, contract.OfType("invalid-request"), server)
	}
}

// A token or a key that no header can have is refused before anything is sent: the daemon is not
// the cause, and a second attempt has the same end.
func TestTextsThatNoHeaderCanHave(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	defer server.Close()
	for _, text := range []string{"a\n", "a\r\n", "a\nb", "\x00", "a\x7f"} {
		_, err := client.New(server.URL, client.WithToken(text))
		require.ErrorIs(t, err, contract.OfType("invalid-request"), "%q", text)
		c, err := client.New(server.URL, client.WithToken("token"))
		require.NoError(t, err)
		_, err = c.Act(t.Context(), edn.MustRead("{:task {:intent :a/b}}"), client.Call{Key: text})
		require.ErrorIs(t, err, contract.OfType("invalid-request"), "%q", text)
		assert.False(t, contract.AsError(err).Retryable)
	}
}

// CLI-003: the token goes to the daemon and nowhere else; a server that is not a daemon,
// is absent or has a certificate that is not trusted is one typed error.
func TestServersThatAreNoDaemon(t *testing.T) {
	var tokens []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	moved := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer moved.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
		assert.Equal(t, "/sub/v1/whoami", r.URL.Path)
		_, _ = w.Write([]byte("<html>"))
	}))
	defer page.Close()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = nil
	untrusted.StartTLS()
	defer untrusted.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for server, typ := range map[string]string{
		moved.URL:                          "runtime/protocol",
		page.URL + "/sub/":                 "runtime/protocol",
		untrusted.URL:                      "runtime/not-ready",
		"http://" + closed.Addr().String(): "runtime/not-ready",
	} {
		c, err := client.New(server, client.WithToken("secret"))
		require.NoError(t, err)
		_, err = c.Whoami(t.Context())
		require.ErrorIs(t, err, contract.OfType(typ), server)
		assert.NotContains(t, err.Error(), "secret")
		assert.Equal(t, server == untrusted.URL, strings.Contains(contract.AsError(err).Hint, "SSL_CERT_FILE"), server)
	}
	assert.Empty(t, tokens)
	_, err = client.Dial(t.Context(), filepath.Join(t.TempDir(), "absent"), "token")
	require.ErrorIs(t, err, client.ErrNoDaemon)
}
