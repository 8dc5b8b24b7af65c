package pricelist

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/fermenthq/ferment/sdk/edn"
)

// File is the name of an installed list below the data directory.
const File = "prices.edn"

// Stale is the age from which a price should be checked again.
const Stale = 180 * 24 * time.Hour

// limits are the limits of the EDN text of a list.
var limits = edn.Limits{Bytes: 1 << 20, Depth: 8, Nodes: 100_000, String: 4 << 10}

//go:embed prices.edn
var shipped []byte

// Entry is the price of models of a vendor in USD per million tokens. Amounts are decimals; nil:
// not stated.
type Entry struct {
	Vendor      string    `edn:"vendor"`
	Models      []string  `edn:"models"`
	Input       edn.Value `edn:"input"`
	CachedInput edn.Value `edn:"cached-input,omitempty"`
	CacheWrite  edn.Value `edn:"cache-write,omitempty"`
	Output      edn.Value `edn:"output"`
	// UpTo is the maximum number of input tokens for which the price applies; 0: unlimited.
	UpTo int64 `edn:"up-to,omitempty"`
	// Until is the last day on which the price applies; empty: unknown.
	Until string `edn:"until,omitempty"`
	// Date is the day on which the price page of the vendor (Source) was read. Via is the record of
	// that page that was read; empty: the page itself.
	Date   string `edn:"date"`
	Source string `edn:"source"`
	Via    string `edn:"via,omitempty"`
}

// Vendor describes a vendor.
type Vendor struct {
	Hosts []string `edn:"hosts"` // host names of its API
}

// List is a list of prices.
type List struct {
	// Origin is the path of an installed list; empty for the shipped one.
	Origin  string            `edn:"-"`
	Version int               `edn:"prices/version"`
	Money   string            `edn:"currency"`
	Vendors map[string]Vendor `edn:"vendors"`
	Prices  []Entry           `edn:"prices"`
}

// Shipped returns the list embedded in the program.
func Shipped() List {
	l, problems := Parse(shipped, time.Time{})
	if len(problems) > 0 {
		panic(fmt.Sprintf("pricelist: the shipped list: %s", problems[0].String()))
	}
	return l
}

// InForce returns the list installed in a data directory, or the shipped one if there is none. If
// the installed list cannot be read, it returns the shipped one and an error that names the file.
func InForce(dataDir string, now time.Time) (List, error) {
	name := filepath.Join(dataDir, File)
	l, _, err := Read(name, now)
	switch {
	case dataDir == "" || errors.Is(err, fs.ErrNotExist):
		return Shipped(), nil
	case err != nil:
		return Shipped(), fmt.Errorf("read price list %s: %w", name, err)
	}
	l.Origin = name
	return l, nil
}

// Read reads a list from a file. If the text has problems, it returns all of them, and the first
// one as the error.
func Read(name string, now time.Time) (List, []Problem, error) {
	info, err := os.Stat(name)
	var failed *fs.PathError
	switch {
	case errors.As(err, &failed):
		return List{}, nil, failed.Err
	case !info.Mode().IsRegular():
		return List{}, nil, errors.New("is not a regular file")
	case info.Size() > int64(limits.Bytes):
		return List{}, nil, fmt.Errorf("has %d bytes, over the limit of %d", info.Size(), limits.Bytes)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return List{}, nil, err
	}
	l, problems := Parse(text, now)
	if len(problems) > 0 {
		return List{}, problems, errors.New(problems[0].String())
	}
	return l, nil, nil
}

// Install writes the list atomically to a data directory and returns the path of the file.
func (l List) Install(dataDir string) (string, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return "", fmt.Errorf("install price list: %w", err)
	}
	name := filepath.Join(dataDir, File)
	if err := renameio.WriteFile(name, l.Text(), 0o600); err != nil {
		return "", fmt.Errorf("install price list: %w", err)
	}
	return name, nil
}

// Value returns the list as an EDN map in the form of its file.
func (l List) Value() edn.Value {
	v, err := edn.Encode(l)
	if err != nil {
		panic(fmt.Sprintf("pricelist: %v", err)) // not with values from Parse
	}
	return v
}

// Text returns the list as the text of a file.
func (l List) Text() []byte {
	var first []edn.Value
	for _, name := range []string{"prices/version", "currency", "vendors", "vendor", "models", "input", "cached-input",
		"cache-write", "output"} {
		first = append(first, edn.K(name))
	}
	return append(edn.WritePretty(l.Value(), edn.PrettyOptions{Width: 120, First: first}), '\n')
}

// VendorAt returns the vendor whose API has the host name; empty if unknown.
func (l List) VendorAt(host string) string {
	for _, name := range slices.Sorted(maps.Keys(l.Vendors)) {
		if slices.Contains(l.Vendors[name].Hosts, strings.ToLower(host)) {
			return name
		}
	}
	return ""
}

// version matches the date suffix of a model version.
var version = regexp.MustCompile(`^-(\d{4}-\d{2}-\d{2}|20\d{6})$`)

// Find returns the price of a model of a vendor that applies at now; false if there is none. It
// does not consider UpTo. A model name with a date suffix also matches the name without it; an
// exact match takes precedence.
func (l List) Find(vendor, model string, now time.Time) (Entry, bool) {
	var dated Entry
	found := false
	for _, e := range l.Prices {
		if e.Vendor != vendor || e.Until != "" && now.UTC().Format(time.DateOnly) > e.Until {
			continue
		}
		for _, name := range e.Models {
			if name == model {
				return e, true
			}
			if rest, ok := strings.CutPrefix(model, name); ok && version.MatchString(rest) {
				dated, found = e, true
			}
		}
	}
	return dated, found
}

// ageOf returns the time since a day; false if date is not a date.
func ageOf(date string, now time.Time) (time.Duration, bool) {
	day, err := time.Parse(time.DateOnly, date)
	return now.Sub(day), err == nil
}

// Days returns the number of whole days since a day; false if date is not a date.
func Days(date string, now time.Time) (int, bool) {
	age, ok := ageOf(date, now)
	return int(age / (24 * time.Hour)), ok
}

// Changes lists the models, as VENDOR/MODEL, that differ between two lists.
type Changes struct{ Added, Changed, Removed []string }

// Compare returns the models whose amounts differ between two lists.
func Compare(before, after List) Changes {
	was, is := before.byModel(), after.byModel()
	var c Changes
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if old, ok := was[name]; !ok {
			c.Added = append(c.Added, name)
		} else if !old.same(is[name]) {
			c.Changed = append(c.Changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, ok := is[name]; !ok {
			c.Removed = append(c.Removed, name)
		}
	}
	return c
}

func (l List) byModel() map[string]Entry {
	all := map[string]Entry{}
	for _, e := range l.Prices {
		for _, m := range e.Models {
			all[e.Vendor+"/"+m] = e
		}
	}
	return all
}

// Amounts returns the amounts of an entry by the key of their attribute in a price block.
func (e Entry) Amounts() map[string]edn.Value {
	return map[string]edn.Value{"input": e.Input, "cached-input": e.CachedInput, "cache-write": e.CacheWrite,
		"output": e.Output}
}

// same reports whether two entries have the same price. Amounts are compared as numbers, so 1.5
// equals 1.50.
func (e Entry) same(other Entry) bool {
	theirs := other.Amounts()
	for name, v := range e.Amounts() {
		a, known := v.AsNumber()
		b, also := theirs[name].AsNumber()
		if known != also || known && a.Cmp(b) != 0 {
			return false
		}
	}
	return e.UpTo == other.UpTo && e.Until == other.Until
}
