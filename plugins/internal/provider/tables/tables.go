package tables

import (
	"context"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/fermenthq/ferment/plugins/internal/provider/pricing"
)

// The tables: of gpt-4o and later models, and of gpt-4 and gpt-3.5.
const (
	newer = "o200k_base"
	older = "cl100k_base"
)

// olders are name prefixes of models with the older table, unless a prefix of
// newers matches too.
var (
	olders = [...]string{"gpt-4", "gpt-3.5", "gpt-35"}
	newers = [...]string{"gpt-4o", "gpt-4."}
)

// NameFor returns the name of the table of a model, by default the newer one.
func NameFor(model string) string {
	model = strings.ToLower(model)
	model = model[strings.LastIndex(model, "/")+1:]
	model = strings.TrimPrefix(model, "ft:")
	begins := func(with []string) bool {
		for _, p := range with {
			if strings.HasPrefix(model, p) {
				return true
			}
		}
		return false
	}
	if begins(olders[:]) && !begins(newers[:]) {
		return older
	}
	return newer
}

// For returns the table of a model.
func For(model string) pricing.Table { return &table{name: NameFor(model)} }

type table struct {
	name string
	once sync.Once
	// loaded is closed when codec is set.
	loaded chan struct{}
	codec  *codec.Codec
}

var _ pricing.Table = (*table)(nil)

// Load implements pricing.Table. Loading takes some tens of milliseconds and
// continues in the background if ctx ends.
func (t *table) Load(ctx context.Context) bool {
	t.once.Do(func() {
		t.loaded = make(chan struct{})
		go func() {
			defer close(t.loaded)
			if t.name == older {
				t.codec = codec.NewCl100kBase()
			} else {
				t.codec = codec.NewO200kBase()
			}
		}()
	})
	select {
	case <-t.loaded:
		return true
	case <-ctx.Done():
		return false
	}
}

// part is the size of the parts that are counted at once. The time for one text
// is quadratic in the worst case, so parts are short.
const part = 4 << 10

// Count implements pricing.Table. A text that is counted in parts may have one
// or two tokens more per 4 KiB than as a whole.
func (t *table) Count(ctx context.Context, text string) (int64, bool) {
	if !t.Load(ctx) {
		return 0, false
	}
	var sum int64
	for len(text) > 0 {
		if ctx.Err() != nil {
			return 0, false
		}
		end := cutAt(text)
		n, err := t.codec.Count(text[:end])
		if err != nil {
			return 0, false
		}
		sum += int64(n)
		text = text[end:]
	}
	return sum, true
}

// cutAt returns the end of the first part of a text: before a blank after a
// word, where a token begins anyway, else at any rune.
func cutAt(text string) int {
	if len(text) <= part {
		return len(text)
	}
	for i := part - 1; i > part/2; i-- {
		if text[i] == ' ' && text[i-1] > ' ' && text[i+1] > ' ' {
			return i
		}
	}
	end := part
	for end > part-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return end
}
