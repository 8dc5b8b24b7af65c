package history

import (
	"context"
	"errors"
	"os"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Verify implements httpapi.Runs.
func (j *Runs) Verify(ctx context.Context, name string) (edn.Value, *contract.Error) {
	s, missing := j.Kept()
	if missing != nil && (name != "" || j.Missing == "") {
		return edn.Nil(), missing
	}
	verified, damaged := 0, []edn.Value{}
	verify := func(r store.Run) *contract.Error {
		err := s.Verify(ctx, r.ID)
		var damage *store.Damage
		if errors.As(err, &damage) {
			damaged, err = append(damaged, DamageValue(damage)), nil
		}
		verified++
		return Failure(err)
	}
	if name != "" {
		run, err := j.find(ctx, name)
		if err == nil {
			err = verify(run)
		}
		if err != nil {
			return edn.Nil(), err
		}
	}
	for f := (store.Filter{Limit: pageRecords, Reach: j.reach}); name == "" && s != nil; {
		runs, err := s.Runs(ctx, f)
		if err != nil {
			return edn.Nil(), Failure(err)
		}
		if len(runs) == 0 {
			break
		}
		for _, r := range runs {
			if err := verify(r); err != nil && !errors.Is(err, contract.OfType("run/not-found")) { // removed since
				return edn.Nil(), err
			}
		}
		f.Before = runs[len(runs)-1].ID
	}
	var b edn.MapBuilder
	if name == "" && s != nil && j.reach.All() {
		sessions, found, err := s.VerifySessions(ctx)
		if err != nil {
			return edn.Nil(), Failure(err)
		}
		for _, d := range found {
			damaged = append(damaged, DamageValue(d))
		}
		b.Key("sessions", edn.Int(int64(sessions)))
	}
	b.Key("ok?", edn.Bool(len(damaged) == 0))
	b.Key("runs", edn.Int(int64(verified)))
	b.Key("damaged", edn.Vector(damaged...))
	return b.Map(), nil
}

// Export implements httpapi.Runs.
func (j *Runs) Export(ctx context.Context, name string, offset int64) (edn.Value, *contract.Error) {
	run, missing := j.ended(ctx, "export", name)
	if missing != nil {
		return edn.Nil(), missing
	}
	part := &part{skip: offset}
	if err := j.Store.Export(ctx, run.ID, part); err != nil && !errors.Is(err, errPartFull) {
		return edn.Nil(), Failure(err)
	}
	text := part.text
	if part.full { // cut the part between two characters
		for n := len(text); n > 0 && !utf8.Valid(text[n-1:]); n-- {
			if utf8.RuneStart(text[n-1]) {
				text = text[:n-1]
				break
			}
		}
	}
	out := edn.MustMap(edn.K("run"), edn.Text(run.ID), edn.K("text"), edn.Text(string(text)))
	if part.full {
		out = out.AssocKey("next", edn.Int(offset+int64(len(text))))
	}
	return out, nil
}

var errPartFull = errors.New("the part is full")

// part is a writer that keeps the bytes from an offset on, up to pageBytes, and then fails with
// errPartFull.
type part struct {
	skip int64
	text []byte
	full bool
}

// Write implements io.Writer.
func (p *part) Write(b []byte) (int, error) {
	n := len(b)
	cut := min(p.skip, int64(n))
	p.skip -= cut
	b = b[cut:]
	if room := pageBytes - len(p.text); len(b) > room {
		p.text, p.full = append(p.text, b[:room]...), true
		return 0, errPartFull
	}
	p.text = append(p.text, b...)
	return n, nil
}

// Import implements httpapi.Runs.
func (j *Runs) Import(ctx context.Context, name string) (edn.Value, *contract.Error) {
	s, missing := j.Kept()
	if missing != nil {
		return edn.Nil(), missing
	}
	f, err := os.Open(name)
	if err != nil {
		return edn.Nil(), contract.Errorf("invalid-request", "import: %w", err).
			WithHint("name a file that the user of the daemon can read, by its absolute path")
	}
	defer func() { _ = f.Close() }()
	id, err := s.Import(ctx, f)
	if errors.Is(err, store.ErrRecorded) {
		return edn.Nil(), contract.Errorf("import/conflict", "import %s: its run is recorded here already", name).
			WithHint("\"ferment runs list\" shows the recorded runs")
	}
	if err != nil {
		return edn.Nil(), Failure(err)
	}
	run, err := s.Run(ctx, id)
	return j.summary(run), Failure(err)
}
