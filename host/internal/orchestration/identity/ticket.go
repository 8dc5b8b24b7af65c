package identity

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"io"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
)

// The text of a token is fmt_<id>_<secret><check>: the id in base32, 256 random bits and a
// checksum of the text before it, both in base64url. Session tokens begin with fms_,
// browser tokens with fmb_. The checksum distinguishes a mistyped text from a revoked token
// without a lookup, and lets programs find tokens in files.
const (
	tokenPrefix = "fmt_" // as long as those of the other kinds
	idLength    = 8
	secretBytes = 32
	secretText  = 43
	checkText   = 6
	tokenLength = len(tokenPrefix) + idLength + 1 + secretText + checkText
)

var idCode = base32.NewEncoding("abcdefghjkmnpqrstvwxyz0123456789").WithPadding(base32.NoPadding)

// prefix returns the prefix of the texts of a kind.
func (k TokenKind) prefix() string {
	switch k {
	case ForSession:
		return "fms_"
	case ForBrowser:
		return "fmb_"
	}
	return tokenPrefix
}

// newToken returns the id and the text of a new token.
func newToken(random io.Reader, kind TokenKind) (id, text string, err error) {
	var b [secretBytes + 5]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", "", err
	}
	id = idCode.EncodeToString(b[secretBytes:])
	text = kind.prefix() + id + "_" + base64.RawURLEncoding.EncodeToString(b[:secretBytes])
	return id, text + check(text), nil
}

func check(text string) string {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE([]byte(text)))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// IDOf returns the id of the token that name refers to: the id itself, or the text of a
// token of any kind, also without its prefix or truncated after the id. ok is false for any
// other text.
func IDOf(name string) (id string, ok bool) {
	for _, kind := range []TokenKind{ForPrograms, ForSession, ForBrowser} {
		name = strings.TrimPrefix(name, kind.prefix())
	}
	if len(name) > idLength && name[idLength] == '_' {
		name = name[:idLength]
	}
	_, err := idCode.DecodeString(name)
	return name, err == nil && len(name) == idLength
}

// IsToken reports whether a bearer credential has the prefix of the tokens for programs. It
// does not check the token.
func IsToken(text string) bool { return strings.HasPrefix(text, tokenPrefix) }

// tokenID returns the id in the text of a token, or auth/unauthorized for a malformed text.
func tokenID(text string, kind TokenKind) (string, *contract.Error) {
	if len(text) != tokenLength || !strings.HasPrefix(text, kind.prefix()) || text[len(tokenPrefix)+idLength] != '_' ||
		check(text[:tokenLength-checkText]) != text[tokenLength-checkText:] {
		return "", malformed[kind]
	}
	return text[len(tokenPrefix) : len(tokenPrefix)+idLength], nil
}

// malformed are the errors for texts that are not tokens.
var malformed = map[TokenKind]*contract.Error{
	ForPrograms: contract.Errorf("auth/unauthorized", "the bearer credential is not a token of Ferment, or a part of it is missing").
		WithHint("send the whole text that \"ferment token create\" has printed"),
	ForSession: contract.Errorf("auth/unauthorized", "the session token is not one of Ferment, or a part of it is missing").
		WithHint("send the whole text that the action open of POST /v1/session has returned"),
	ForBrowser: contract.Errorf("auth/unauthorized", "the login cookie is malformed").WithHint("log in again"),
}

func tokenHash(text string) [32]byte { return sha256.Sum256([]byte(text)) }
