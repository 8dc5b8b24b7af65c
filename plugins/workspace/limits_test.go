package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
	"github.com/fermenthq/ferment/sdk/workspace"
)

// eventually is how long a test waits for another process.
const eventually = time.Minute

// A workspace that no request uses is closed: its store is sealed, another process
// can write it, and the next request opens it again.
func TestIdleWorkspacesAreClosed(t *testing.T) {
	b := scannedBench(t, fourFiles, func(cfg map[string]any) { cfg["idle-close"] = 3000 })
	other := &bench{T: t, root: b.root, p: startOn(t, b.root)}
	b.call("context/get-node", `{:path "top.txt"}`) // from here on it is idle
	other.fails("store/locked", "workspace/scan", `{}`)
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(store.DataDir(b.root), "seal"))
		return err == nil
	}, eventually, 10*time.Millisecond)
	other.call("context/put-frame", `{:path "top.txt" :frame/type "note" :content "by the other one"}`)
	other.p.Instance().Stop()
	assert.Equal(t, ":fresh", b.call("context/get-head", `{:path "top.txt" :frame/type "note"}`).Key("state").String())
}

// Only workspaces without users for long enough are closed, and a request that
// comes while one is being closed gets it.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	now := time.Unix(1000, 0)
	cfg := defaults
	cfg.AllowedRoots = []string{root}
	agents, err := agent.New(nil, anyModel)
	require.NoError(t, err)
	h := newHub(t.Context(), cfg, agents, nil, func() time.Time { return now }, sdk.Logger(t.Context()))
	open := func() (*opened, func()) {
		o, release, err := h.acquire(t.Context(), root, creating, "b3")
		require.NoError(t, err)
		return o, release
	}
	first, release := open()
	now = now.Add(time.Hour)
	h.sweep(time.Minute)
	again, releaseAgain := open()
	assert.Same(t, first, again, "it is in use")
	release()
	releaseAgain()
	now = now.Add(time.Minute - 1)
	h.sweep(time.Minute)
	again, release = open()
	assert.Same(t, first, again, "it was used lately")
	release()
	now = now.Add(time.Minute)
	h.sweep(time.Minute)
	again, release = open()
	assert.NotSame(t, first, again)
	release()
	require.NoError(t, h.close(t.Context()))
}

// stop is a log that stops at a warning until the test goes on.
type stop struct {
	slog.Handler
	reached, proceed chan struct{}
}

func (s stop) Enabled(context.Context, slog.Level) bool { return true }

func (s stop) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		s.reached <- struct{}{}
		<-s.proceed
	}
	return nil
}

// WS-046: a request that is canceled while it opens a workspace returns, and those that
// wait for the same workspace get it.
func TestOpenerIsCanceled(t *testing.T) {
	root := t.TempDir()
	cfg := defaults
	cfg.AllowedRoots = []string{root}
	agents, err := agent.New(nil, anyModel)
	require.NoError(t, err)
	first := newHub(t.Context(), cfg, agents, nil, time.Now, sdk.Logger(t.Context()))
	_, release, err := first.acquire(t.Context(), root, creating, "b3")
	require.NoError(t, err)
	release()
	require.NoError(t, first.close(t.Context()))
	require.NoError(t, os.Remove(filepath.Join(store.DataDir(root), "index.db")))

	log := stop{slog.DiscardHandler, make(chan struct{}), make(chan struct{})}
	h := newHub(t.Context(), cfg, agents, nil, time.Now, slog.New(log))
	ctx, cancel := context.WithCancel(t.Context())
	opener, waiter := make(chan error), make(chan error)
	go func() {
		_, _, err := h.acquire(ctx, root, existing, "b3")
		opener <- err
	}()
	<-log.reached // the index is about to be rebuilt
	go func() {
		_, release, err := h.acquire(t.Context(), root, existing, "b3")
		if err == nil {
			release()
		}
		waiter <- err
	}()
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.open[root].users == 2
	}, eventually, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-opener, contract.OfType("canceled"))
	close(log.proceed)
	require.NoError(t, <-waiter)
	require.NoError(t, h.close(t.Context()))
}

