package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// formLSP is the output format of watch for editors (WS-165).
const formLSP = "lsp"

// Delays before further attempts of watch after its call was interrupted.
const (
	firstRetry = 200 * time.Millisecond
	mostRetry  = 5 * time.Second
)

// watch prints the events of a workspace until it is interrupted. If its call is cut, it continues
// after the last transaction that it has printed.
func watch(in *invocation) error {
	delay, wasCut := firstRetry, false
	for {
		w := &watcher{invocation: in, seen: -1}
		err := w.watch()
		if w.seen >= 0 {
			in.input, delay = in.input.AssocKey("after", edn.Int(w.seen)), firstRetry
		}
		switch {
		case err == nil:
			return nil
		case in.ctx.Err() != nil:
			return context.Cause(in.ctx)
		case !in.input.HasKey("after"), !w.cut(err) && !(wasCut && errors.Is(err, contract.OfType("store/locked"))):
			return in.failed(err)
		}
		wasCut = true // the previous process may still have the store
		if !in.quiet {
			in.note("the watch was cut (%s); it goes on in %s", contract.AsError(err).Message, lasted(delay))
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-in.ctx.Done():
			timer.Stop()
			return context.Cause(in.ctx)
		}
		delay = min(2*delay, mostRetry)
	}
}

// watcher is one call of watch.
type watcher struct {
	*invocation
	seen int64 // the last printed transaction; negative: none
}

// cut reports whether an error ended the call, but not the watch.
func (w *watcher) cut(err error) bool {
	for _, typ := range []string{"timeout/hard", "runtime/crashed", "runtime/not-ready", "runtime/draining", "queue/deadline-exceeded"} {
		if errors.Is(err, contract.OfType(typ)) {
			return w.timeout == 0 || typ != "timeout/hard"
		}
	}
	return false
}

func (w *watcher) watch() error {
	c, err := w.open()
	if err != nil {
		return err
	}
	defer c.close()
	c.delta = w.event
	out, err := c.call(w.input)
	if err != nil || w.form == formLSP || w.Format() != "text" {
		return err
	}
	if !w.quiet {
		w.note("%s", counted(number(out.Key("changes")), "change"))
	}
	return nil
}

// event prints one event without the keys that the stream adds.
func (w *watcher) event(v edn.Value) error {
	if commit, ok := v.Key("commit").AsInt(); ok {
		w.seen = max(w.seen, commit)
	}
	v = v.Dissoc(edn.K("kind"))
	switch {
	case w.form == formLSP:
		return w.notify(v)
	case w.Format() == "text":
		return w.tell(v)
	}
	text, err := w.rendered(v)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w.Stdout, text)
	return err
}

// tell prints an event for people. Heartbeats are printed only with --verbose.
func (w *watcher) tell(v edn.Value) error {
	p := w.page()
	if plain(v.Key("event")) == "heartbeat" && !w.Verbose() {
		return nil
	}
	watchText(p, v)
	_, err := io.WriteString(w.Stdout, display.Shown(w.Stdout, p.String()))
	return err
}

func watchText(p *page, v edn.Value) {
	at := ""
	if commit := v.Key("commit"); !commit.IsNil() {
		at = "transaction " + plain(commit)
	}
	switch event := plain(v.Key("event")); event {
	case "ready":
		p.line("watching%s", joined(", ", "", joined(" ", " from", at)))
	case "change", "rescan":
		p.line("%s", joined("  ", event, at, p.id(v.Key("root"))))
		for _, m := range marks {
			p.list(m.mark, v.Key(m.key), number(v.Key(m.key+"/count")))
		}
	case "regenerated":
		p.line("%s", joined("  ", event, at))
		p.items(v.Key("report").Key("items"))
	case "error":
		p.line("%s", joined("  ", event, at, errorText(v.Key("error"))))
	case "degraded", "overflow", "root-lost":
		p.line("%s", joined("  ", event, at, words(v.Dissoc(edn.K("event"), edn.K("seq"), edn.K("commit")))))
	default:
		p.line("%s", joined("  ", event, at))
	}
	if e := v.Key("error"); !e.IsNil() && plain(v.Key("event")) != "error" {
		p.line("  failed: %s", errorText(e))
	}
}

// Kinds of changes in a notification of the language server protocol.
const (
	fileCreated = 1
	fileChanged = 2
	fileDeleted = 3
)

// fileChange is one entry of a notification.
type fileChange struct {
	URI  string `json:"uri"`
	Type int    `json:"type"`
}

// notify prints a change as a notification of the language server protocol, with the framing of
// JSON-RPC. Other events are not printed.
func (w *watcher) notify(v edn.Value) error {
	var changes []fileChange
	add := func(path edn.Value, kind int) {
		text := plain(path)
		if path.IsMap() {
			text = rawName(path, "path")
		}
		changes = append(changes, fileChange{URI: fileURI(filepath.Join(w.at.root, filepath.FromSlash(text))), Type: kind})
	}
	for key, kind := range map[string]int{"added": fileCreated, "modified": fileChanged, "removed": fileDeleted} {
		for path := range v.Key(key).Elems() {
			add(path, kind)
		}
	}
	for pair := range v.Key("renamed").Elems() {
		from, to := pair.Key("from"), pair.Key("to")
		if !pair.IsMap() {
			from, _ = pair.Nth(0)
			to, _ = pair.Nth(1)
		}
		add(from, fileDeleted)
		add(to, fileCreated)
	}
	if len(changes) == 0 {
		return nil
	}
	sortChanges(changes)
	changes = slices.Compact(changes) // both paths of a renaming are also an added and a removed one
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0",
		"method":  "workspace/didChangeWatchedFiles",
		"params":  map[string]any{"changes": changes},
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.Stdout, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return err
}

func sortChanges(changes []fileChange) {
	slices.SortFunc(changes, func(a, b fileChange) int { return cmp.Or(cmp.Compare(a.URI, b.URI), cmp.Compare(a.Type, b.Type)) })
}

func fileURI(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }
