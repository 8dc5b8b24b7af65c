package tally

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"time"
)

// Name is the quantity that a Key counts. The comment of each constant lists the labels
// of its keys, in their order.
type Name uint8

// The names of counts, durations and costs.
const (
	Acts            Name = iota // intent, status: completed, failed, canceled, expired, rejected
	ActErrors                   // error type of acts that did not complete
	Operations                  // intent or tool, outcome: committed, kept, failed, canceled
	Attempts                    // capability, intent or tool, outcome
	ParseFailures               // attempts whose answer does not fit its schema or format
	Retries                     // further attempts on the same candidate
	Fallbacks                   // attempts on another candidate than the one before
	Verdicts                    // gate, severity, verdict: pass, fail, error
	JudgeVerdicts               // verdict
	MustFailed                  // operations with a failed must verdict on any attempt
	MustFailedFinal             // operations with a failed must verdict on the last attempt
	Failures                    // error type of failed operations and rejected acts
	CacheLookups                // result: hit, miss, bypass
	Routings                    // outcome of the call of a router

	ActTime       // duration: intent
	OperationTime // duration: intent or tool
	AttemptTime   // duration: capability
	QueueWait     // duration: class
	ModelTime     // duration of attempts at language models: capability, error type or NoError
	Tokens        // numbers, as milliseconds, per attempt at a language model: capability, input or output

	Cost    // USD: capability
	ActCost // USD: intent
)

// NoError is the label in place of an error type for an attempt that succeeded.
const NoError = "none"

// Other is the label of all series beyond MaxSeries of a name.
const Other = "other"

// Key is one series: a name with its labels.
type Key struct {
	Name   Name
	Labels [3]string
}

func keyOf(name Name, labels ...string) Key {
	k := Key{Name: name}
	copy(k.Labels[:], labels)
	return k
}

func (k Key) compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Name, other.Name), slices.Compare(k.Labels[:], other.Labels[:]))
}

// MaxSeries is the maximum number of series of one name. Further series are counted
// under the label Other.
const MaxSeries = 2000

// Counts are the counts of a period. The zero value is empty.
type Counts struct {
	N     map[Key]int64
	Times map[Key]*Durations
	USD   map[Key]*big.Rat

	// Now counts acts, operations and attempts that had not ended at the end of the period.
	// It is nil in the counts of a Meter.
	Now map[Key]int64
	// Unread is the number of runs whose records were deleted. They count only under Acts,
	// ActErrors, ActTime, Cost and ActCost.
	Unread int64

	series map[Name]int
}

// admit returns the key under which k is counted: k, or one with the labels Other if its name has
// too many series. known reports whether k is counted already.
func (c *Counts) admit(k Key, known bool) Key {
	if known || k.Labels[0] == Other {
		return k
	}
	if c.series == nil {
		c.series = map[Name]int{}
	}
	if c.series[k.Name] >= MaxSeries-1 {
		other := Key{Name: k.Name}
		for i, label := range k.Labels {
			if label != "" {
				other.Labels[i] = Other
			}
		}
		return other
	}
	c.series[k.Name]++
	return k
}

func (c *Counts) count(k Key, n int64) {
	if c.N == nil {
		c.N = map[Key]int64{}
	}
	_, known := c.N[k]
	c.N[c.admit(k, known)] += n
}

func (c *Counts) open(name Name, labels ...string) {
	if c.Now == nil {
		c.Now = map[Key]int64{}
	}
	c.Now[keyOf(name, labels...)]++
}

func (c *Counts) times(k Key) *Durations {
	if c.Times == nil {
		c.Times = map[Key]*Durations{}
	}
	d := c.Times[k]
	if k = c.admit(k, d != nil); d == nil {
		if d = c.Times[k]; d == nil {
			d = &Durations{}
			c.Times[k] = d
		}
	}
	return d
}

func (c *Counts) time(k Key, took time.Duration) { c.times(k).add(took) }

func (c *Counts) spend(k Key, usd *big.Rat) {
	if c.USD == nil {
		c.USD = map[Key]*big.Rat{}
	}
	sum := c.USD[k]
	if k = c.admit(k, sum != nil); sum == nil {
		sum = c.USD[k]
	}
	if sum == nil {
		sum = new(big.Rat)
	}
	c.USD[k] = new(big.Rat).Add(sum, usd)
}

// Merge adds the counts of other to c. It does not change other.
func (c *Counts) Merge(other *Counts) {
	for k, n := range other.N {
		c.count(k, n)
	}
	for k, d := range other.Times {
		c.times(k).merge(d)
	}
	for k, usd := range other.USD {
		c.spend(k, usd)
	}
	for k, n := range other.Now {
		if c.Now == nil {
			c.Now = map[Key]int64{}
		}
		c.Now[k] += n
	}
	c.Unread += other.Unread
}

// Total returns the sum of all series of a name.
func (c *Counts) Total(name Name) (n int64) {
	for k, one := range c.N {
		if k.Name == name {
			n += one
		}
	}
	return n
}

// Having returns the sum of the series of a name whose label at the index label is
// value.
func (c *Counts) Having(name Name, label int, value string) (n int64) {
	for k, one := range c.N {
		if k.Name == name && k.Labels[label] == value {
			n += one
		}
	}
	return n
}

// By returns the counts of a name, grouped by the label at the index label.
func (c *Counts) By(name Name, label int) map[string]int64 { return by(c.N, name, label) }

func by(counts map[Key]int64, name Name, label int) map[string]int64 {
	out := map[string]int64{}
	for k, n := range counts {
		if k.Name == name {
			out[k.Labels[label]] += n
		}
	}
	return out
}

// SpentBy returns the costs in USD of a name, Cost or ActCost, by their label. The
// values must not be changed.
func (c *Counts) SpentBy(name Name) map[string]*big.Rat {
	out := map[string]*big.Rat{}
	for k, usd := range c.USD {
		if k.Name == name {
			out[k.Labels[0]] = usd
		}
	}
	return out
}

// Spent returns the cost of all attempts and checks in USD, nil if none is known.
func (c *Counts) Spent() *big.Rat {
	var sum *big.Rat
	for _, usd := range c.SpentBy(Cost) {
		if sum == nil {
			sum = new(big.Rat)
		}
		sum.Add(sum, usd)
	}
	return sum
}

// TimesOf returns the durations of a name whose first label is value; all durations of
// the name if value is empty. It is never nil.
func (c *Counts) TimesOf(name Name, value string) *Durations {
	all := &Durations{}
	for k, d := range c.Times {
		if k.Name == name && (value == "" || k.Labels[0] == value) {
			all.merge(d)
		}
	}
	return all
}

// Series returns the keys of a name, sorted by their labels.
func (c *Counts) Series(name Name) []Key {
	var keys []Key
	for _, k := range slices.Concat(slices.Collect(maps.Keys(c.N)), slices.Collect(maps.Keys(c.Times)),
		slices.Collect(maps.Keys(c.USD))) {
		if k.Name == name {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, Key.compare)
	return keys
}
