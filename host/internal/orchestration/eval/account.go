package eval

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// account returns the :plan/run of a slot: the outcomes of the nodes of a plan and
// the capabilities that answered. It has no times, so that later nodes read the
// same on every machine.
func (s *scope) account(err *contract.Error) edn.Value {
	if err != nil {
		// The state of concurrent nodes depends on timing.
		return edn.MustMap(edn.K("ok?"), edn.Bool(false), edn.K("failure/type"), edn.K(err.Type))
	}
	t := s.tally()
	return edn.MustMap(
		edn.K("ok?"), edn.Bool(true),
		edn.K("telemetry"), t.value(),
		edn.K("participants"), t.participants(),
	)
}

type tally struct {
	nodes, calls, succeeded, kept int64
	caps                          []string
}

func (s *scope) tally() tally {
	var t tally
	for i := range s.ended {
		if s.ended[i].path.IsNil() {
			continue
		}
		t.nodes++
		n, e := s.node(i), &s.ended[i]
		if e.result != nil {
			t.calls += int64(len(e.result.Attempts))
			switch {
			case e.result.Err == nil:
				t.succeeded++
				if !slices.Contains(t.caps, e.result.CapID) {
					t.caps = append(t.caps, e.result.CapID)
				}
			case n.AllowFailure:
				t.kept++
			}
		}
	}
	return t
}

func (t tally) value() edn.Value {
	return edn.MustMap(
		edn.K("nodes/total"), edn.Int(t.nodes),
		edn.K("calls/total"), edn.Int(t.calls),
		edn.K("calls/succeeded"), edn.Int(t.succeeded),
		edn.K("calls/kept-failures"), edn.Int(t.kept),
	)
}

func (t tally) participants() edn.Value {
	vs := make([]edn.Value, len(t.caps))
	for i, c := range t.caps {
		vs[i] = edn.K(c)
	}
	return edn.Vector(vs...)
}

// account returns the :plan/run of a map: the sums over the items that did not fail.
func (m *items) account() edn.Value {
	var sum tally
	var failed int64
	for k, s := range m.scopes {
		if m.failed[k] {
			failed++
			continue
		}
		t := s.tally()
		sum.nodes += t.nodes
		sum.calls += t.calls
		sum.succeeded += t.succeeded
		sum.kept += t.kept
		for _, c := range t.caps {
			if !slices.Contains(sum.caps, c) {
				sum.caps = append(sum.caps, c)
			}
		}
	}
	return edn.MustMap(
		edn.K("ok?"), edn.Bool(failed == 0),
		edn.K("items"), edn.Int(int64(len(m.over))),
		edn.K("items/failed"), edn.Int(failed),
		edn.K("telemetry"), sum.value(),
		edn.K("participants"), sum.participants(),
	)
}