// WS-201: an index that is rebuilt is counted, by whatever it was found unusable: an
// opening or a repair. A repair that rebuilds none is not.
func TestRebuildsAreCounted(t *testing.T) {
	root := t.TempDir()
	cfg := defaults
	cfg.AllowedRoots = []string{root}
	agents, err := agent.New(nil, anyModel)
	require.NoError(t, err)
	h := newHub(t.Context(), cfg, agents, nil, time.Now, sdk.Logger(t.Context()))
	var rebuilds atomic.Int64
	h.rebuilt = func() { rebuilds.Add(1) }
	at, err := h.locate(root)
	require.NoError(t, err)
	index := filepath.Join(store.DataDir(root), "index.db")
	reopen := func(want int64) {
		t.Helper()
		_, release, err := h.acquire(t.Context(), root, creating, "b3")
		require.NoError(t, err)
		release()
		ran, err := h.whileClosed(at, func() error { return nil })
		require.NoError(t, err)
		require.True(t, ran)
		assert.Equal(t, want, rebuilds.Load())
	}
	reopen(0)
	require.NoError(t, os.Remove(index))
	reopen(1)
	reopen(1)
	repair := func(want int64) {
		t.Helper()
		_, err := store.Repair(t.Context(), at.data, h.options(at, "b3").Store, true)
		require.NoError(t, err)
		assert.Equal(t, want, rebuilds.Load())
	}
	repair(1)
	require.NoError(t, os.WriteFile(index, []byte("garbage"), 0o600))
	repair(2)
	require.NoError(t, h.close(t.Context()))
}

// A request that creates a store is not refused because one that does not came first.
func TestOpenerCreatesNothing(t *testing.T) {
	root := t.TempDir()
	cfg := defaults
	cfg.AllowedRoots = []string{root}
	agents, err := agent.New(nil, anyModel)
	require.NoError(t, err)
	h := newHub(t.Context(), cfg, agents, nil, time.Now, sdk.Logger(t.Context()))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, release, err := h.acquire(t.Context(), root, existing, "b3")
			if err == nil {
				release()
			}
		})
		all.Go(func() {
			_, release, err := h.acquire(t.Context(), root, creating, "b3")
			if assert.NoError(t, err) {
				release()
			}
		})
	}
	all.Wait()
	require.NoError(t, h.close(t.Context()))
}

