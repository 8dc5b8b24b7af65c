package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const cachedRender = `ferment {
  profile = "test"
}

store {
  driver = "sqlite"
}

cache {
  enabled     = true
  max_entries = 100000
}

plugin "text" {
  command = ["BIN/plugins/text"]
}

intent "text/render" {
  in         = "req/text.render"
  out        = "res/text.render"
  candidates = ["text/template"]
  cacheable  = true
}
`

// cached compares acts of 1 KiB over HTTP that are answered from the cache with the same acts
// answered by a plugin. The journal is on disk.
func cached(p pace) ([]row, error) {
	s, err := newDaemonSite(cachedRender)
	if err != nil {
		return nil, err
	}
	defer s.close()
	r, _, err := s.serve()
	if err != nil {
		return nil, err
	}
	address := r.seen[len(r.seen)-1].Listen
	if len(address) == 0 {
		return nil, errors.New("the daemon does not say where it listens")
	}
	pad := strings.Repeat("x", 900)
	act := func(n int, want string) (time.Duration, error) {
		body := fmt.Sprintf(`{"proto":1,"trace":{"id":"t"},"task":{"intent":"text/render"},"input":{"template":"{name}","data":{"name":"%d","pad":"%s"}}}`, n, pad)
		began := time.Now()
		resp, err := http.Post("http://"+address[0]+"/v1/act", "application/json", strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		text, err := io.ReadAll(resp.Body)
		took := time.Since(began)
		_ = resp.Body.Close()
		if got := resp.Header.Get("Ferment-Cache"); err == nil && got != want {
			err = fmt.Errorf("the cache says %q, expected %q: %s", got, want, text)
		}
		return took, err
	}
	var misses, hits []time.Duration
	for n := range p.rounds * p.calls {
		miss, err := act(n, "miss")
		if err != nil {
			return nil, err
		}
		hit, err := act(n, "hit")
		if err != nil {
			return nil, err
		}
		misses, hits = append(misses, miss), append(hits, hit)
	}
	if _, err := r.stop(); err != nil {
		return nil, fmt.Errorf("the daemon ended with %w:\n%s", err, r.said.String())
	}
	return []row{against("answer of the cache, p50", median(hits), "the act", median(misses), 0.25)}, nil
}
