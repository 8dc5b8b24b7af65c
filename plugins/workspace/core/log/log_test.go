package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// world is a log in a directory, with what was acknowledged.
type world struct {
	t     testing.TB
	dir   string
	size  int64 // of segments
	known uint64
	hooks Faults
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "log"), size: 600}
	require.NoError(t, os.Mkdir(w.dir, 0o700))
	return w
}

func (w *world) quarantine() string { return filepath.Join(filepath.Dir(w.dir), "quarantine") }

// open opens the log and returns the transactions that it recovers.
func (w *world) open(from ...Checkpoint) (*Log, []Transaction, *Damage) {
	w.t.Helper()
	var replayed []Transaction
	o := Options{Alg: id.BLAKE3, Unsynced: true, Known: w.known, Quarantine: w.quarantine(), SegmentSize: w.size, Faults: w.hooks, Replay: func(t *Transaction) error {
		replayed = append(replayed, *t)
		return nil
	}}
	if len(from) > 0 {
		o.From = from[0]
	}
	l, damage, err := Open(w.dir, o)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = l.Close() })
	return l, replayed, damage
}

// fill appends batches of random transactions and returns all of them.
func (w *world) fill(l *Log, r *rand.Rand, batches int) []Transaction {
	w.t.Helper()
	var all []Transaction
	for range batches {
		done, err := l.Append(drafts(r)...)
		require.NoError(w.t, err)
		all = append(all, done...)
	}
	return all
}

func drafts(r *rand.Rand) []Draft {
	var out []Draft
	for range 1 + r.IntN(3) {
		d := Draft{Actor: "tester", Time: int64(r.Uint32())}
		for range 1 + r.IntN(4) {
			payload := make([]byte, r.IntN(200)+r.IntN(2)*r.IntN(900))
			for i := range payload {
				payload[i] = byte(r.IntN(256))
			}
			d.Records = append(d.Records, Record{Kind: FirstKind + byte(r.IntN(3)), Payload: payload})
		}
		out = append(out, d)
	}
	return out
}

// small are drafts with short payloads.
func small(r *rand.Rand) []Draft {
	out := drafts(r)
	for _, d := range out {
		for i, rec := range d.Records {
			d.Records[i].Payload = rec.Payload[:min(len(rec.Payload), 5)]
		}
	}
	return out
}

// files returns the segments by name.
func (w *world) files() map[string][]byte {
	all := map[string][]byte{}
	entries, err := os.ReadDir(w.dir)
	require.NoError(w.t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(w.dir, e.Name()))
		require.NoError(w.t, err)
		all[e.Name()] = b
	}
	return all
}

func (w *world) restore(files map[string][]byte) {
	require.NoError(w.t, os.RemoveAll(w.dir))
	require.NoError(w.t, os.Mkdir(w.dir, 0o700))
	for name, b := range files {
		require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, name), b, 0o600))
	}
}

func typed(t testing.TB, err error, typ string) {
	t.Helper()
	require.ErrorIs(t, err, contract.OfType(typ))
}

// WS-041: what was appended is read back, from the begin and from any
// checkpoint, across segments, and every place holds its payload.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.size = rapid.Int64Range(200, 3000).Draw(rt, "segment size")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		l, _, damage := w.open()
		require.Nil(rt, damage)
		all := w.fill(l, r, 4)
		require.NoError(rt, l.Close())

		l, replayed, damage := w.open()
		require.Nil(rt, damage)
		require.Equal(rt, all, replayed)
		at := r.IntN(len(all))
		_, rest, damage := w.open(all[at].End)
		require.Nil(rt, damage)
		require.Equal(rt, len(all)-at-1, len(rest))
		for _, tr := range all {
			for i, p := range tr.Places {
				b, err := l.Read(p)
				require.NoError(rt, err)
				require.True(rt, bytes.Equal(tr.Records[i].Payload, b))
			}
		}
		more := w.fill(l, r, 2)
		_, replayed, damage = w.open()
		require.Nil(rt, damage)
		require.Equal(rt, append(all, more...), replayed)
		for name, b := range w.files() {
			if len(b) > int(w.size) {
				largest := 0
				for rest := b; len(rest) > 0; {
					_, payload, _, _ := frame(rest)
					largest = max(largest, len(payload))
					rest = rest[overhead+len(payload):]
				}
				require.Greater(rt, largest+2*overhead+int(segmentHeader), int(w.size), "%s is too large", name)
			}
		}
	})
}

