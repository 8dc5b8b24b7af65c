package store

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation/conversationtest"
	"github.com/fermenthq/ferment/sdk/contract"
	messages "github.com/fermenthq/ferment/sdk/conversation"
	sdksession "github.com/fermenthq/ferment/sdk/conversation/session"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// CNV-020 to CNV-026, CNV-031: the stores in SQLite and PostgreSQL pass the suite of
// stores, and keep conversations over a restart.
func TestConversations(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		dirs := map[*Store]string{}
		at := func(t *testing.T, dir string) conversation.Store {
			s := on.openAt(t, dir, quiet)
			dirs[s] = dir
			return s.Conversations()
		}
		conversationtest.Suite(t, proof.Size(t, "sequences in conversations on disk", 20, 500),
			func(t *testing.T) conversation.Store { return at(t, t.TempDir()) },
			func(t *testing.T, store conversation.Store) conversation.Store {
				s := store.(Conversations).s
				require.NoError(t, s.Close())
				return at(t, dirs[s])
			})
	})
}

// CNV-025: the origin of a conversation is stored with all its fields.
func TestRelationOfConversation(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		store, want := on.openAt(t, t.TempDir()).Conversations(), conversation.Conversation{ID: "c", Owner: "ann", Created: now(), Updated: now()}
		want.From = conversation.Relation{
			Kind: conversation.SpawnedFrom, ID: "p", Turn: 2, Call: "k", Span: 3, Run: "run_1", Depth: 1,
		}
		_, err := store.Update(t.Context(), "c", func(conversation.Reader) (conversation.Change, error) {
			return conversation.Change{Set: &want}, nil
		})
		require.NoError(t, err)
		require.NoError(t, store.Read(t.Context(), "c", func(r conversation.Reader) error {
			got, found := r.Conversation()
			assert.True(t, found)
			assert.Equal(t, want.From, got.From)
			return nil
		}))
	})
}

// talked are the texts of the conversation c of ann.
func talked(t testing.TB, s *Store) string {
	t.Helper()
	got, err := conversation.New(s.Conversations(), nil, conversation.Rules{}, now).Of("ann").Load(context.Background(), "c")
	require.NoError(t, err)
	var out []string
	for _, m := range got.Messages {
		out = append(out, m.Text()[:min(len(m.Text()), 9)])
	}
	return strings.Join(out, "|")
}

// CNV-022, JRN-030: a repair keeps the turns of conversations that can be read, up to
// the first one that is lost.
func TestRepairKeepsConversations(t *testing.T) {
	base := t.TempDir()
	s := openAt(t, base)
	appendAll(t, s, newScript("run_1").whole(1)...)
	syncRun(t, s, "run_1")
	of := conversation.New(s.Conversations(), nil, conversation.Rules{}, now).Of("ann")
	for i := range 4 {
		text := fmt.Sprintf("message %d %s", i, strings.Repeat("x", pageSize*2/3))
		_, err := of.Commit(context.Background(), "c", sdksession.Version(i), sdksession.Change{From: i, To: i, Messages: []messages.Message{messages.User(text)}})
		require.NoError(t, err)
	}
	require.Equal(t, "message 0|message 1|message 2|message 3", talked(t, s))
	require.NoError(t, s.Close())
	for name, row := range map[string]struct {
		damage func(dir string)
		want   string
	}{
		"the first page": {func(dir string) { zeroPage(t, dir, 0) }, "message 0|message 1|message 2|message 3"},
		"a message":      {func(dir string) { zeroPage(t, dir, pageOf(t, dir, "message 2 xxx")) }, "message 0|message 1"},
		"a step": {func(dir string) {
			tamper(t, dir, "DELETE FROM conversation_path WHERE position = 1")
			zeroPage(t, dir, 0)
		}, "message 0"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(base)))
			row.damage(dir)
			assert.False(t, repair(t, dir, false).Sound())
			s := openAt(t, dir)
			assert.Equal(t, row.want, talked(t, s))
			of := conversation.New(s.Conversations(), nil, conversation.Rules{}, now).Of("ann")
			got, err := of.Load(context.Background(), "c")
			require.NoError(t, err)
			n := len(got.Messages)
			_, err = of.Commit(context.Background(), "c", got.Version, sdksession.Change{From: n, To: n, Messages: []messages.Message{messages.User("and more")}})
			require.NoError(t, err)
			assert.Equal(t, row.want+"|and more", talked(t, s))
		})
	}
}

// CNV-022: equal messages are stored once, whatever their origin.
func TestContentIsStoredOnce(t *testing.T) {
	s := openAt(t, t.TempDir(), quiet)
	of := conversation.New(s.Conversations(), nil, conversation.Rules{}, now).Of("ann")
	for i := range 6 {
		m := messages.Assistant("the same").WithAttribution(messages.Attribution{Run: fmt.Sprint("run_", i)})
		_, err := of.Commit(context.Background(), fmt.Sprint("c", i%2), sdksession.Version(i/2), sdksession.Change{From: i / 2, To: i / 2, Messages: []messages.Message{m}})
		require.NoError(t, err)
	}
	var contents, spans int
	require.NoError(t, s.read.one(context.Background(), "count_conversation_content", nil, []any{&contents}))
	require.NoError(t, s.read.one(context.Background(), "count_conversation_spans", nil, []any{&spans}))
	assert.Equal(t, []int{1, 6}, []int{contents, spans})
}

// A damaged conversation is an error of its callers, and does not end the store.
func TestDamagedConversation(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, quiet)
	of := conversation.New(s.Conversations(), nil, conversation.Rules{}, now).Of("ann")
	_, err := of.Commit(context.Background(), "c", 0, sdksession.Change{Messages: []messages.Message{messages.User("a")}})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	tamper(t, dir, "UPDATE conversation_content SET body = 'x'")
	s = openAt(t, dir)
	of = conversation.New(s.Conversations(), nil, conversation.Rules{}, now).Of("ann")
	_, err = of.Load(context.Background(), "c")
	require.ErrorIs(t, err, contract.OfType("conversation/store-failed"))
	_, err = of.Commit(context.Background(), "c", 1, sdksession.Change{From: 0, To: 1})
	require.ErrorIs(t, err, contract.OfType("conversation/store-failed"))
	require.NoError(t, s.Err())
	_, err = of.Commit(context.Background(), "d", 0, sdksession.Change{Messages: []messages.Message{messages.User("a")}})
	require.NoError(t, err)
}
