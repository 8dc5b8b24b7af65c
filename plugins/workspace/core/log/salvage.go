package log

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// Salvaged is the result of Salvage.
type Salvaged struct {
	// End is the last transaction that verifies.
	End     Checkpoint
	Damages []*Damage
}

// Salvage reads a damaged log and passes every transaction that verifies to
// visit, including those after the damage. A transaction verifies if all its
// records have the chain value that follows from the one stored before them.
func Salvage(dir string, alg id.Alg, visit func(*Transaction) error) (*Salvaged, error) {
	o, err := findOrigin(dir, alg)
	if err != nil {
		return nil, err
	}
	s := &salvager{alg: alg, visit: visit, out: &Salvaged{}}
	if d := o.begins(); d != nil {
		s.out.Damages = append(s.out.Damages, d)
	}
	for i, n := range o.segments {
		if i > 0 && n != o.segments[i-1]+1 {
			s.damage(SegmentName(n-1), 0, "the segment is missing")
		}
		data, err := os.ReadFile(filepath.Join(dir, SegmentName(n)))
		if err != nil {
			return nil, err
		}
		if err := s.segment(n, data); err != nil {
			return nil, err
		}
	}
	if len(s.open) > 0 {
		s.damage(SegmentName(s.at.Segment), s.at.Offset, "the last transaction is not committed")
	}
	return s.out, nil
}

type salvager struct {
	alg   id.Alg
	visit func(*Transaction) error
	out   *Salvaged
	at    Checkpoint // behind the last record that verifies
	// whole means that all records since the last commit verify; they are open.
	whole  bool
	open   []Record
	places []Place
}

func (s *salvager) damage(file string, offset int64, reason string) {
	s.out.Damages = append(s.out.Damages, &Damage{File: file, Offset: offset, Seq: s.out.End.Seq, Reason: reason})
	s.whole, s.open, s.places = false, nil, nil
}

func (s *salvager) segment(number int, data []byte) error {
	at := 0
	for at < len(data) {
		kind, payload, _, ok := frame(data[at:])
		before := s.at.Chain
		if ok && at == 0 && kind == kindSegment {
			if chained, err := parseSegment(payload, number); err == nil {
				s.continues(number, chained)
				before = chained
			}
		}
		next, valid := s.verifies(data, at, before)
		if !valid {
			s.damage(SegmentName(number), int64(at), "the record does not verify")
			if at, ok = s.resync(data, at); !ok {
				return nil
			}
			copy(s.at.Chain[:], data[at-id.ChainSize:at])
			continue
		}
		place := Place{Segment: number, Offset: int64(at + 5), Length: len(payload)}
		at += overhead + len(payload)
		s.at = Checkpoint{Seq: s.out.End.Seq, Segment: number, Offset: int64(at), Chain: next.chain}
		if next.chain != next.stored {
			open, places, whole := s.open, s.places, s.whole
			s.damage(SegmentName(number), int64(at-id.ChainSize), "the chain value is damaged")
			s.open, s.places, s.whole = open, places, whole // the record is proven by the next one
		}
		if err := s.record(kind, payload, place); err != nil {
			return err
		}
	}
	return nil
}

// continues compares the chain value before a segment with that of the one before
// it. Another one means that records are missing.
func (s *salvager) continues(number int, before chain) {
	if number == 1 || s.at.Chain != before {
		s.whole, s.open, s.places = number == 1, nil, nil
	}
}

// link holds the chain value that a record must have, and the stored one.
type link struct{ chain, stored chain }

// verifies reports whether the record at an offset has its chain value, or is
// proven by the record behind it.
func (s *salvager) verifies(data []byte, at int, before chain) (p link, ok bool) {
	kind, payload, stored, ok := frame(data[at:])
	if !ok || !known(kind) || (at == 0) != (kind == kindSegment) {
		return p, false
	}
	p = link{chain: s.alg.Chain(before, kind, payload), stored: stored}
	if p.chain == stored {
		return p, true
	}
	kind, payload, stored, ok = frame(data[at+overhead+len(payload):])
	return p, ok && s.alg.Chain(p.chain, kind, payload) == stored
}

// known reports whether a kind of record can be in a log.
func known(kind byte) bool {
	return kind >= kindSegment && kind <= kindBase || kind >= FirstKind && kind < 4*FirstKind
}

// resync returns the offset of the next record that has its chain value.
func (s *salvager) resync(data []byte, at int) (int, bool) {
	if _, payload, _, ok := frame(data[at:]); ok { // only the payload is damaged
		if next := at + overhead + len(payload); s.chained(data, next) {
			return next, true
		}
	}
	for at = max(at+1, id.ChainSize); at+overhead <= len(data); at++ {
		if s.chained(data, at) {
			return at, true
		}
	}
	return 0, false
}

// chained reports whether a record at an offset has the chain value that follows
// from the bytes before it.
func (s *salvager) chained(data []byte, at int) bool {
	if at < id.ChainSize || at+overhead > len(data) || !known(data[at+4]) || binary.BigEndian.Uint32(data[at:]) > MaxPayload+1 {
		return false
	}
	kind, payload, stored, ok := frame(data[at:])
	if !ok {
		return false
	}
	// Most offsets are ruled out by what would follow, which costs no hash.
	if rest := data[at+overhead+len(payload):]; len(rest) >= 5 && !known(rest[4]) {
		return false
	}
	return s.alg.Chain(chain(data[at-id.ChainSize:at]), kind, payload) == stored
}

// record takes a record that verifies.
func (s *salvager) record(kind byte, payload []byte, place Place) error {
	switch kind {
	case kindSegment:
		return nil
	case kindBase:
		s.whole, s.open, s.places = true, nil, nil
		return nil
	case kindCommit:
		t := Transaction{Records: s.open, Places: s.places}
		whole := s.whole
		s.whole, s.open, s.places = true, nil, nil
		c, err := parseCommit(payload)
		if err != nil {
			s.damage(SegmentName(place.Segment), place.Offset, fmt.Sprint(err))
			return nil
		}
		if !whole || c.Records != len(t.Records) || c.Seq <= s.out.End.Seq {
			return nil
		}
		s.at.Seq = c.Seq
		t.Commit, t.End, s.out.End = c, s.at, s.at
		return s.visit(&t)
	}
	if s.whole {
		s.open, s.places = append(s.open, Record{Kind: kind, Payload: payload}), append(s.places, place)
	}
	return nil
}
