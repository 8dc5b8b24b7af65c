package issuer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

const (
	// keyLife is the lifetime of keys if the issuer does not state one.
	keyLife    = time.Hour
	minKeyLife = 5 * time.Minute
	maxKeyLife = 24 * time.Hour
	// refetchAfter is the minimum time between two reads of the keys of an issuer.
	refetchAfter = 30 * time.Second
	// readWithin is the time limit of one read.
	readWithin = 5 * time.Second
	// maxDocument is the maximum size of a document of an issuer in bytes.
	maxDocument = 1 << 20
	maxKeys     = 64
)

// source reads and caches the keys of one issuer.
type source struct {
	place
	now func() time.Time

	known   atomic.Pointer[known]
	reading sync.Mutex
	tried   time.Time // time of the last read; guarded by reading
	fault   error     // error of the last read; guarded by reading
}

// known holds the keys of one read. It is immutable.
type known struct {
	keys       []jose.JSONWebKey
	stale, end time.Time // the keys are read again from stale on, and valid until end
}

func (k *known) usable(now time.Time) bool { return now.Before(k.end) }

// find returns the keys that may have signed a token: those with its key id, or all keys if id is
// empty. The error is auth/busy if the keys cannot be read.
func (s *source) find(ctx context.Context, id string) ([]jose.JSONWebKey, *contract.Error) {
	k, now := s.known.Load(), s.now()
	found := k.of(id)
	if k.usable(now) && len(found) > 0 {
		if now.Before(k.stale) || !s.reading.TryLock() {
			return found, nil
		}
	} else {
		s.reading.Lock()
	}
	defer s.reading.Unlock()
	if s.known.Load() == k && s.mayRead(now) { // otherwise another request has read them in between
		_ = s.read(ctx) // after an error the cached keys are used
	}
	k = s.known.Load()
	switch found = k.of(id); {
	case k.usable(now) && (len(found) > 0 || s.fault == nil):
		return found, nil
	case s.fault == nil:
		return nil, s.unavailable(errors.New("the keys that were read last have expired, and they are not read again yet"))
	}
	return nil, s.unavailable(s.fault)
}

// mayRead reports whether refetchAfter has passed since the last read.
func (s *source) mayRead(now time.Time) bool {
	return s.tried.IsZero() || !now.Before(s.tried.Add(refetchAfter))
}

func (s *source) unavailable(cause error) *contract.Error {
	wait := max(s.tried.Add(refetchAfter).Sub(s.now()), time.Second)
	return contract.Errorf("auth/busy", "the keys of the issuer %s cannot be read: %w", s.url, cause).
		WithDetail("retry-after-ms", edn.Int(wait.Milliseconds())).
		WithHint("use a token of this host, or wait until the issuer answers")
}

func (k *known) of(id string) []jose.JSONWebKey {
	if id == "" {
		return k.keys
	}
	return (&jose.JSONWebKeySet{Keys: k.keys}).Key(id)
}

// read reads the keys. The caller holds the lock reading. The read continues if ctx ends, because
// other requests wait for the same keys.
func (s *source) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
	defer cancel()
	s.tried = s.now()
	keys, life, err := s.fetch(ctx)
	if s.fault = err; err != nil {
		return err
	}
	s.known.Store(&known{keys: keys, stale: s.tried.Add(life / 2), end: s.tried.Add(life)})
	return nil
}

// fetch reads the discovery document and the keys that it refers to, and returns the keys with
// their lifetime.
func (s *source) fetch(ctx context.Context) ([]jose.JSONWebKey, time.Duration, error) {
	client, err := s.client()
	if err != nil {
		return nil, 0, err
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), s.url)
	if err != nil {
		return nil, 0, plain(err)
	}
	var document struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, 0, fmt.Errorf("its discovery document is not JSON: %w", err)
	}
	if !strings.HasPrefix(document.Keys, "https://") {
		return nil, 0, fmt.Errorf("its discovery document names %.100q for its keys, expected an https URL", document.Keys)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, document.Keys, http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, 0, plain(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, 0, plain(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("%s answers with status %d", document.Keys, resp.StatusCode)
	}
	keys, err := signing(body)
	return keys, lifeOf(resp.Header), err
}

// signing returns the public keys of a key document that can verify signatures.
func signing(body []byte) ([]jose.JSONWebKey, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("its keys are not a JSON Web Key Set: %w", err)
	}
	var out []jose.JSONWebKey
	for _, key := range set.Keys {
		if key.Use != "enc" && key.Valid() && key.IsPublic() {
			out = append(out, key)
		}
	}
	if len(out) == 0 || len(out) > maxKeys {
		return nil, fmt.Errorf("its key set has %d public signing keys, expected 1 to %d", len(out), maxKeys)
	}
	return out, nil
}

// lifeOf returns the lifetime of keys: max-age of the response within the limits, else keyLife.
func lifeOf(h http.Header) time.Duration {
	for directive := range strings.SplitSeq(strings.ToLower(h.Get("Cache-Control")), ",") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(directive), "max-age="); ok {
			if seconds, err := strconv.Atoi(text); err == nil {
				life := time.Duration(min(seconds, int(maxKeyLife/time.Second))) * time.Second
				return max(life, minKeyLife)
			}
		}
	}
	return keyLife
}

// client returns an HTTP client that accepts only https, trusts the authorities of the issuer, and
// limits the size of documents.
func (s *source) client() (*http.Client, error) {
	t := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if s.authorities != "" {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(s.authorities)) {
			return nil, errors.New("its ca_file has no certificate")
		}
	}
	return &http.Client{Transport: bounded{t}, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Scheme != "https" {
			return fmt.Errorf("redirect to %.100q: expected https", r.URL.Redacted())
		}
		if len(via) >= 3 {
			return fmt.Errorf("more than 2 redirects, the last to %.100q", r.URL.Redacted())
		}
		return nil
	}}, nil
}

// bounded limits the size of responses.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxDocument)
	}
	return resp, err
}

// plain removes the operation and URL from an error of a request, because the message has them
// already.
func plain(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}