// WS-046, WS-230: watches do not take the places of requests, however many there are.
func TestWatchesAreNoRequests(t *testing.T) {
	b := scannedBench(t, fourFiles)
	const watches = maxConcurrent + 6
	ready, ended := make(chan struct{}, watches), make(chan error, watches)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range watches {
		go func() {
			_, err := b.p.Do(ctx, callOf("workspace/watch", `{:workspace "`+b.root+`"}`, func(e wire.Event) {
				if e.Kind == wire.Delta && e.Value.Key("event").String() == ":ready" {
					ready <- struct{}{}
				}
			}))
			ended <- err
		}()
	}
	for range watches {
		select {
		case <-ready:
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(eventually):
			require.Fail(t, "not all of them begin")
		}
	}
	b.call("workspace/status", `{}`)
	b.call("context/put-frame", putNote)
	cancel()
	for range watches {
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

// WS-230: a workspace answers 64 requests at a time, and has 1,024 watches beside them; the next
// one is refused, names the limit, and can be made again when one of them has ended.
func TestConcurrentRequests(t *testing.T) {
	root := t.TempDir()
	cfg := defaults
	cfg.AllowedRoots = []string{root}
	agents, err := agent.New(nil, anyModel)
	require.NoError(t, err)
	h := newHub(t.Context(), cfg, agents, nil, time.Now, sdk.Logger(t.Context()))
	refused := func(err error, limit string) {
		t.Helper()
		require.ErrorIs(t, err, contract.OfType("runtime/overloaded"))
		e := contract.AsError(err)
		assert.True(t, e.Retryable)
		assert.Equal(t, limit, e.Details.Key("limit").String()+" "+e.Details.Key("max").String())
	}
	enter := func() (*opened, func()) {
		o, leave, err := h.acquire(t.Context(), root, creating, "b3")
		require.NoError(t, err)
		return o, leave
	}
	var watches []func()
	for range maxWatches {
		o, leave := enter()
		stop, err := h.enterWatch(o)
		require.NoError(t, err)
		watches = append(watches, stop, leave)
	}
	var requests []func()
	for range maxConcurrent {
		o, leave := enter()
		_, err := h.enterWatch(o)
		refused(err, ":watches 1024")
		requests = append(requests, leave)
	}
	_, _, err = h.acquire(t.Context(), root, existing, "b3")
	refused(err, ":concurrent-requests 64")
	requests[0]()
	o, leave := enter()
	watches[0]()
	watches[1]()
	_, err = h.enterWatch(o)
	require.NoError(t, err, "its place is free")
	watches[0], watches[1], requests[0] = func() {}, func() {}, leave
	for _, leave := range append(watches, requests...) {
		leave()
	}
	assert.Len(t, h.idle(), 1)
	require.NoError(t, h.close(t.Context()))
}

// Texts and files that are larger than a message of the wire arrive whole.
func TestLargeTexts(t *testing.T) {
	b := scannedBench(t, fourFiles, func(cfg map[string]any) { cfg["max-frame"] = 6 << 20 })
	text := strings.Repeat("five MiB of text, in lines\n", 5<<20/27)
	b.put("top.txt", "note", text)
	frame, _ := b.call("context/get-node", `{:path "top.txt" :view {:max-bytes 8388608}}`).Key("frames").Nth(0)
	got, _ := frame.Key("content").AsString()
	assert.True(t, got == text, "%d bytes of %d", len(got), len(text))
	raw := strings.Repeat("\xff\x00binary", 5<<20/8)
	_, err := b.try("context/put-frame", `{:path "top.txt" :frame/type "raw" :content/b64 "`+base64.StdEncoding.EncodeToString([]byte(raw))+`"}`)
	require.Nil(t, err)
	b.fails("frame/too-large", "context/put-frame", `{:path "top.txt" :frame/type "note" :content "`+strings.Repeat("x", 6<<20+1)+`"}`)

	var file []byte
	response, failed := b.p.Do(t.Context(), callOf("workspace/export", `{:chunks? true}`, func(e wire.Event) {
		if chunk, ok := e.Value.Key("content/b64").AsString(); ok && e.Kind == wire.Delta {
			part, err := base64.StdEncoding.DecodeString(chunk)
			assert.NoError(t, err)
			file = append(file, part...)
		}
	}))
	require.NoError(t, failed)
	exported := response.Key("result").Key("out")
	require.Greater(t, len(file), 10<<20)
	b.fails("limit/exceeded", "workspace/export", `{}`)
	other := scannedBench(t, fourFiles)
	path := filepath.Join(other.root, ".ferment", "all.frm")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	input := fmt.Sprintf(`{:file %q :blob %s}`, path, exported.Key("blob"))
	assert.Equal(t, "2", other.call("workspace/import", input).Key("imported").String())
	assert.Equal(t, "0", other.call("workspace/import", input).Key("imported").String(), "twice changes nothing")
	assert.Equal(t, exported.Key("state-root").String(), other.call("workspace/status", `{}`).Key("state-root").String())
	uploadExport(t, file, exported.Key("blob").String())
	require.NoError(t, os.Truncate(path, int64(len(file)-1)))
	other.fails("import/invalid", "workspace/import", fmt.Sprintf(`{:file %q}`, path))
}

// uploadExport imports a file that is larger than a request, and compares with it
// (WS-174): its parts may come twice, but without a gap, and only whole. Wrong bytes are
// replaced from the beginning, and forgotten once they were taken for the file.
func uploadExport(t *testing.T, file []byte, blob string) {
	b := scannedBench(t, fourFiles)
	part := func(at, end int) string {
		return fmt.Sprintf(`{:blob %s :offset %d :content/b64 %q}`, blob, at, base64.StdEncoding.EncodeToString(file[at:end]))
	}
	whole, half := fmt.Sprintf(`{:blob %s}`, blob), 4<<20
	b.fails("import/invalid", "workspace/import", whole)
	b.fails("input/invalid", "workspace/import", part(half, half+1))
	b.fails("input/invalid", "workspace/import", `{:offset 0 :content/b64 "AAAA"}`)
	b.fails("input/invalid", "workspace/import", `{:blob "b3:00" :offset 9223372036854775807 :content/b64 "AAAA"}`)
	assert.Equal(t, fmt.Sprint(half), b.call("workspace/import", part(0, half)).Key("received").String())
	assert.Equal(t, fmt.Sprint(half), b.call("workspace/import", part(0, half)).Key("received").String(), "a part that comes again")
	b.fails("input/invalid", "workspace/import", fmt.Sprintf(`{:blob %s :offset 1 :content/b64 "////"}`, blob))
	b.fails("import/invalid", "workspace/import", whole)
	b.fails("input/invalid", "workspace/import", part(half, half+1))
	send := func() {
		for at := 0; at < len(file); at += half {
			b.call("workspace/import", part(at, min(at+half, len(file))))
		}
	}
	b.fails("import/invalid", "workspace/import", fmt.Sprintf(`{:blob %s :offset 0 :content/b64 "////"}`, blob))
	wrong := slices.Clone(file[:1000])
	wrong[999] ^= 1
	b.call("workspace/import", fmt.Sprintf(`{:blob %s :offset 0 :content/b64 %q}`, blob, base64.StdEncoding.EncodeToString(wrong)))
	send()
	b.call("context/diff", fmt.Sprintf(`{:from %s :to %s}`, whole, whole))
	b.fails("import/invalid", "context/diff", fmt.Sprintf(`{:from %s}`, whole))
	send()
	assert.Equal(t, "2", b.call("workspace/import", fmt.Sprintf(`{:blob %s :dry-run? true}`, blob)).Key("imported").String())
	assert.Equal(t, "2", b.call("workspace/import", whole).Key("imported").String())
	b.fails("import/invalid", "workspace/import", whole)
}

// TestUploads: a third upload makes room by removing the oldest, and a part is there once.
func TestUploads(t *testing.T) {
	var u uploads
	defer u.close()
	for _, blob := range []string{"a", "b", "c"} {
		n, err := u.add(blob, 0, []byte(blob))
		require.NoError(t, err)
		assert.Equal(t, int64(1), n)
	}
	refused := func(blob string, at int64, part []byte, want string) {
		t.Helper()
		_, err := u.add(blob, at, part)
		require.ErrorIs(t, err, contract.OfType(want))
	}
	content := func(blob string) (got string, err error) {
		err = u.read(blob, func(r io.Reader) error {
			b, err := io.ReadAll(r)
			got = string(b)
			return err
		})
		return got, err
	}
	refused("d", 1, []byte("d"), "input/invalid")
	_, err := content("a")
	require.ErrorIs(t, err, contract.OfType("import/invalid"))
	got, err := content("b")
	require.NoError(t, err)
	assert.Equal(t, "b", got)
	n, err := u.add("b", 0, []byte("other"))
	require.NoError(t, err)
	assert.Equal(t, int64(5), n)
	refused("b", 3, []byte("ER"), "input/invalid")
	n, err = u.add("b", 3, []byte("er than before"))
	require.NoError(t, err)
	assert.Equal(t, int64(len("other than before")), n)
	got, err = content("b")
	require.NoError(t, err)
	assert.Equal(t, "other than before", got)
	n, err = u.add("b", 0, []byte("short"))
	require.NoError(t, err)
	assert.Equal(t, int64(5), n, "it begins anew")
	u.drop("c")
	_, err = content("c")
	require.ErrorIs(t, err, contract.OfType("import/invalid"))
}

// WS-174: what a workspace exports can be imported, however large it is: from a file, and
// in parts.
func TestLargeBackup(t *testing.T) {
	b := scannedBench(t, fourFiles, func(cfg map[string]any) { cfg["max-frame"] = 7 << 20 })
	const frames = 10
	for i := range frames {
		b.put("top.txt", fmt.Sprint("note-", i), strings.Repeat(fmt.Sprint(i, " and more text, \n"), 7<<20/18))
	}
	var file []byte
	response, err := b.p.Do(t.Context(), callOf("workspace/export", `{:chunks? true}`, func(e wire.Event) {
		if chunk, ok := e.Value.Key("content/b64").AsString(); ok && e.Kind == wire.Delta {
			part, err := base64.StdEncoding.DecodeString(chunk)
			assert.NoError(t, err)
			file = append(file, part...)
		}
	}))
	require.NoError(t, err)
	require.Greater(t, len(file), 64<<20)
	exported := response.Key("result").Key("out")
	other := scannedBench(t, fourFiles)
	path := filepath.Join(other.root, ".ferment", "all.frm")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	other.call("context/diff", fmt.Sprintf(`{:from {:file %q :blob %s}}`, path, exported.Key("blob")))
	at := 0
	for part := range slices.Chunk(file, 5<<20) {
		other.call("workspace/import", fmt.Sprintf(`{:blob %s :offset %d :content/b64 %q}`,
			exported.Key("blob"), at, base64.StdEncoding.EncodeToString(part)))
		at += len(part)
	}
	whole := fmt.Sprintf(`{:blob %s}`, exported.Key("blob"))
	assert.Equal(t, fmt.Sprint(frames), other.call("workspace/import", whole).Key("imported").String())
	assert.Equal(t, exported.Key("state-root").String(), other.call("workspace/status", `{}`).Key("state-root").String())
}

// invoker calls intents of a plugin process as a host does.
type invoker struct{ *bench }

func (i invoker) Invoke(ctx context.Context, ask sdk.Ask) (sdk.Answer, error) {
	input, err := sdk.Encode(ask.Input)
	if err != nil {
		return sdk.Answer{}, err
	}
	response, err := i.p.Do(ctx, sdktest.Call{Capability: ask.Intent, Input: input, Context: as("ann")})
	if err != nil {
		return sdk.Answer{}, err
	}
	if failure := response.Key("error"); !failure.IsNil() {
		return sdk.Answer{}, contract.ErrorFromValue(failure, contract.SourcePlugin)
	}
	i.fits(ask.Intent, response.Key("result").Key("out"))
	return sdk.Answer{Response: response}, nil
}

// WS-002, WS-066: the adapter keeps the bytes of paths and texts that are not UTF-8.
func TestAdapterKeepsBytes(t *testing.T) {
	replaced, raw := "\uFFFD", "\xff"
	b := scannedBench(t, map[string]string{raw + "/f": "1", replaced + "/f": "2"})
	w, ctx := workspace.Adapter{Invoker: invoker{b}, Workspace: b.root, Agent: "synthesis"}, t.Context()
	for _, path := range []string{raw, replaced, raw + "/f"} {
		_, err := w.WriteContext(ctx, path, workspace.NewFrame{Type: "note", Content: "a\xffb " + path})
		require.NoError(t, err)
	}
	for _, path := range []string{raw, replaced, raw + "/f"} {
		node, err := w.ReadContext(ctx, path, workspace.View{})
		require.NoError(t, err)
		require.Len(t, node.Frames, 1)
		assert.Equal(t, []string{path, "a\xffb " + path}, []string{node.Path, node.Frames[0].Content})
	}
}

// WS-066: the adapter of package sdk/workspace reads, writes, synthesizes and
// generates through the intents of this plugin.
func TestAdapter(t *testing.T) {
	b := scannedBench(t, fourFiles)
	b.host.Answer("context/summarize", func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) {
		return edn.MustRead(`{:result {:type :value :out {:text "by a model"}}}`), nil
	})
	w, ctx := workspace.Adapter{Invoker: invoker{b}, Workspace: b.root, Agent: "synthesis"}, t.Context()
	none := ""
	put, err := w.WriteContext(ctx, "a/x.txt", workspace.NewFrame{
		Type: "digest", Content: "about x", MediaType: "text/markdown", Meta: map[string]any{"ticket": "T-9", "n": 3}, ExpectHead: &none,
	})
	require.NoError(t, err)
	again, err := w.WriteContext(ctx, "a/x.txt", workspace.NewFrame{Type: "digest", Content: "about x", MediaType: "text/markdown", Meta: map[string]any{"ticket": "T-9", "n": 3}})
	require.NoError(t, err)
	assert.Equal(t, []any{false, true, put.ID}, []any{put.Existing, again.Existing, again.ID})
	_, err = w.WriteContext(ctx, "a/x.txt", workspace.NewFrame{Type: "digest", Content: "other", ExpectHead: &none})
	require.ErrorIs(t, err, contract.OfType("head/conflict"))
	based, err := w.WriteContext(ctx, "a/x.txt", workspace.NewFrame{Type: "review", Content: "of it", Basis: put.ID, ExpectHead: &none})
	require.NoError(t, err)

	node, err := w.ReadContext(ctx, "a/x.txt", workspace.View{Types: []string{"digest"}, Agents: []string{"synthesis"}, Fresh: true, MaxFrames: 3, MaxBytes: 100})
	require.NoError(t, err)
	require.Len(t, node.Frames, 1)
	f := node.Frames[0]
	assert.Equal(t, []any{"a/x.txt", "file", 2}, []any{node.Path, node.Kind, node.Count})
	assert.Equal(t, []any{put.ID, "digest", "synthesis", node.ID, "about x", "text/markdown", "authored", "fresh"},
		[]any{f.ID, f.Type, f.Agent, f.Node, f.Content, f.MediaType, f.Origin, f.State})
	assert.Equal(t, `"T-9"`, f.Meta.Key("ticket").String())
	assert.WithinDuration(t, time.Now(), f.CreatedAt, eventually)
	byID, err := w.ReadContext(ctx, node.ID, workspace.View{Name: "history"})
	require.NoError(t, err)
	assert.Len(t, byID.Frames, 2)
	assert.Equal(t, []any{node.Root, based.Seq}, []any{byID.Root, byID.Seq})

	whole, err := w.Synthesize(ctx, ".", "digest")
	require.NoError(t, err)
	top, err := w.ReadContext(ctx, ".", workspace.View{})
	require.NoError(t, err)
	require.Len(t, top.Frames, 1)
	assert.Equal(t, []any{whole.ID, "synthesized", "about x"}, []any{top.Frames[0].ID, top.Frames[0].Origin, strings.TrimSpace(top.Frames[0].Content)})

	made, err := w.GenerateFrame(ctx, "top.txt", "Translate {content}", "translation")
	require.NoError(t, err)
	assert.Equal(t, []any{false, ":host"}, []any{made.Existing, made.Attribution.Key("attribution/source").String()})
	same, err := w.GenerateFrame(ctx, "top.txt", "Translate {content}", "translation")
	require.NoError(t, err)
	assert.Equal(t, []any{true, made.ID}, []any{same.Existing, same.ID})
	_, err = w.ReadContext(ctx, "none", workspace.View{})
	require.ErrorIs(t, err, contract.OfType("path/not-in-tree"))
}
