package cli_test

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The secrets of this test. Their prefix occurs nowhere else.
const (
	canary       = "CANARY-7e1f"
	canaryKey    = canary + "-key-of-the-environment"
	canaryToken  = canary + "-token-of-a-file"
	canaryNew    = canary + "-token-after-a-rotation"
	canaryEffect = canary + "-bearer-of-a-tool"
)

// ear collects all output, by source.
type ear struct {
	mu    sync.Mutex
	heard []string
}

func (e *ear) hear(where, what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, where+"\x00"+what)
}

// silent asserts that no output contains a secret.
func (e *ear) silent(t *testing.T) {
	t.Helper()
	for _, said := range e.heard {
		where, what, _ := strings.Cut(said, "\x00")
		for _, form := range []string{
			canary, strings.ToLower(canary), strings.ToUpper(canary), strings.Trim(fmt.Sprint([]byte(canary)), "[]"),
		} {
			if at := strings.Index(what, form); at >= 0 {
				t.Errorf("a secret in %s: %s", where, what[max(0, at-200):min(len(what), at+60)])
			}
		}
	}
}

// process collects what the kernel shows of a process to other users.
func (e *ear) process(t *testing.T, pid int, who string) {
	t.Helper()
	for _, file := range []string{"environ", "cmdline"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if assert.NoError(t, err, "%s of %s", file, who) {
			e.hear(file+" of "+who, string(text))
		}
	}
}

// secretive returns a world with two secrets of a plugin and one of the tools,
// and a server that receives the last one. The ear collects every request.
func secretive(t *testing.T, server func(http.ResponseWriter, *http.Request)) (*world, *ear) {
	w := newWorld(t)
	e := &ear{}
	web := httptest.NewTLSServer(http.HandlerFunc(server))
	t.Cleanup(web.Close)
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	require.NoError(t, err)
	w.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	w.write("token", canaryToken+"\n")
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "token"), 0o600))
	w.env = append(w.env, "KEEPER_KEY="+canaryKey, "TOOL_KEY="+canaryEffect, "FERMENT_PROFILE=test")
	w.write("ferment.hcl", fmt.Sprintf(`store {
  driver = "sqlite"
  sync   = "full"
}

plugin "keeper" {
  command = [%q, %q]

  restart {
    max         = 6
    backoff     = "10ms"
    max_backoff = "20ms"
  }

  config {
    key   = secret("env:KEEPER_KEY")
    token = secret("file:token")
  }
}

`, built.helper, roleKeeper)+shipped("tools", "tools", "config {\n  ca_file = \"ca.pem\"\n}")+fmt.Sprintf(`
effects {
  scope "net/http" {
    enabled       = true
    hosts         = ["127.0.0.1"]
    ports         = [%[1]s]
    methods       = ["GET", "POST"]
    allow_private = true
  }

  rule "net/http" {
    any = ["user", "admin"]
  }

  secret "hub" {
    value = secret("env:TOOL_KEY")
    hosts = ["127.0.0.1"]
  }
}
`, port))
	for name, url := range map[string]string{"fetch": "https://127.0.0.1:" + port + "/in", "elsewhere": "https://example.com/"} {
		w.write(name+".edn", fetchPlan(url))
	}
	return w, e
}

func fetchPlan(url string) string {
	return fmt.Sprintf(`{:nodes [{:op :tool :tool/id :net/http :as :got :effects {:allowed #{:net/http}}
          :input {:url %q :headers {"authorization" ["Bearer " #ferment/secret :hub]}}}
 {:op :emit :input {:status {:slot/path [:got :status]}}}]}`, url)
}

// pidOf returns the callable process of a plugin; 0 for none.
func (s *served) pidOf(name string) int {
	for p := range s.admin(`{:action :plugin-list}`).value(s.t).Key("result").Key("plugins").Elems() {
		if is, _ := p.Key("plugin").AsString(); is != name {
			continue
		}
		for i := range p.Key("instances").Elems() {
			if pid, ok := i.Key("pid").AsInt(); ok && i.Key("callable?").Truthy() {
				return int(pid)
			}
		}
	}
	return 0
}