// WS-044, WS-043: a log that is cut at any byte of its last batch has all
// earlier transactions, keeps the rest in quarantine, and takes writes.
func TestTornTail(t *testing.T) {
	for seed := range proof.Size(t, "logs cut at each byte", 1, 40) {
		r := rand.New(rand.NewPCG(uint64(seed), 44))
		w := newWorld(t)
		l, _, _ := w.open()
		kept := w.fill(l, r, 3)
		before := w.files()
		last, err := l.Append(small(r)...)
		require.NoError(t, err)
		whole := slices.Concat(kept, last)
		require.NoError(t, l.Close())
		after := w.files()
		names := slices.Sorted(maps.Keys(after))
		cuts := 0
		for i, name := range names {
			for keep := len(before[name]); keep <= len(after[name]); keep++ {
				if i+1 < len(names) && keep == len(after[name]) {
					continue // the same as nothing of the next one
				}
				torn := maps.Clone(after)
				torn[name] = after[name][:keep]
				for _, later := range names[i+1:] {
					delete(torn, later)
				}
				w.restore(torn)
				require.NoError(t, os.RemoveAll(w.quarantine()))
				l, replayed, damage := w.open()
				require.Nil(t, damage, "%s cut at %d", name, keep)
				require.GreaterOrEqual(t, len(replayed), len(kept))
				require.Equal(t, whole[:len(replayed)], replayed)
				cutOff := w.quarantined()
				for n, b := range w.files() {
					require.True(t, bytes.HasPrefix(torn[n], b))
				}
				require.Equal(t, total(torn)-total(w.files()), cutOff, "nothing is lost")
				end, damage, err := Verify(w.dir, id.BLAKE3, func(*Transaction) error { return nil })
				require.NoError(t, err)
				require.Nil(t, damage)
				require.Equal(t, l.End(), end, "also if only the head of a segment is left")
				_, err = l.Append(drafts(r)...)
				require.NoError(t, err)
				require.NoError(t, l.Close())
				_, damage, err = Verify(w.dir, id.BLAKE3, func(*Transaction) error { return nil })
				require.NoError(t, err)
				require.Nil(t, damage)
				cuts++
			}
		}
		require.Greater(t, cuts, 20)
	}
}

func total(files map[string][]byte) (n int) {
	for _, b := range files {
		n += len(b)
	}
	return n
}

// quarantined returns the number of bytes in quarantine.
func (w *world) quarantined() (n int) {
	entries, _ := os.ReadDir(w.quarantine())
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(w.t, err)
		n += int(info.Size())
	}
	return n
}

// WS-044, WS-171: a flipped byte is found, in the full size any, with the name of its
// segment. The log then takes no writes and loses no byte, if the caller knows what was
// committed, or if a later batch proves it.
func TestFlippedBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 171))
	w := newWorld(t)
	w.size = 300
	l, _, _ := w.open()
	var all []Transaction
	for range 5 {
		done, err := l.Append(small(r)...)
		require.NoError(t, err)
		all = append(all, done...)
	}
	require.NoError(t, l.Close())
	files := w.files()
	require.Greater(t, len(files), 2)
	last := all[len(all)-1]
	step := proof.Of(3, 1) // bytes between two that are flipped
	for name, b := range files {
		for i := r.IntN(step); i < len(b); i += step {
			flipped := bytes.Clone(b)
			flipped[i] ^= 1 << r.IntN(8)
			path := filepath.Join(w.dir, name)
			require.NoError(t, os.WriteFile(path, flipped, 0o600))
			_, damage, err := Verify(w.dir, id.BLAKE3, func(*Transaction) error { return nil })
			require.NoError(t, err)
			require.NotNil(t, damage, "%s byte %d", name, i)
			require.Equal(t, name, damage.File)
			require.LessOrEqual(t, damage.Offset, int64(i))

			w.known = last.Commit.Seq
			l, replayed, damage := w.open()
			require.NotNil(t, damage)
			require.Equal(t, append([]Transaction{}, all[:len(replayed)]...), append([]Transaction{}, replayed...))
			_, err = l.Append(drafts(r)...)
			typed(t, err, "store/read-only")
			now, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, flipped, now, "nothing is cut off")
			require.NoError(t, l.Close())
			require.NoError(t, os.WriteFile(path, b, 0o600))
		}
	}
	w.known = 0
	// Without that knowledge: the payload of the first transaction is damaged, and
	// batches follow.
	first := all[0].Places[0]
	path := filepath.Join(w.dir, SegmentName(first.Segment))
	b := bytes.Clone(files[SegmentName(first.Segment)])
	b[first.Offset+int64(first.Length)] ^= 1 // its chain value
	require.NoError(t, os.WriteFile(path, b, 0o600))
	_, _, damage := w.open()
	require.NotNil(t, damage)
}

