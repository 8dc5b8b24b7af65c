package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
)

// salvage is the part of a damaged log that can be saved.
type salvage struct {
	*repairer
	end log.Checkpoint
	// last is the last transaction that the log, the index or the seal records.
	last     uint64
	frames   map[id.ID]savedFrame // that verify
	contents map[id.ID]bool       // with a text, or dropped on purpose
	known    []Range              // states that earlier repairs and compactions dropped
	have     map[uint64]bool
	first    bool // the transaction with workspace.edn is there
	// damaged is the first transaction that is lost or not whole; 0 if there is
	// none.
	damaged uint64
	bad     map[recordKey]bool // records that are left out
	lost    []id.ID            // texts
	tree    []log.Record       // versions that make the tree whole
}

// savedFrame is a frame with its content.
type savedFrame struct {
	LostFrame
	content id.ID
}

// recordKey is the place of a record: transaction and number.
type recordKey struct {
	seq uint64
	i   int
}

// salvage reads the transactions that verify and determines what is lost.
func (r *repairer) salvage(ctx context.Context) (*salvage, error) {
	s := &salvage{
		repairer: r,
		frames:   map[id.ID]savedFrame{},
		contents: map[id.ID]bool{},
		have:     map[uint64]bool{},
		bad:      map[recordKey]bool{},
	}
	found, err := log.Salvage(r.path(logDir), r.scheme.Alg(), func(t *log.Transaction) error {
		s.look(t)
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	index, at, close, err := r.openIndexOf(ctx)
	if err != nil {
		return nil, err
	}
	defer close()
	s.end, s.last = found.End, max(found.End.Seq, at.Seq)
	if err := s.missingFrames(ctx, index); err != nil {
		return nil, err
	}
	s.missingTransactions()
	return s, s.mend(ctx, index, at.Seq)
}

// look records the contents of a transaction.
func (s *salvage) look(t *log.Transaction) {
	seq := t.Commit.Seq
	s.have[seq] = true
	for _, r := range t.Records {
		switch r.Kind {
		case kindWorkspace:
			s.first = true
		case kindContent:
			s.contents[contentOf(s.scheme, r.Payload)] = true
		case kindFrame:
			if f, err := openFrame(s.scheme, r.Payload); err == nil {
				s.frames[f.ID] = savedFrame{LostFrame{Frame: f.ID, Path: f.Path, Type: f.Type, Seq: seq}, f.Content}
			}
		case kindGone:
			var g goneRecord
			if decodeRecord(r.Payload, &g) == nil {
				for _, c := range g.Contents {
					s.contents[c] = true
				}
			}
		case kindDropped:
			var d droppedRecord
			if decodeRecord(r.Payload, &d) == nil {
				s.known = append(s.known, d.Ranges...)
			}
		}
	}
}

// hasText reports whether a frame has its text, or lost it on purpose.
func (s *salvage) hasText(f savedFrame) bool { return s.contents[f.content] }

// missingFrames lists the frames of which the log lacks the record or the text.
func (s *salvage) missingFrames(ctx context.Context, index querier) error {
	for _, f := range s.frames {
		if !s.hasText(f) {
			f.Text = true
			s.out.Lost = append(s.out.Lost, f.LostFrame)
			s.lost = append(s.lost, f.content)
		}
	}
	slices.SortFunc(s.lost, id.ID.Compare)
	s.lost = slices.Compact(s.lost)
	defer func() {
		slices.SortFunc(s.out.Lost, func(a, b LostFrame) int {
			return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Seq, b.Seq), a.Frame.Compare(b.Frame))
		})
	}()
	if index == nil {
		return nil
	}
	return eachRow(ctx, index, func(rows *sql.Rows) (err error) {
		var f LostFrame
		var sum, path []byte
		if err := rows.Scan(&sum, &path, &f.Type, &f.Seq); err != nil {
			return err
		}
		if f.Frame, err = id.Of(id.Frame, s.scheme.Alg(), sum); err != nil {
			return err
		}
		if _, saved := s.frames[f.Frame]; !saved {
			f.Path = string(path)
			s.out.Lost = append(s.out.Lost, f)
		}
		return nil
	}, "SELECT id, path, type, seq FROM frames")
}

// missingTransactions finds the numbers that are neither there nor known to be
// dropped. The first transaction is known without the log.
func (s *salvage) missingTransactions() {
	for seq := uint64(2); seq <= s.last; seq++ {
		if s.have[seq] || slices.ContainsFunc(s.known, func(r Range) bool { return seq >= r.Since && seq < r.Until }) {
			continue
		}
		s.spoilt(seq)
		if n := len(s.out.LostSeqs); n > 0 && s.out.LostSeqs[n-1].Until == seq {
			s.out.LostSeqs[n-1].Until = seq + 1
		} else {
			s.out.LostSeqs = append(s.out.LostSeqs, Range{Since: seq, Until: seq + 1})
		}
	}
}

// spoilt records that the states from a transaction on differ from the original ones.
func (s *salvage) spoilt(seq uint64) {
	if s.damaged == 0 || seq < s.damaged {
		s.damaged = seq
	}
}

// each calls visit for every transaction that can be saved, with the records
// that are.
func (s *salvage) each(ctx context.Context, visit func(*log.Transaction) error) error {
	_, err := log.Salvage(s.path(logDir), s.scheme.Alg(), func(t *log.Transaction) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		saved := &log.Transaction{Commit: t.Commit, End: t.End}
		for i, r := range t.Records {
			if !s.bad[recordKey{t.Commit.Seq, i}] {
				saved.Records, saved.Places = append(saved.Records, r), append(saved.Places, t.Places[i])
			}
		}
		if err := visit(saved); err != nil {
			return err
		}
		if t.Commit.Seq == s.end.Seq {
			return errReached // what follows is being written
		}
		return nil
	})
	if errors.Is(err, errReached) {
		return nil
	}
	return err
}

// restart writes the new log.
func (s *salvage) restart(ctx context.Context) error {
	draft := log.Draft{Actor: "ferment", Time: s.o.Now(), Records: s.tree}
	add := func(kind byte, x any) error {
		r, err := encodeRecord(kind, x)
		draft.Records = append(draft.Records, r)
		return err
	}
	for list := s.lost; len(list) > 0; {
		n := min(len(list), maxGone)
		if err := add(kindGone, goneRecord{Contents: list[:n], Lost: true}); err != nil {
			return err
		}
		list = list[n:]
	}
	if s.damaged > 0 {
		if err := add(kindDropped, droppedRecord{Ranges: []Range{{Since: s.damaged, Until: s.last + 1}}}); err != nil {
			return err
		}
	}
	fill := func(w *log.Rewriter) error {
		if !s.first {
			sum := s.scheme.Alg().Sum(s.text)
			c := log.Commit{Seq: 1, Batch: 1, Time: draft.Time, Actor: draft.Actor}
			if _, err := w.Add(c, []log.Record{{Kind: kindWorkspace, Payload: append(sum[:], s.text...)}}); err != nil {
				return err
			}
		}
		return s.each(ctx, func(t *log.Transaction) error {
			_, err := w.Add(t.Commit, t.Records)
			return err
		})
	}
	return log.Restart(s.path(logDir), log.Options{
		Alg:         s.scheme.Alg(),
		Quarantine:  s.path(quarantineDir),
		SegmentSize: s.o.SegmentSize,
		Unsynced:    s.o.Unsynced,
		Faults:      s.o.Faults,
	}, s.end, s.last, fill, draft)
}
