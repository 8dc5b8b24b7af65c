package conversation

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
)

// Memory is a Store without durability. The zero value is empty.
type Memory struct {
	mu    sync.RWMutex
	byID  map[string]*kept
	spans map[int64]span
	last  int64 // number of the newest span
	made  int64 // conversations, also deleted ones
	// sessions is the store of sessions whose turns are conversations of this Memory; nil:
	// none.
	sessions *memorySessions
}

type kept struct {
	Conversation
	versions  []turns.Path // by version, from 1
	commits   []Commit
	drafts    []Draft
	summaries []Summary
}

type span struct {
	messages []conversation.Message
	at       time.Time
}

var _ Store = (*Memory)(nil)

// Update implements Store.
func (m *Memory) Update(ctx context.Context, id string, decide func(Reader) (Change, error)) ([]turns.Step, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := decide(memoryReader{m, m.byID[id]})
	if err != nil {
		return nil, err
	}
	if err := m.forget(ctx, id, c); err != nil {
		return nil, err
	}
	k := m.byID[id]
	switch {
	case c.Delete:
		m.remove(id)
		return nil, nil
	case k == nil && c.Set == nil:
		return nil, nil
	case k == nil:
		k = &kept{}
		if m.byID == nil {
			m.byID, m.spans = map[string]*kept{}, map[int64]span{}
		}
		m.byID[id] = k
		m.made++
		k.Number = m.made
	}
	path := k.path(0)
	if c.Copy != nil {
		path = m.byID[c.Copy.From].path(0)[:c.Copy.Keep:c.Copy.Keep]
	}
	var steps []turns.Step
	if c.Path != nil {
		var at time.Time
		if c.Commit != nil {
			at = c.Commit.At
		}
		steps = c.Path.Numbered(m.add(c.Path.Spans, at))
		if c.Path.Keep < len(path) {
			path = slices.Clone(path[:c.Path.Keep])
		}
		path = append(path, steps...) // older versions are shorter, so they can share the array
	}
	k.apply(c, path)
	return steps, nil
}

// forget removes the summary of a session if it covers a turn that a change removes from
// the path.
func (m *Memory) forget(ctx context.Context, id string, c Change) error {
	of, turn, err := Forgotten(memoryReader{m, m.byID[id]}, c)
	if c.Delete {
		of, _ = session.OfConversation(id)
		turn = 1
	}
	if err != nil || of == "" {
		return err
	}
	return m.sessions.forget(ctx, of, turn)
}

// remove deletes a conversation and those that were spawned from it.
func (m *Memory) remove(id string) {
	delete(m.byID, id)
	for child, k := range m.byID {
		if k.From.Kind == SpawnedFrom && k.From.ID == id {
			m.remove(child)
		}
	}
}

// add stores new spans and returns their numbers.
func (m *Memory) add(spans []turns.Span, at time.Time) []turns.Number {
	numbers := make([]turns.Number, len(spans))
	for i, s := range spans {
		m.last++
		numbers[i] = turns.Number{Turn: s.Turn, Span: m.last}
		if s.Turn == 0 {
			numbers[i].Turn = m.last
		}
		m.spans[m.last] = span{slices.Clone(s.Messages), at}
	}
	return numbers
}

// apply applies a change; path is the path after it.
func (k *kept) apply(c Change, path turns.Path) {
	if c.Set != nil {
		number := k.Number
		k.Conversation = *c.Set
		k.Number = number
		for int64(len(k.versions)) < k.Version {
			k.versions = append(k.versions, path)
		}
	}
	if c.Commit != nil {
		k.commits = append(k.commits, *c.Commit)
	}
	k.drafts = slices.DeleteFunc(slices.Clone(k.drafts), func(d Draft) bool {
		return slices.Contains(c.DropDrafts, d.Key) || c.AddDraft != nil && d.Key == c.AddDraft.Key
	})
	if c.AddDraft != nil {
		k.drafts = append(k.drafts, *c.AddDraft)
	}
	if c.Summary != nil {
		k.summaries = append(slices.Clone(k.summaries), *c.Summary)
	}
}

