package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/chat"
	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// chatConfig configures a daemon with a scripted model.
const chatConfig = `ferment {
  profile  = "test"
  data_dir = "var"
}

plugin "model" {
  command = ["BIN/plugins/scripted"]

  config {
    inline = "{:capabilities {:model/stand-in {:kind :llm :intents #{:model/chat} :in-schema :req/chat :out-schema :res/chat :steps [{:stream [\"a \" \"few \" \"words\"] :value {:text \"a few words\" :finish :stop}}]}}}"
  }
}

store {
  driver = "sqlite"
}

http {
  listen = ["127.0.0.1:0"]
}

effects {
  scope "db/read" { enabled = true }
  scope "db/write" { enabled = true }
  rule "db/write" { any = ["any"] }
}
`

// chatGoal is the maximum time that a turn of a chat may add to its act.
const chatGoal = 3 * time.Millisecond

// caller calls intents of a daemon in the same way as the command line.
type caller struct {
	there *client.Client
	dir   string
}

// Call implements chat.Caller.
func (c caller) Call(ctx context.Context, request edn.Value, show func(edn.Value) error) (edn.Value, error) {
	if show == nil {
		response, err := c.there.Act(ctx, request, client.Call{Dir: c.dir})
		return response.Body, err
	}
	response, err := c.there.Stream(ctx, request, client.Call{Dir: c.dir}, func(e client.Event) error { return show(e.Data) })
	return response.Body, err
}

// chatTurn compares a turn of a chat, and the send in it, with an act over the same connection in
// which the same model returns the same text.
func chatTurn(p pace) (rows []row, err error) {
	site, err := newDaemonSite(chatConfig)
	if err != nil {
		return nil, err
	}
	defer site.close()
	daemon, _, err := site.serve()
	if err != nil {
		return nil, err
	}
	socket := ""
	for _, l := range daemon.seen {
		for _, address := range l.Listen {
			if strings.HasPrefix(address, "/") {
				socket = address
			}
		}
	}
	defer func() {
		_, failed := daemon.stop()
		err = errors.Join(err, failed)
	}()
	ctx := context.Background()
	there, err := client.Dial(ctx, socket, filepath.Join(site.dir, "var", "run", "admin.token"))
	if err != nil {
		return nil, err
	}
	c := caller{there, site.dir}
	same := func(v edn.Value) edn.Value { return v }
	t := chat.New(c, chat.Settings{Conversation: "talk", Apply: same})
	if err := t.Begin(ctx, func(chat.Event) {}); err != nil {
		return nil, err
	}
	if err := chat.New(c, chat.Settings{Conversation: "sent", Apply: same}).Begin(ctx, func(chat.Event) {}); err != nil {
		return nil, err
	}
	calls := func(intent, input string) func() error {
		request := edn.MustMap(
			edn.K("proto"), edn.Int(contract.Proto), edn.K("trace"), edn.MustMap(edn.K("id"), edn.Text("bench")),
			edn.K("task"), edn.MustMap(edn.K("intent"), edn.K(intent)), edn.K("input"), edn.MustRead(input))
		return func() error {
			response, err := c.Call(ctx, request, func(edn.Value) error { return nil })
			if failure := response.Key("error"); err == nil && !failure.IsNil() {
				return fmt.Errorf("%s failed: %s", intent, failure)
			}
			return err
		}
	}
	took, err := inTurns(p, 5, func() (failed error) {
		t.Do(ctx, "Hello", "", func(e chat.Event) {
			if f, ok := e.(chat.Failed); ok {
				failed = f.Err
			}
		})
		return failed
	}, calls("conversation/send", `{:conversation/id "sent" :text "Hello"}`),
		calls("model/chat", `{:messages [{:role :user :content "Hello"}]}`))
	if err != nil {
		return nil, err
	}
	act := took[2]
	for i, of := range []string{"chat turn", "conversation/send"} {
		added := max(0, took[i]-act)
		rows = append(rows, row{
			work: of + ", added to the act", ours: figure(added), peer: "the act " + figure(act),
			ratio: float64(added) / float64(chatGoal), goal: "<= 3 ms", within: added <= chatGoal,
		})
	}
	return rows, nil
}
