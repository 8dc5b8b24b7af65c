package view_test

import (
	"fmt"
	"testing"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/view"
)

// CNV-032: reading 10,000 messages through views, beside a loop over their slice.
// A view is made anew for each reading.
func BenchmarkViews(b *testing.B) {
	var messages []conversation.Message
	for i := range 5_000 {
		messages = append(messages, conversation.User(fmt.Sprint(i)), conversation.Assistant(fmt.Sprint(i)))
	}
	c := conversation.Of(messages...)
	all := func(conversation.Message) bool { return true }
	n := 0
	b.Run("slice", func(b *testing.B) {
		for b.Loop() {
			for _, m := range messages {
				n += len(m.Role())
			}
		}
	})
	for _, v := range []struct {
		name string
		make func() conversation.Context
	}{
		{"context", func() conversation.Context { return c }},
		{"composed", func() conversation.Context { return view.Composed("Be brief.", c) }},
		{"window", func() conversation.Context { return view.Windowed(c, len(messages)) }},
		{"filter", func() conversation.Context { return view.Filtered(c, all) }},
		{"filters", func() conversation.Context { return view.Filtered(view.Filtered(view.Filtered(c, all), all), all) }},
	} {
		b.Run(v.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for m := range v.make().All() {
					n += len(m.Role())
				}
			}
		})
	}
}

// CNV-032: no allocation per message, in reading a context or in making a view.
func TestReadingAllocatesNothing(t *testing.T) {
	messages := make([]conversation.Message, 10_000)
	for i := range messages {
		messages[i] = conversation.User("x")
	}
	c := conversation.Of(messages...)
	all := func(conversation.Message) bool { return true }
	nested := view.Composed("Be brief.", view.Windowed(view.Filtered(c, all), 5_000), c)
	n := 0
	for name, work := range map[string]func(){
		"reading": func() {
			for m := range nested.All() {
				n += len(m.Role())
			}
		},
		"filter": func() { n += view.Filtered(c, all).Len() },
		"window": func() { n += view.Windowed(c, 5_000).Len() },
	} {
		if got := testing.AllocsPerRun(10, work); got > 12 {
			t.Errorf("%s: %v allocations for %d messages", name, got, len(messages))
		}
	}
}