// path returns the path of a version, 0 for the current one; nil if there is no such
// version.
func (k *kept) path(version int64) turns.Path {
	if k == nil || len(k.versions) == 0 {
		return nil
	}
	if version == 0 {
		version = k.Version
	}
	if version < 1 || version > k.Version {
		return nil
	}
	return k.versions[version-1]
}

// Read implements Store.
func (m *Memory) Read(ctx context.Context, id string, read func(Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return read(memoryReader{m, m.byID[id]})
}

// List implements Store.
func (m *Memory) List(_ context.Context, f Filter) (out []Conversation, _ error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, id := range slices.Sorted(maps.Keys(m.byID)) {
		k := m.byID[id]
		if id > f.After && (f.Owner == "" || f.Owner == k.Owner) && (f.Session == "" || f.Session == k.Session) && (f.Archived || !k.Archived) && len(out) < f.Limit {
			out = append(out, k.Conversation)
		}
	}
	return out, nil
}

// Sweep implements Store.
func (m *Memory) Sweep(context.Context) (out Swept, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	named := map[int64]bool{}
	for _, k := range m.byID {
		for _, path := range k.versions {
			for _, s := range path {
				named[s.Span] = true
			}
		}
	}
	for n, s := range m.spans {
		if !named[n] {
			delete(m.spans, n)
			out.Spans++
			out.Contents += int64(len(s.messages))
		}
	}
	return out, nil
}

// memoryReader reads a Memory whose lock is held.
type memoryReader struct {
	m *Memory
	k *kept
}

// Conversation implements Reader.
func (r memoryReader) Conversation() (Conversation, bool) {
	if r.k == nil {
		return Conversation{}, false
	}
	return r.k.Conversation, true
}

// Path implements Reader.
func (r memoryReader) Path(version int64) (turns.Path, error) {
	return slices.Clip(r.k.path(version)), nil
}

// Messages implements Reader.
func (r memoryReader) Messages(version int64, from int) ([][]conversation.Message, error) {
	path := r.k.path(version)
	out := make([][]conversation.Message, 0, max(0, len(path)-from))
	for _, s := range path[min(from, len(path)):] {
		out = append(out, r.m.spans[s.Span].messages)
	}
	return out, nil
}

// Spans implements Reader.
func (r memoryReader) Spans(turn int64) (out []int64, _ error) {
	if r.k == nil {
		return nil, nil
	}
	for _, path := range r.k.versions {
		for _, s := range path {
			if s.Turn == turn {
				out = append(out, s.Span)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Said implements Reader.
func (r memoryReader) Said(span int64) ([]conversation.Message, error) {
	s, ok := r.m.spans[span]
	if !ok {
		return nil, contract.Errorf("conversation/store-failed", "span %s is not stored", turns.SpanID(span))
	}
	return s.messages, nil
}

// Committed implements Reader.
func (r memoryReader) Committed(key string) (Commit, bool, error) {
	if r.k == nil || key == "" {
		return Commit{}, false, nil
	}
	i := slices.IndexFunc(r.k.commits, func(c Commit) bool { return c.Key == key })
	if i < 0 {
		return Commit{}, false, nil
	}
	return r.k.commits[i], true, nil
}

// Commits implements Reader.
func (r memoryReader) Commits(most int) (out []Commit, _ error) {
	if r.k == nil {
		return nil, nil
	}
	for _, c := range slices.Backward(r.k.commits) {
		if len(out) == most {
			break
		}
		out = append(out, c)
	}
	return out, nil
}

// Drafts implements Reader.
func (r memoryReader) Drafts() ([]Draft, error) {
	if r.k == nil {
		return nil, nil
	}
	return r.k.drafts, nil
}

// Summaries implements Reader.
func (r memoryReader) Summaries() ([]Summary, error) {
	if r.k == nil {
		return nil, nil
	}
	return r.k.summaries, nil
}

// Of implements Reader.
func (r memoryReader) Of(id string) (Reader, error) { return memoryReader{r.m, r.m.byID[id]}, nil }
