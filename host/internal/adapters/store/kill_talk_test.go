package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// A sender sends messages in the conversation c of ann.
type sender struct {
	service *conversation.Service
	asked   func(text string) // when the message of a send is a draft
}

func newSender(s *Store, asked func(string)) sender {
	return sender{conversation.New(s.Conversations(), nil, conversation.Rules{Window: session.Window{Turns: 4, Chars: 1000}}, now), asked}
}

func (x sender) call(key, intent, input string) (edn.Value, *contract.Error) {
	return x.service.Do(context.Background(), conversation.Call{
		Caller: session.Caller{Principal: "ann"},
		Intent: "conversation/" + intent,
		Input:  edn.MustRead(`{:conversation/id "c" ` + input + `}`),
		Run:    "run_1",
		Path:   edn.Vector(),
		Key:    key,
		Ask: func(context.Context, edn.Value, func(edn.Value)) (edn.Value, *contract.Error) {
			x.asked(key)
			return contract.ValueResult(edn.MustMap(edn.K("text"), edn.Text("re: "+key), edn.K("finish"), edn.K("stop"))), nil
		},
		Serves: func(string) bool { return false },
	})
}

// send sends its key as the text.
func (x sender) send(key string) *contract.Error {
	_, err := x.call(key, "send", fmt.Sprintf(":text %q", key))
	return err
}

// sendAll is the writing process of TestKilledSendIsWhole. It prints the number of each
// message that is a draft, and of each that is committed.
func sendAll(s *Store, begun *atomic.Bool) {
	x := newSender(s, func(key string) { fmt.Println("asked", key) })
	if _, err := x.call("", "open", ""); err != nil {
		panic(err)
	}
	begun.Store(true)
	for i := 1; ; i++ {
		if err := x.send(strconv.Itoa(i)); err != nil {
			panic(err)
		}
		fmt.Println("done", i)
	}
}

// stored returns the numbers of the messages with an answer, and the drafts. Each message
// has its answer after it.
func (x sender) stored(t *testing.T) (answered int, drafts []string) {
	t.Helper()
	out, err := x.call("", "get", "")
	require.Nil(t, err, "%v", err)
	var said []string
	for m := range out.Key("messages").Elems() {
		said = append(said, contentOf(m))
	}
	require.Zero(t, len(said)%2, "half a turn: %q", said)
	for i := range len(said) / 2 {
		key := strconv.Itoa(i + 1)
		require.Equal(t, []string{key, "re: " + key}, said[2*i:2*i+2])
	}
	for d := range out.Key("drafts").Elems() {
		drafts = append(drafts, contentOf(d.Key("message")))
	}
	return len(said) / 2, drafts
}

func contentOf(message edn.Value) string {
	s, _ := message.Key("content").AsString()
	return s
}

// CNV-021, CNV-031: a process that is killed at each operation of the store of a send, and
// at random ones of later sends, has committed whole turns. A message whose answer was
// asked for is committed or a draft, and the draft can be sent.
func TestKilledSendIsWhole(t *testing.T) {
	t.Setenv(killTalk, "1")
	kills := proof.Size(t, "kills within sends", 5, 200)
	const each = 12 // operations that are all tried, which are those of more than one send
	onEach(t, func(t *testing.T, on backend) {
		random := rand.New(rand.NewPCG(21, 7))
		for kill := range kills {
			at := 1 + kill
			if kill >= each {
				at = each + random.IntN(20*each)
			}
			t.Run(strconv.Itoa(at), func(t *testing.T) {
				dir := t.TempDir()
				printed := killAfter(t, on, dir, at, 1<<30)
				s := on.openAt(t, dir)
				damage, err := s.VerifyAll(context.Background())
				require.NoError(t, err)
				assert.Empty(t, damage)
				x := newSender(s, func(string) {})
				answered, drafts := x.stored(t)
				require.GreaterOrEqual(t, answered, printed["done"])
				if answered == printed["asked"] {
					require.LessOrEqual(t, len(drafts), 1, "only the next one, whose draft was not acknowledged")
				} else {
					require.Equal(t, []string{strconv.Itoa(printed["asked"])}, drafts)
				}
				require.Nil(t, x.send(strconv.Itoa(answered+1)))
				after, drafts := x.stored(t)
				assert.Equal(t, answered+1, after)
				assert.Empty(t, drafts)
			})
		}
	})
}

// CNV-021, JRN-030: a write-ahead log that is cut at any write of a send has the message as
// a draft or with its answer, as soon as it was acknowledged as such.
func TestCutLogOfASend(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir)
	var asked, done []int64 // lengths of the log
	x := newSender(s, func(string) { asked = append(asked, lite(s).walSize()) })
	_, failed := x.call("", "open", "")
	require.Nil(t, failed)
	checkpoint(t, s)
	for i := range 3 {
		require.Nil(t, x.send(strconv.Itoa(i+1)))
		done = append(done, lite(s).walSize())
	}
	name := filepath.Join(dir, "ferment.db")
	file, err := os.ReadFile(name)
	require.NoError(t, err)
	log, err := os.ReadFile(name + "-wal")
	require.NoError(t, err)
	require.Equal(t, done[len(done)-1], int64(len(log)))

	random := rand.New(rand.NewPCG(3, 2))
	cuts := append([]int{0, len(log)}, cutsOf(t, log, "frames that end a log of sends", random)...)
	for _, bound := range append(asked, done...) {
		cuts = append(cuts, int(bound)-1, int(bound))
	}
	for _, at := range cuts {
		other := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(other, "ferment.db"), file, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(other, "ferment.db-wal"), log[:at], 0o600))
		cut := openAt(t, other)
		answered, drafts := newSender(cut, nil).stored(t)
		want, draft := 0, ""
		for i := range done {
			switch {
			case done[i] <= int64(at):
				want++
			case asked[i] <= int64(at):
				draft = strconv.Itoa(i + 1)
			}
		}
		assert.Equal(t, want, answered, "cut at byte %d", at)
		assert.Equal(t, draft, strings.Join(drafts, "|"), "cut at byte %d", at)
		require.NoError(t, cut.Close())
	}
}