// WS-044: a missing, doubled or older segment is found.
func TestSegmentsThatDoNotFit(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 44))
	w := newWorld(t)
	l, _, _ := w.open()
	all := w.fill(l, r, 8)
	require.NoError(t, l.Close())
	files := w.files()
	names := slices.Sorted(maps.Keys(files))
	require.Greater(t, len(names), 4)
	w.known = all[len(all)-1].Commit.Seq
	for i, name := range names {
		for what, change := range map[string]func(map[string][]byte){
			"missing": func(f map[string][]byte) { delete(f, name) },
			"empty":   func(f map[string][]byte) { f[name] = nil },
			"another": func(f map[string][]byte) { f[name] = f[names[(i+1)%len(names)]] },
		} {
			changed := maps.Clone(files)
			change(changed)
			w.restore(changed)
			_, _, damage := w.open()
			require.NotNil(t, damage, "%s %s", name, what)
			_, _, damage = w.open(all[len(all)-1].End)
			if i == len(names)-1 {
				require.NotNil(t, damage, "%s %s", name, what)
			}
		}
	}
}

func TestRecordLimit(t *testing.T) {
	w := newWorld(t)
	l, _, _ := w.open()
	_, err := l.Append(Draft{Records: []Record{{Kind: FirstKind, Payload: make([]byte, MaxPayload+1)}}})
	typed(t, err, "limit/exceeded")
	w.fill(l, rand.New(rand.NewPCG(1, 1)), 1)
}

// FuzzOpen: any bytes are an error, damage, or a valid prefix that takes writes.
func FuzzOpen(f *testing.F) {
	w := newWorld(f)
	l, _, _ := w.open()
	w.size = SegmentSize
	w.fill(l, rand.New(rand.NewPCG(1, 1)), 2)
	for _, b := range w.files() {
		f.Add(b)
	}
	f.Add(binary.BigEndian.AppendUint32(nil, 1<<31))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWorld(t)
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, SegmentName(1)), b, 0o600))
		l, replayed, damage := w.open()
		if damage != nil {
			return
		}
		done, err := l.Append(Draft{Records: []Record{{Kind: FirstKind, Payload: []byte("x")}}})
		require.NoError(t, err)
		_, again, damage := w.open()
		require.Nil(t, damage)
		require.Equal(t, append(replayed, done...), again)
	})
}

func TestErrorsNameTheOperation(t *testing.T) {
	w := newWorld(t)
	l, _, _ := w.open()
	_, err := l.Read(Place{Segment: 9, Length: 1})
	typed(t, err, "store/corrupt") // a segment is never removed while it is read
	d := &Damage{File: "x", Reason: "why"}
	assert.True(t, strings.Contains(errors.Join(d).Error(), "why"))
}

// WS-174: what does not begin as a bundle has one error, however it goes on.
func TestNotABundle(t *testing.T) {
	for _, text := range []string{"", "gar", "garbage\n", strings.Repeat("\x00", 100)} {
		err := ReadBundle(strings.NewReader(text), func(Record) error { return nil })
		assert.Equal(t, errBundle, err, "%q", text)
		assert.Equal(t, text == "", BeginsBundle([]byte(text)), "%q", text)
	}
}
