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

// Stale is the age from which a price should be read again.
const Stale = 180 * 24 * time.Hour

// limits of a list as EDN.
var limits = edn.Limits{Bytes: 1 << 20, Depth: 8, Nodes: 100_000, String: 4 << 10}

//go:embed prices.edn
var shipped []byte

// Entry is the price of some models of a vendor, per million tokens. Amounts are
// decimals; a nil one is not stated.
type Entry struct {
	Vendor      string    `edn:"vendor"`
	Models      []string  `edn:"models"`
	Input       edn.Value `edn:"input"`
	CachedInput edn.Value `edn:"cached-input,omitempty"`
	CacheWrite  edn.Value `edn:"cache-write,omitempty"`
	Output      edn.Value `edn:"output"`
	// UpTo is the longest input, in tokens, for which the price holds; 0: any.
	UpTo int64 `edn:"up-to,omitempty"`
	// Until is the last day on which the price holds, empty: it is not known.
	Until string `edn:"until,omitempty"`
	// Date is the day on which the page of the vendor (Source) was read, and Via
	// the record through which, empty for the page itself.
	Date   string `edn:"date"`
	Source string `edn:"source"`
	Via    string `edn:"via,omitempty"`
}

// Vendor is what is known of a vendor.
type Vendor struct {
	Hosts []string `edn:"hosts"` // of its interface
}

// List is a list of prices.
type List struct {
	// Origin is the file of an installed list, empty for the shipped one.
	Origin  string            `edn:"-"`
	Version int               `edn:"prices/version"`
	Money   string            `edn:"currency"`
	Vendors map[string]Vendor `edn:"vendors"`
	Prices  []Entry           `edn:"prices"`
}

// Shipped returns the list that is part of the program.
func Shipped() List {
	l, problems := Parse(shipped, time.Time{})
	if len(problems) > 0 {
		panic(fmt.Sprintf("pricelist: the shipped list: %s", problems[0].String()))
	}
	return l
}

// InForce returns the list that is installed in a data directory, or the shipped
// one if none is. With an error, which names the file, it returns the shipped one
// too.
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

// Read reads a file. With problems the error is the first of them.
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

// Install writes a list into a data directory, whole or not at all. It returns
// the file.
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

// Value is the list as a file has it.
func (l List) Value() edn.Value {
	v, err := edn.Encode(l)
	if err != nil {
		panic(fmt.Sprintf("pricelist: %v", err)) // amounts come from Parse
	}
	return v
}

// Text is the text of a file with the list.
func (l List) Text() []byte {
	var first []edn.Value
	for _, name := range []string{"prices/version", "currency", "vendors", "vendor", "models", "input", "cached-input", "cache-write", "output"} {
		first = append(first, edn.K(name))
	}
	return append(edn.WritePretty(l.Value(), edn.PrettyOptions{Width: 120, First: first}), '\n')
}

// VendorAt returns the vendor whose interface is at a host, empty for none.
func (l List) VendorAt(host string) string {
	for _, name := range slices.Sorted(maps.Keys(l.Vendors)) {
		if slices.Contains(l.Vendors[name].Hosts, strings.ToLower(host)) {
			return name
		}
	}
	return ""
}

// version is what stands behind the name of a model whose versions are dated.
var version = regexp.MustCompile(`^-(\d{4}-\d{2}-\d{2}|20\d{6})$`)

// Find returns the price of a model of a vendor on a day.
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

// Age is how long ago a day was; false if the text is no day.
func Age(date string, now time.Time) (time.Duration, bool) {
	day, err := time.Parse(time.DateOnly, date)
	return now.Sub(day), err == nil
}

// Changes is how one list differs from another: the models as VENDOR/MODEL.
type Changes struct{ Added, Changed, Removed []string }

// Compare returns how the amounts of a new list differ from those of an old one.
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

// Amounts are the amounts of an entry by their names in a price block.
func (e Entry) Amounts() map[string]edn.Value {
	return map[string]edn.Value{"input": e.Input, "cached-input": e.CachedInput, "cache-write": e.CacheWrite, "output": e.Output}
}

// same reports whether two entries have the same price: 1.5 is 1.50.
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
