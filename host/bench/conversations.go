package main

import (
	"fmt"
	"time"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/view"
)

// manyMessages is the length of the measured conversation.
const manyMessages = 10_000

// conversations measures conversations on disk, and compares reading one through contexts with a
// loop over its slice. Each read uses a new view, as each call of a model does.
func conversations(p pace) ([]row, error) {
	messages := make([]conversation.Message, 0, manyMessages)
	for i := range manyMessages / 2 {
		messages = append(messages, conversation.User(fmt.Sprint("question ", i)), conversation.Assistant(fmt.Sprint("answer ", i)))
	}
	c := conversation.Of(messages...)
	tx := conversation.Begin(nil)
	defer tx.Rollback()
	tx.Extend(messages[:2]...)
	all := func(conversation.Message) bool { return true }
	views := []struct {
		name string
		make func() conversation.Context
		n    int // number of views
	}{
		{"a composed view", func() conversation.Context { return view.Composed("Be brief.", c) }, 1},
		{"a transaction", func() conversation.Context { return conversation.TransactionContext(c, tx) }, 1},
		{"a window of all", func() conversation.Context { return view.Windowed(c, manyMessages) }, 1},
		{"a filter", func() conversation.Context { return view.Filtered(c, all) }, 1},
		{"three filters", func() conversation.Context {
			return view.Filtered(view.Filtered(view.Filtered(c, all), all), all)
		}, 3},
	}
	read := 0
	work := []func(){
		func() {
			for _, m := range messages {
				read += len(m.Role())
			}
		},
		func() { read += readAll(c) },
	}
	for _, v := range views {
		work = append(work, func() { read += readAll(v.make()) })
	}
	took := alternate(p, work...)
	loop, direct := took[0], took[1]
	rows := []row{against("10,000 messages through a context", direct, "a slice", loop, 8)}
	for i, v := range views {
		added := max(took[i+2]-direct, 0) / time.Duration(v.n)
		rows = append(rows, against("added by each view: "+v.name, added, "a slice", loop, 12))
	}
	if read == 0 {
		return nil, fmt.Errorf("nothing was read")
	}
	stored, err := storedConversations(p)
	return append(rows, stored...), err
}

// readAll reads the role of each message.
func readAll(c conversation.Context) (n int) {
	for m := range c.All() {
		n += len(m.Role())
	}
	return n
}
