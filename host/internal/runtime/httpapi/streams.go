package httpapi

import (
	"sync"
	"sync/atomic"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// streamsOf selects whose streams are counted: those of a caller or of a run.
type streamsOf string

const (
	ofCaller streamsOf = "principal"
	ofRun    streamsOf = "run"
)

// streams counts the open streams of each caller and of each run.
type streams struct {
	mu sync.Mutex
	by map[streamKey]*places
}

type streamKey struct {
	of   streamsOf
	name string
}

// places are the open streams of a caller or of a run.
type places struct {
	n      int    // guarded by the lock of streams
	frames frames // of a run: texts shared by its readers
}

// open returns the number of open streams.
func (s *streams) open() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, each := range s.by {
		if key.of == ofCaller {
			n += each.n
		}
	}
	return n
}

// enter takes a place among the streams of a caller or of a run; leave releases it. The error is
// stream/too-many-subscribers if there are most already; most 0 means unlimited.
func (s *streams) enter(of streamsOf, name string, most int) (p *places, leave func(), err *contract.Error) {
	key := streamKey{of, name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p = s.by[key]; p == nil {
		p = &places{}
	}
	if most > 0 && p.n >= most {
		return nil, nil, contract.Errorf("stream/too-many-subscribers", "%s %s has %d open streams, the limit is http.limits.%s_subscribers = %d",
			of, name, p.n, of, most)
	}
	if s.by == nil {
		s.by = map[streamKey]*places{}
	}
	s.by[key] = p
	s.change(key, p, 1)
	return p, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.change(key, p, -1)
	}, nil
}

// change adds by to the number of streams. The caller holds mu.
func (s *streams) change(key streamKey, p *places, by int) {
	p.n += by
	p.frames.shared.Store(p.n > 1)
	if p.n == 0 {
		delete(s.by, key)
	}
}

// keptFrames is the number of events whose texts are kept for the readers of a run, as many as two
// pages of records have. They are not larger than their records, which are in memory during the
// run.
const keptFrames = 64

// frames caches the texts of the last events of a run that has several readers, so that each event
// is encoded once.
type frames struct {
	shared atomic.Bool // the run has several readers

	mu   sync.Mutex
	kept [keptFrames]keptFrame
}

type keptFrame struct {
	seq  int
	text map[mediaType][]byte
}

// of returns the text of an event: the cached one, or the result of encode.
func (f *frames) of(e journal.Event, form mediaType, encode func(journal.Event) []byte) []byte {
	if e.Seq == 0 || !f.shared.Load() { // it is not recorded, or has one reader
		return encode(e)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at := &f.kept[e.Seq%keptFrames]
	if at.seq != e.Seq {
		*at = keptFrame{e.Seq, map[mediaType][]byte{}}
	}
	if at.text[form] == nil {
		at.text[form] = encode(e)
	}
	return at.text[form]
}
