package kebab

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCase(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "A": "a", "Name": "name", "MaxTokens": "max-tokens", "HTTPPort": "http-port", "MaxUSD": "max-usd", "ID2": "id2",
	} {
		assert.Equal(t, want, Case(name), name)
	}
}
