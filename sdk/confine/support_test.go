package confine

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// HCL-021: what stays open under a strict policy is said, and nothing that is held.
func TestWeaknesses(t *testing.T) {
	able := Support{
		System: "linux", NoNewPrivs: true, Seccomp: true, LandlockABI: abiUDP, Rlimits: true, Processes: true, Marks: true,
	}
	of := func(change func(p *Policy, s *Support)) (names []string) {
		p, s := Policy{Level: Strict}, able
		change(&p, &s)
		for _, w := range p.Weaknesses(s) {
			names = append(names, w.Name)
		}
		return names
	}
	for name, row := range map[string]struct {
		change func(p *Policy, s *Support)
		want   []string
	}{
		"nothing":          {func(*Policy, *Support) {}, nil},
		"level limits":     {func(p *Policy, _ *Support) { p.Level = Limits }, []string{"not-strict"}},
		"no filter":        {func(_ *Policy, s *Support) { s.Seccomp = false }, []string{"not-strict"}},
		"ports":            {func(p *Policy, _ *Support) { p.Network = Ports }, []string{"port-only"}},
		"ports, old":       {func(p *Policy, s *Support) { p.Network, s.LandlockABI = Ports, abiUnixSockets }, []string{"port-only", "udp-open"}},
		"unix sockets":     {func(_ *Policy, s *Support) { s.LandlockABI = abiScopes }, []string{"unix-sockets-open"}},
		"signals":          {func(_ *Policy, s *Support) { s.LandlockABI = abiTCP }, []string{"signals-open", "abstract-sockets-open", "unix-sockets-open"}},
		"attributes":       {func(p *Policy, _ *Support) { p.Attributes = true }, []string{"attributes-open"}},
		"root, alone":      {func(_ *Policy, s *Support) { s.Processes = false }, []string{"threads-open"}},
		"root, programs":   {func(p *Policy, s *Support) { p.SelfExec, s.Processes = true, false }, []string{"processes-open"}},
		"root, at limits":  {func(p *Policy, s *Support) { p.Level, s.Processes = Limits, false }, []string{"not-strict"}},
		"another, program": {func(p *Policy, _ *Support) { p.SelfExec = true }, nil},
	} {
		assert.Equal(t, row.want, of(row.change), name)
	}
}
