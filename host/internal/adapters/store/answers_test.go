package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// HTTP-008: answers of admin actions outlive the store that kept them, until their time
// is over; a key whose action has not ended says so.
func TestAnswersLast(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		ctx, dir, now := context.Background(), t.TempDir(), time.Now()
		s := b.openAt(t, dir)
		begin := func(key, print string, at time.Time) *Answer {
			t.Helper()
			known, err := s.BeginAnswer(ctx, key, print, at, at.Add(-24*time.Hour))
			require.NoError(t, err)
			return known
		}
		body := edn.MustRead(`{:ok? true :result {:text "a \u0000 b" :n 1.50M}}`)
		for _, key := range []string{"ended", "begun", "forgotten"} {
			require.Nil(t, begin(key, "p-1", now))
		}
		require.NoError(t, s.EndAnswer(ctx, "ended", 202, body))
		require.NoError(t, s.ForgetAnswer(ctx, "forgotten"))
		require.NoError(t, s.Close())

		s = b.openAt(t, dir)
		known := begin("ended", "p-2", now.Add(time.Hour))
		require.NotNil(t, known)
		assert.Equal(t, "p-1", known.Print)
		assert.Equal(t, 202, known.Status)
		assert.True(t, body.Equal(known.Body), known.Body.String())
		assert.Equal(t, &Answer{Print: "p-1"}, begin("begun", "p-2", now.Add(time.Hour)))
		assert.Nil(t, begin("forgotten", "p-2", now.Add(time.Hour)))
		assert.Nil(t, begin("ended", "p-2", now.Add(25*time.Hour)), "its time is over")
		require.NoError(t, s.Close())
	})
}

// HTTP-008, JRN-060: retention removes the answers whose time is over, also when no action
// with a key comes any more.
func TestRetainDropsAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		ctx := context.Background()
		s := b.openAt(t, t.TempDir(), func(o *Options) { o.Limits.Retain = Retention{KeyWindow: time.Hour} })
		for key, age := range map[string]time.Duration{"old": 2 * time.Hour, "young": time.Minute} {
			_, err := s.BeginAnswer(ctx, key, "p", now().Add(-age), now().Add(-24*time.Hour))
			require.NoError(t, err)
			require.NoError(t, s.EndAnswer(ctx, key, 200, edn.Text("an answer")))
		}
		_, err := s.Retain(ctx)
		require.NoError(t, err)
		var left string
		require.NoError(t, s.db.readers().QueryRow("SELECT key FROM action_keys").Scan(&left))
		assert.Equal(t, "young", left)
		require.NoError(t, s.Close())
	})
}

// HTTP-008, JRN-030: a repair keeps the keys of actions, so that none is executed again: from
// a database with damaged rows, and from the pages of one that cannot be opened. One whose
// answer is damaged is that of an unknown outcome.
func TestRepairKeepsAnswers(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir string){
		"rows": func(t *testing.T, dir string) {
			tamper(t, dir, "UPDATE records SET body = 'x' WHERE id = (3 << 32) | 6")
		},
		"first page": func(t *testing.T, dir string) {
			writeFile(t, dir, append([]byte("no database"), readFile(t, dir)[11:]...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dir := context.Background(), filled(t)
			s := openAt(t, dir)
			body := edn.MustRead(`{:ok? true :result {:n 1}}`)
			for _, key := range []string{"ended", "begun", "damaged"} {
				_, err := s.BeginAnswer(ctx, key, "p-1", now(), now().Add(-time.Hour))
				require.NoError(t, err)
			}
			for _, key := range []string{"ended", "damaged"} {
				require.NoError(t, s.EndAnswer(ctx, key, 200, body))
			}
			require.NoError(t, s.Close())
			tamper(t, dir, "UPDATE action_keys SET answer = x'7b' WHERE key = 'damaged'")
			damage(t, dir)
			require.False(t, repair(t, dir, false).Sound())

			s = openAt(t, dir)
			for key, want := range map[string]string{"ended": "p-1 200 " + body.String(), "begun": "p-1 0 nil", "damaged": "p-1 0 nil"} {
				known, err := s.BeginAnswer(ctx, key, "p-2", now(), now().Add(-time.Hour))
				require.NoError(t, err)
				require.NotNil(t, known, key)
				assert.Equal(t, want, fmt.Sprint(known.Print, " ", known.Status, " ", known.Body), key)
			}
			require.NoError(t, s.Close())
		})
	}
}
