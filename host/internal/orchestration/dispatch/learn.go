package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/bandit"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/learned"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/text"
)

// learning is the order that the dispatch policy :learned chose for a node (LRN-001). It
// is drawn once, or taken from the record.
type learning struct {
	record *journal.Learned // nil: nothing was decided
	order  []string         // nil: not decided yet
	among  []bandit.Arm     // candidates of the decision
	taught bool             // an outcome was counted
}

// orderDraws keeps the random values of orders apart from those of attempts.
const orderDraws = 1 << 20

// recall takes the order from the record of an earlier start of the run; then no order
// is drawn (LRN-004).
func (l *learning) recall(r *journal.NodeResolved) {
	if r == nil {
		return
	}
	l.record, l.order = r.Learned, []string{}
	for _, c := range r.Candidates {
		l.order = append(l.order, c.CapID)
	}
	if r.Learned != nil {
		l.order = r.Learned.Order
	}
}

// learnedOrder returns the order of the accepted candidates: a drawn one if the node may
// explore, otherwise that of the expected utilities, or the declared one if the group is
// cold. nil is the declared order, too.
func (s *candidates) learnedOrder(accepted []string) []string {
	l, n := &s.learning, s.n
	if n.d.Learned == nil || s.fixed || s.past.replays() || s.past.fills() || l.order != nil {
		return l.order
	}
	rules, now := n.w.Policy.Learned, n.now()
	key := n.learnedKey()
	group := n.d.Learned.Group(context.Background(), key)
	var beliefs []bandit.Belief
	for _, id := range accepted {
		c, ok := n.d.Registry.Capability(id)
		if !ok {
			continue
		}
		arm := armOf(c)
		l.among, l.order = append(l.among, arm), append(l.order, id)
		beliefs = append(beliefs, group.Belief(arm, declared(c), rules, now))
	}
	if len(l.order) < 2 {
		return l.order
	}
	l.record = &journal.Learned{Bucket: key.Bucket, Order: l.order, Propensity: 1, Cold: group.Cold(l.among)}
	for _, b := range beliefs {
		l.record.Counts = append(l.record.Counts, journal.LearnedCounts{CapID: b.CapID, Major: b.Major, Passes: b.Passes, Fails: b.Fails})
	}
	var d bandit.Decision
	switch {
	case l.record.Cold:
		return l.order
	case s.mayExplore():
		seed := drawSeed(n.run.Seed, n.w.Path, orderDraws+s.request.attempts)
		d = bandit.Draw(beliefs, rules, rand.New(rand.NewChaCha8(seed)))
		l.record.Seed = fmt.Sprintf("b3:%x", seed)
	default:
		d = bandit.ByMean(beliefs, rules)
	}
	ids := make([]string, len(d.Order))
	for i, at := range d.Order {
		ids[i] = l.order[at]
	}
	if i := slices.Index(ids, n.w.Policy.first()); i > 0 {
		ids = slices.Insert(slices.Delete(ids, i, i+1), 0, n.w.Policy.first())
	}
	l.order, l.record.Order = ids, ids
	l.record.Explored, l.record.Propensity = d.Explored, d.Propensity
	return ids
}

// mayExplore reports whether a candidate may be tried to learn about it: where its outcome
// counts, calls have no effects, and another attempt is allowed and affordable (LRN-002).
func (s *candidates) mayExplore() bool {
	n, p := s.n, s.n.w.Policy
	if n.run == nil || n.w.Op != "call" || p.first() != "" || p.FallbackMax == 0 || p.Strategy != policy.Cascade {
		return false
	}
	return s.repeatable(s.learning.order) && s.may.funds.Covers(2, s.learning.order)
}

// learn counts the outcome of an attempt for the dispatch policy :learned. It counts only attempts
// of a cascade: where attempts run concurrently, all but the fastest are canceled, so their
// outcomes are biased. It does not count answers of people, plan answers and recorded attempts, nor
// those of shadow, grading and replaying runs.
func (s *candidates) learn(a *attempt, pass bool) {
	l, n := &s.learning, s.n
	if n.w.Policy.Learned == nil || n.w.Policy.Strategy != policy.Cascade || n.d.Learned == nil || a.past != nil ||
		a.walk != nil || !a.capability.External() || n.run.Shadow || n.run.Grading || n.run.Fill != nil {
		return
	}
	cost, priced := a.usage.Key("cost-usd").AsNumber()
	o := bandit.Outcome{Arm: armOf(a.capability), Pass: pass, At: n.now(), Latency: a.latency(), Priced: priced,
		First: !l.taught && len(l.among) > 1, Among: l.among}
	if priced {
		o.Cost, _ = cost.Float64()
	}
	l.taught = true
	n.d.Learned.Add(n.learnedKey(), o, n.w.Policy.Learned)
}

// armOf returns the arm of a capability.
func armOf(c *registry.Capability) bandit.Arm {
	head, _, _ := strings.Cut(c.Version, ".")
	major, err := strconv.Atoi(head)
	if err != nil || major < 0 {
		major = 0
	}
	return bandit.Arm{CapID: c.ID, Major: major}
}

// declared returns the cost and latency that a capability declares.
func declared(c *registry.Capability) (d bandit.Declared) {
	if usd, ok := c.Cost.USD.AsNumber(); ok {
		d.Cost, _ = usd.Float64()
		d.Priced = true
	}
	if d.HasLatency = c.Cost.HasLatency; d.HasLatency {
		d.Latency = float64(c.Cost.Latency) / float64(time.Millisecond)
	}
	return d
}

// The sizes of the buckets of inputs, in bytes of their canonical text.
const (
	smallInput  = 1 << 10
	mediumInput = 16 << 10
)

// learnedKey returns the key of the group that counts the outcomes of the node.
func (n *node) learnedKey() learned.Key {
	return learned.Key{Intent: n.w.Intent, Bucket: n.bucket(n.w.Policy.Learned.Bucket)}
}

// bucket returns the bucket of the input by size or language; empty without buckets.
func (n *node) bucket(by string) string {
	switch by {
	case policy.BucketSize:
		switch size := len(n.w.Input.Canonical()); {
		case size <= smallInput:
			return "small"
		case size <= mediumInput:
			return "medium"
		}
		return "large"
	case policy.BucketLanguage:
		found, _ := n.d.Checks.Languages().Detect(text.Prose(quality.RequestText(n.w.Input)))
		return found
	}
	return ""
}
