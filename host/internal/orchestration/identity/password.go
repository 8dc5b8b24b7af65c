package identity

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"

	"github.com/fermenthq/ferment/sdk/contract"
)

const (
	saltBytes   = 16
	hashBytes   = 32
	maxPassword = 1024 // bytes
	maxWaiting  = 32   // callers that wait for a slot
)

// phc is a hash of argon2id with its parameters.
type phc struct {
	memory, time uint32 // memory in KiB
	salt, hash   []byte
}

func (p *phc) String() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, p.memory, p.time,
		base64.RawStdEncoding.EncodeToString(p.salt), base64.RawStdEncoding.EncodeToString(p.hash))
}

// readPHC reads a stored hash; ok is false for another text.
func readPHC(text string) (p phc, ok bool) {
	var version int
	var salt, hash string
	n, err := fmt.Sscanf(text, "$argon2id$v=%d$m=%d,t=%d,p=1$%s", &version, &p.memory, &p.time, &salt)
	if err != nil || n != 4 || version != argon2.Version || p.memory == 0 || p.memory > 1<<21 || p.time == 0 || p.time > 64 {
		return phc{}, false
	}
	for i := range salt {
		if salt[i] == '$' {
			salt, hash = salt[:i], salt[i+1:]
			break
		}
	}
	if p.salt, err = base64.RawStdEncoding.DecodeString(salt); err != nil {
		return phc{}, false
	}
	p.hash, err = base64.RawStdEncoding.DecodeString(hash)
	return p, err == nil && len(p.hash) == hashBytes && len(p.salt) >= 8
}

func derive(password []byte, salt []byte, memory, time uint32) []byte {
	return argon2.IDKey(password, salt, time, memory, 1, hashBytes)
}

// verify reports whether p is the hash of the password.
func (p *phc) verify(password []byte) bool {
	return subtle.ConstantTimeCompare(derive(password, p.salt, p.memory, p.time), p.hash) == 1
}

// weaker reports whether the hash has smaller parameters than the configuration.
func (p *phc) weaker(b Basic) bool { return p.memory < b.Memory || p.time < b.Time }

// newPHC hashes a password with the parameters of the configuration.
func newPHC(password []byte, b Basic, random io.Reader) (*phc, error) {
	p := &phc{memory: b.Memory, time: b.Time, salt: make([]byte, saltBytes)}
	if _, err := io.ReadFull(random, p.salt); err != nil {
		return nil, err
	}
	p.hash = derive(password, p.salt, p.memory, p.time)
	return p, nil
}

// unknownPHC returns a hash for comparison with the password of an unknown login, so that
// it costs as much as a known login.
func unknownPHC(b Basic) *phc {
	return &phc{memory: b.Memory, time: b.Time, salt: make([]byte, saltBytes), hash: make([]byte, hashBytes)}
}

// normal returns the normalized (NFKC) bytes of a password, because keyboards encode one
// character in several ways.
func normal(password string) []byte { return norm.NFKC.Bytes([]byte(password)) }

// acceptable returns the normalized bytes of a new password, or invalid-request if it is
// not UTF-8 or has a wrong length.
func acceptable(password string, least int) ([]byte, *contract.Error) {
	if !utf8.ValidString(password) {
		return nil, contract.Errorf("invalid-request", "the password is not UTF-8")
	}
	if strings.TrimSpace(password) == "" {
		return nil, contract.Errorf("invalid-request", "the password has only blanks").WithHint("use several words")
	}
	b := normal(password)
	if len(b) < least || len(b) > maxPassword {
		return nil, contract.Errorf("invalid-request", "the password has %d bytes, expected %d to %d", len(b), least, maxPassword).
			WithHint("use several words")
	}
	return b, nil
}

// hashes bounds the number of concurrent password hashes, because each takes memory and a
// core.
type hashes struct {
	slots   chan struct{}
	waiting atomic.Int32
}

func newHashes() *hashes { return &hashes{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))} }

// do waits for a slot and runs compute. The error is auth/busy if too many callers wait, or
// if ctx is canceled.
func (h *hashes) do(ctx context.Context, compute func()) *contract.Error {
	if h.waiting.Add(1) > maxWaiting+int32(cap(h.slots)) {
		h.waiting.Add(-1)
		return contract.Errorf("auth/busy", "%d logins are waiting, which is the limit", maxWaiting).
			WithHint("try again, or use a token, which needs no password hash")
	}
	defer h.waiting.Add(-1)
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return contract.Errorf("auth/busy", "login: the caller closed the request while it waited for other logins")
	}
	defer func() { <-h.slots }()
	compute()
	return nil
}
