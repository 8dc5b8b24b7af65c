package journal_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// TEL-001: which fields are secrets by their name, and which texts by their form.
func TestSecretsByNameAndForm(t *testing.T) {
	for name, want := range map[string]bool{
		"password": true, "db_password": true, "X-Api-Key": true, "session/token": true, "Authorization": true, "smtp.secret": true,
		"token/id": false, "max-tokens": false, "passwords-file": false, "tokens-in": false, "mytoken": false, "key": false, "": false,
	} {
		assert.Equal(t, want, journal.SecretName(name), name)
	}
	for text, want := range map[string]string{
		"nothing to hide: 12 tokens, a secret is not named":                 "nothing to hide: 12 tokens, a secret is not named",
		"fmt_k3v9q2ma_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG":          "[hidden]",
		"got Authorization: Bearer abcdefghijklmnop":                        "got Authorization: Bearer [hidden]",
		"postgres://ann:pass@db/x":                                          "postgres://ann:[hidden]@db/x",
		"postgres://ann:p/a:ss@db/x":                                        "postgres://ann:[hidden]@db/x",
		"https://0123456789abcdefghij@git/x":                                "https://[hidden]@git/x",
		"postgres://ann:1pass":                                              "postgres://ann:[hidden]",
		"postgres://ann:1234567":                                            "postgres://ann:[hidden]",
		"http://h:80?x http://h:8080, h":                                    "http://h:80?x http://h:8080, h",
		"postgres://ann:pass":                                               "postgres://ann:[hidden]",
		"http://[::1]:80/x http://h:80":                                     "http://[::1]:80/x http://h:80",
		"send to http://127.0.0.1:4318/v1/traces: 401":                      "send to http://127.0.0.1:4318/v1/traces: 401",
		"key sk-proj-0123456789abcdefXYZ.":                                  "key [hidden].",
		"password=hunter22;user=ann":                                        "password=[hidden];user=ann",
		`{"api_key": "abcdef"}`:                                             `{"api_key": "[hidden]"}`,
		`{:login "ann" :password "a \"b\" c"}`:                              `{:login "ann" :password "[hidden]"}`,
		"-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----": "[hidden]",
	} {
		assert.Equal(t, want, journal.HideText(text))
		assert.Equal(t, want, journal.HideText(journal.HideText(text)), "what is hidden stays as it is")
	}
	in := edn.MustRead(`{:login "ann" :password "x" :more [{"api-key" [1 2]} "Bearer abcdefghijklmnop"] :token? true :max-tokens 7 :token nil}`)
	want := edn.MustRead(`{:login "ann" :password "[hidden]" :more [{"api-key" "[hidden]"} "Bearer [hidden]"] :token? true :max-tokens 7 :token nil}`)
	assert.Equal(t, want.String(), journal.HideNamed(in).String())
}
