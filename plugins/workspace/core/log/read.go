package log

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// Damage is a place in a log that does not verify.
type Damage struct {
	File   string // name of the segment
	Offset int64
	Seq    uint64 // the last transaction before it that verifies
	Reason string
	// Other means that the checkpoint of the caller belongs to another log: the
	// position exists, but has another chain value.
	Other bool
	// Cut means that the bytes from Offset on are the torn tail of a write that a crash
	// interrupted. Open cuts it off, unless its caller knows a later transaction.
	Cut bool
	// torn means that what follows was never part of the log.
	torn bool
}

func (d *Damage) Error() string {
	return fmt.Sprintf("%s at byte %d, after transaction %d: %s", d.File, d.Offset, d.Seq, d.Reason)
}

// Checkpoint is the end of a transaction. The zero Checkpoint is the start of the log.
type Checkpoint struct {
	Seq     uint64
	Segment int
	Offset  int64 // after the commit record
	Chain   chain
}

// Transaction is a committed transaction as read from the log.
type Transaction struct {
	Commit  Commit
	Records []Record
	Places  []Place
	End     Checkpoint
}

// segments returns the numbers of the segments in a directory, sorted.
func segments(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	return segmentsOf(entries), nil
}

func segmentsOf(entries []os.DirEntry) (numbers []int) {
	for _, e := range entries {
		if n, ok := segmentNumber(e.Name()); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// reader verifies the records of a log in order.
type reader struct {
	dir    string
	alg    id.Alg
	origin origin
	base   *base      // of the first segment, if it is read
	first  int        // the first segment that is read
	last   Checkpoint // end of the last valid transaction
	// at is the position behind the last valid record, with its chain value.
	at Checkpoint
	// open are the records since the last commit.
	open   []Record
	places []Place
}

// begin sets the reader to the start of a segment.
func (r *reader) begin(number int, h head) {
	r.first, r.base = number, h.base
	r.last, r.at = Checkpoint{}, Checkpoint{Chain: h.before}
	if h.base == nil {
		r.at.Chain = chain{} // that of the first segment is nothing
	}
}

// readAll passes every committed transaction after from to visit. It returns the damage at which it
// stopped; nil if the log ends with the last transaction.
func (r *reader) readAll(from Checkpoint, visit func(*Transaction) error) (damage *Damage, err error) {
	r.last, r.at, r.first = from, from, max(from.Segment, 1)
	if r.origin, err = findOrigin(r.dir, r.alg); err != nil {
		return nil, err
	}
	o := &r.origin
	if damage := o.begins(); damage != nil {
		damage.Seq = from.Seq
		return damage, nil
	}
	rest := o.segments
	switch {
	case len(rest) == 0:
		if from.Segment > 0 {
			return &Damage{File: SegmentName(from.Segment), Seq: from.Seq, Reason: "the segment is missing"}, nil
		}
	case from.Segment == 0:
		r.begin(rest[0], o.head)
	case from.Segment < rest[0]:
		return &Damage{File: SegmentName(rest[0]), Seq: from.Seq, Reason: "the log was rewritten since", Other: true}, nil
	}
	damage, err = r.readSegments(rest, visit)
	if damage == nil && err == nil && o.unfinished > 0 {
		return &Damage{File: SegmentName(o.unfinished), Seq: r.last.Seq, Reason: "a rewriting of the log was not finished", torn: true}, nil
	}
	return damage, err
}

// readSegments reads from r.at on.
func (r *reader) readSegments(numbers []int, visit func(*Transaction) error) (*Damage, error) {
	next := r.first
	for _, n := range numbers {
		if n < next {
			continue
		}
		if n > next {
			return &Damage{File: SegmentName(next), Seq: r.last.Seq, Reason: "the segment is missing"}, nil
		}
		damage, err := r.readSegment(n, visit)
		if damage != nil || err != nil {
			return damage, err
		}
		next++
	}
	switch {
	case next == r.first && r.at.Segment > 0:
		return &Damage{File: SegmentName(r.at.Segment), Seq: r.at.Seq, Reason: "the segment is missing"}, nil
	case r.at != r.last:
		return &Damage{File: SegmentName(r.last.Segment), Offset: r.last.Offset, Seq: r.last.Seq, Reason: "the last transaction is not committed"}, nil
	case r.inBase():
		return &Damage{File: SegmentName(max(r.last.Segment, r.first)), Offset: r.last.Offset, Seq: r.last.Seq, Reason: "the end of the rewritten log is missing"}, nil
	}
	return nil, nil
}

// inBase reports whether the end of a rewritten log was not reached yet.
func (r *reader) inBase() bool { return r.base != nil && r.last.Seq <= r.base.last }

// follows reports whether a transaction with the number can be the next one.
func (r *reader) follows(seq uint64) bool {
	if r.inBase() {
		return seq > r.last.Seq && seq <= r.base.last+1
	}
	return seq == r.last.Seq+1
}

// readSegment verifies one segment, from r.at on if that lies in it.
func (r *reader) readSegment(number int, visit func(*Transaction) error) (*Damage, error) {
	data, err := os.ReadFile(filepath.Join(r.dir, SegmentName(number)))
	if err != nil {
		return nil, err
	}
	fail := func(offset int64, reason string) (*Damage, error) {
		return &Damage{File: SegmentName(number), Offset: offset, Seq: r.last.Seq, Reason: reason}, nil
	}
	offset := int64(0)
	if r.at.Segment == number {
		if offset = r.at.Offset; offset > int64(len(data)) {
			return fail(int64(len(data)), "the segment is shorter than what was committed")
		}
		// The chain value before the offset must be the known one.
		if !bytes.Equal(data[offset-id.ChainSize:offset], r.at.Chain[:]) {
			return &Damage{File: SegmentName(number), Offset: offset - id.ChainSize, Seq: r.last.Seq,
				Reason: "the chain value differs from the known value", Other: true}, nil
		}
	}
	if len(data) == 0 {
		return fail(0, "the segment is empty")
	}
	for offset < int64(len(data)) {
		kind, payload, stored, ok := frame(data[offset:])
		if !ok {
			return fail(offset, "the record is cut off or its length is wrong")
		}
		if want := r.alg.Chain(r.at.Chain, kind, payload); want != stored {
			return fail(offset, "the chain value of the record does not match")
		}
		place := Place{Segment: number, Offset: offset + 5, Length: len(payload)}
		if (offset == 0) != (kind == kindSegment) {
			return fail(offset, "expected the segment record as the first record, and only there")
		}
		offset += int64(overhead + len(payload))
		before := r.at.Chain
		r.at = Checkpoint{Seq: r.last.Seq, Segment: number, Offset: offset, Chain: stored}
		switch kind {
		case kindSegment:
			if chained, err := parseSegment(payload, number); err != nil || chained != before {
				return fail(0, "the segment does not continue the previous segment")
			}
			if r.last.Segment == 0 || len(r.open) == 0 && r.last.Segment == number-1 {
				r.last = Checkpoint{Seq: r.last.Seq, Segment: number, Offset: offset, Chain: stored}
			}
		case kindBase:
			if r.base == nil || number != r.first || place.Offset != segmentHeader+5 {
				return fail(place.Offset, "expected the first record of a rewritten log only at its start")
			}
			r.last = Checkpoint{Segment: number, Offset: offset, Chain: stored}
		case kindCommit:
			c, err := parseCommit(payload)
			if err != nil || !r.follows(c.Seq) || c.Records != len(r.open) {
				return fail(place.Offset, "the commit record does not match the transaction")
			}
			r.at.Seq = c.Seq
			r.last = r.at
			t := Transaction{Commit: c, Records: r.open, Places: r.places, End: r.last}
			r.open, r.places = nil, nil
			if err := visit(&t); err != nil {
				return nil, err
			}
		default:
			r.open = append(r.open, Record{Kind: kind, Payload: payload})
			r.places = append(r.places, place)
		}
	}
	return nil, nil
}

// frame splits the first record of b.
func frame(b []byte) (kind byte, payload []byte, stored chain, ok bool) {
	if len(b) < overhead {
		return 0, nil, stored, false
	}
	n := int(binary.BigEndian.Uint32(b))
	if n < 1 || n > MaxPayload+1 || len(b) < 4+n+id.ChainSize {
		return 0, nil, stored, false
	}
	copy(stored[:], b[4+n:])
	return b[4], b[5 : 4+n], stored, true
}

// uncommitted reports whether what follows the last transaction was never
// committed, as far as the log itself shows.
func (r *reader) uncommitted(d *Damage) (bool, error) {
	if d.Other || r.inBase() {
		return false, nil
	}
	if d.torn {
		return true, nil
	}
	later, err := r.laterBatch(d)
	return !later, err
}

// laterBatch reports whether a valid commit of a batch after the first one
// follows the damage: then the damaged batch had been acknowledged, because a
// batch is written only after the one before it is durable. Frames are taken as
// they are, each verified against the chain value that is stored before it.
func (r *reader) laterBatch(d *Damage) (bool, error) {
	numbers, err := segments(r.dir)
	if err != nil {
		return false, err
	}
	first, _ := segmentNumber(d.File)
	for _, n := range numbers {
		if n < first {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.dir, SegmentName(n)))
		if err != nil {
			return false, err
		}
		offset := int64(0)
		if n == first {
			offset = min(d.Offset, int64(len(data)))
		}
		if r.hasCommitAfter(data[offset:], d.Seq+1) {
			return true, nil
		}
	}
	return false, nil
}

func (r *reader) hasCommitAfter(data []byte, batch uint64) bool {
	var before chain
	known := false
	for {
		kind, payload, stored, ok := frame(data)
		if !ok {
			return false
		}
		if kind == kindCommit && known && r.alg.Chain(before, kind, payload) == stored {
			if c, err := parseCommit(payload); err == nil && c.Batch > batch {
				return true
			}
		}
		before, known = stored, true
		data = data[overhead+len(payload):]
	}
}

// Verify reads a whole log and passes every valid transaction to visit. It
// returns the end of what is valid, which can be the head of a segment without
// transactions, and the first damage. A log that ends within a transaction is
// damaged.
func Verify(dir string, alg id.Alg, visit func(*Transaction) error) (end Checkpoint, damage *Damage, err error) {
	r := reader{dir: dir, alg: alg}
	damage, err = r.readAll(Checkpoint{}, visit)
	if damage != nil && err == nil {
		damage.Cut, err = r.uncommitted(damage)
	}
	return r.last, damage, err
}
