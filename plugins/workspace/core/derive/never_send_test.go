package derive

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-141: nothing of a path that matches never_send is in a directory frame above it or
// in a call, whichever policy and producer make the frames.
func TestNeverSent(t *testing.T) {
	const secret = "hunter2"
	files := map[string]string{
		"p/sub/.env":       "KEY=" + secret,
		"p/sub/code":       "harmless",
		"p/secrets/deep/a": secret,
		"top":              "harmless",
	}
	policies := []string{":concatenate", ":summarize", "{:kind :filter}", "{:kind :custom :intent :team/merge}"}
	for _, policy := range policies {
		w := newWorld(t, files)
		w.settings.NeverSend = patterns(".env*", "/p/secrets/")
		w.model = func(_ context.Context, c Call) (*Answer, error) { return answer(fmt.Sprint(c.Input), ""), nil }
		w.extracted("t")
		require.Contains(t, first(w.text("p/sub/.env", "t")), secret, "what can leak")
		w.synthesize("", "t", build, func(r *SynthesizeRequest) { r.Policy = edn.MustRead(policy) })
		made, err := w.generate(on(""), func(r *GenerateRequest) { r.Type, r.From, r.Recursive = "model", "t", true })
		require.NoError(t, err)
		require.Zero(t, made.Counts.Failed, "%v", made.Items)
		for _, dir := range []string{"", "p", "p/sub", "p/secrets", "p/secrets/deep"} {
			assert.NotContains(t, first(w.text(dir, "t")), secret, "%s %s", policy, dir)
		}
		assert.Equal(t, "frame/no-head", second(w.text("p/secrets/deep", "t")), policy)
		assert.Contains(t, first(w.text("p/sub", "t")), "harmless", policy)
		assert.NotEmpty(t, w.calls)
		for _, c := range w.calls {
			input := fmt.Sprint(c.Input)
			assert.NotContains(t, input, secret, policy)
			assert.NotContains(t, input, ".env", policy)
			assert.NotContains(t, input, "secrets", policy)
		}
		for name, head := range w.heads() {
			assert.Contains(t, head, "fresh", "%s %s", policy, name)
		}
		f := w.head("p/sub", "t")
		require.NoError(t, w.store.View(background, store.Latest, func(v *store.Snapshot) error {
			again, err := w.Rerun(background, v, f)
			if !f.Sampled {
				assert.Equal(t, f.Content, again, policy)
			}
			return err
		}))
	}
}

// WS-141: a directory that matches never_send is not sent to a call.
func TestNeverSentDirectories(t *testing.T) {
	w := newWorld(t, map[string]string{"secrets/a": "1"})
	w.settings.NeverSend = patterns("secrets/")
	w.extracted("t")
	_, err := w.generate(on("secrets"))
	typed(t, err, "generate/denied")
	_, err = w.Synthesize(background, SynthesizeRequest{
		Caller: synthesis,
		Path:   "secrets",
		Type:   "t",
		Policy: edn.MustRead(`{:kind :custom :intent :team/merge}`),
	})
	typed(t, err, "generate/denied")
	assert.Empty(t, w.calls)
}

// WS-141: a pattern that is added makes stale what can have the text of its paths, and
// the next regeneration leaves them out.
func TestNeverSentLater(t *testing.T) {
	w := newWorld(t, map[string]string{"d/a": "harmless", "d/b": "hunter2"})
	w.extracted("t")
	w.synthesize("", "t", build)
	require.Contains(t, first(w.text("", "t")), "hunter2")
	w.settings.NeverSend = patterns("b")
	assert.Equal(t, "stale", second(w.text("d", "t")))
	assert.Equal(t, Counts{Directory: 2}, w.regenerate("").Counts)
	text, state := w.text("", "t")
	assert.NotContains(t, text, "hunter2")
	assert.Contains(t, text, "harmless")
	assert.Equal(t, "fresh", state)
	assert.Empty(t, w.regenerate("").Items)
}

// WS-141: never_send takes patterns as .gitignore does.
func TestNeverSendPatterns(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		path     string
		denied   bool
	}{
		{[]string{"secrets/"}, "a/secrets/b/c", true},
		{[]string{"secrets/"}, "a/secrets", false},
		{[]string{"/secrets/*"}, "secrets/a/b", true},
		{[]string{"/secrets/*"}, "a/secrets/b", false},
		{[]string{"**/private/*"}, "a/b/private/c/d", true},
		{[]string{"**/private/*"}, "private/c", true},
		{[]string{"secrets/**"}, "secrets/a/b", true},
		{[]string{"secrets/*"}, "secrets/a/b", true},
		{[]string{".env*"}, "a/.env.d/b", true},
		{[]string{"*.key", "!public.key"}, "a/public.key", false},
		{[]string{"*.key", "!public.key"}, "a/other.key", true},
		{[]string{"keys/", "!keys/public.key"}, "keys/public.key", true}, // nothing is included below what is denied
		{[]string{"*"}, "", false},
	} {
		s := Settings{NeverSend: patterns(c.patterns...)}
		assert.Equal(t, c.denied, s.denied(c.path, id.File) != "", "%q %q", c.patterns, c.path)
	}
	s := Settings{NeverSend: patterns("secrets/")}
	assert.True(t, s.Denied("secrets"), "it can be a directory")
	assert.False(t, s.Denied("secret"))
}
