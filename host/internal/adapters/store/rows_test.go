package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The text for several rows has the placeholders of each, and what is around them once.
func TestWithRows(t *testing.T) {
	for text, want := range map[string]string{
		"INSERT INTO t (a, b) VALUES (?1, ?2) RETURNING n":         "INSERT INTO t (a, b) VALUES (?1, ?2), (?3, ?4), (?5, ?6) RETURNING n",
		"INSERT INTO t (a, b, c)\nVALUES ($1, 7, $2)":              "INSERT INTO t (a, b, c)\nVALUES ($1, 7, $2), ($3, 7, $4), ($5, 7, $6)",
		"INSERT INTO t (a) VALUES (?1) ON CONFLICT (a) DO NOTHING": "INSERT INTO t (a) VALUES (?1), (?2), (?3) ON CONFLICT (a) DO NOTHING",
		"INSERT INTO t (a) VALUES ((SELECT max(a) FROM t WHERE b = ?1)) RETURNING a": "INSERT INTO t (a) VALUES " +
			"((SELECT max(a) FROM t WHERE b = ?1)), ((SELECT max(a) FROM t WHERE b = ?2)), ((SELECT max(a) FROM t WHERE b = ?3)) RETURNING a",
	} {
		assert.Equal(t, want, withRows(text, 3))
	}
}
