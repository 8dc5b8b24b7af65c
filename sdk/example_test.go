package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/agent"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// A complete plugin: a name, a version and a function. The main function of the
// program calls sdk.Serve.
func Example() {
	type question struct {
		Name string `edn:"name"`
	}
	type answer struct {
		Text string `edn:"text"`
	}
	greeter := sdk.Plugin{
		Name: "greeter", Version: "1.0.0",
		Capabilities: []sdk.Capability{
			sdk.Func("demo/greeter", sdk.Intents("text/respond"), func(_ context.Context, q question) (answer, error) {
				return answer{Text: "Hello, " + q.Name}, nil
			}),
		},
	}
	// func main() { sdk.Serve(greeter) }

	show(greeter, `{}`, "demo/greeter", `{:name "Ada"}`)
	show(greeter, `{}`, "demo/greeter", `{:nam "Ada"}`)
	// Output:
	// {:text "Hello, Ada"}
	// :input/invalid: input [:name]: required key is missing; is :nam meant?
}

// A main function contains nothing but Serve.
func ExampleServe() {
	ping := func(context.Context, struct{}) (string, error) { return "pong", nil }
	sdk.Serve(sdk.Plugin{
		Name: "ping", Version: "1.0.0",
		Capabilities: []sdk.Capability{sdk.Func("demo/ping", sdk.Intents("demo/ping"), ping, sdk.Deterministic())},
	})
}

// Metadata helps the host to choose: the kind of executor, its cost and limits,
// and its promises.
func ExampleFunc() {
	type position struct {
		FEN   string `edn:"fen"`
		Depth int    `edn:"depth,omitempty"`
	}
	type move struct {
		Move string   `edn:"move"`
		PV   []string `edn:"pv"`
		Eval int      `edn:"eval"`
	}
	engine := sdk.Func("chess/engine", sdk.Intents("chess/best-move"),
		func(_ context.Context, p position) (move, error) {
			if p.FEN == "" {
				return move{}, contract.Errorf("input/invalid", "the position is empty")
			}
			return move{Move: "e2e4", PV: []string{"e2e4", "e7e5"}, Eval: 34}, nil
		},
		sdk.Kind("solver"), sdk.Out("res/chess.move+pv+eval"), sdk.Tags("embedded"),
		sdk.Deterministic(), sdk.MaxInFlight(4), sdk.Timeout(15*time.Second),
	)
	p := sdk.Plugin{Name: "chess", Version: "1.0.0", Capabilities: []sdk.Capability{engine}}
	show(p, `{}`, "chess/engine", `{:fen "startpos"}`)
	show(p, `{}`, "chess/engine", `{:fen ""}`)
	// Output:
	// {:eval 34 :move "e2e4" :pv ["e2e4" "e7e5"]}
	// :input/invalid: the position is empty
}

// The function sends parts of the answer while it runs.
func ExampleStreamFunc() {
	type prompt struct {
		Prompt string `edn:"prompt"`
	}
	echo := sdk.StreamFunc("demo/echo", sdk.Intents("text/respond"),
		func(_ context.Context, p prompt, out *sdk.Stream) (string, error) {
			for word := range strings.FieldsSeq(p.Prompt) {
				if err := out.Text(word + " "); err != nil {
					return "", err
				}
			}
			return p.Prompt + " ", nil
		})
	p := sdk.Plugin{Name: "echo", Version: "1.0.0", Capabilities: []sdk.Capability{echo}}
	show(p, `{}`, "demo/echo", `{:prompt "one two"}`)
	// Output:
	// delta {:kind :text :seq 1 :text "one "}
	// delta {:kind :text :seq 2 :text "two "}
	// {:text "one two "}
}

// The input of a call can contain handles of other capabilities. The plugin can
// call them through the host while the call is running; it cannot call any
// other capability by name. In this example a test host answers.
func ExampleHandle() {
	type question struct {
		Prompt string     `edn:"prompt"`
		Model  sdk.Handle `edn:"model"`
	}
	polite := sdk.Func("demo/polite", sdk.Intents("text/respond"),
		func(ctx context.Context, q question) (string, error) {
			var said struct {
				Text string `edn:"text"`
			}
			answer, err := sdk.HostFrom(ctx).Invoke(ctx, sdk.Ask{
				Handle: q.Model, Intent: "text/respond", Input: map[string]string{"prompt": "please, " + q.Prompt},
			})
			if err == nil {
				err = answer.Decode(&said)
			}
			return said.Text, err
		})
	p := sdk.Plugin{Name: "polite", Version: "1.0.0", Features: []string{sdk.FeatureHostCalls}, Capabilities: []sdk.Capability{polite}}
	show(p, `{}`, "demo/polite", `{:prompt "sing" :model {:cap/ref :llm/voice}}`)
	show(p, `{}`, "demo/polite", `{:prompt "sing" :model :llm/voice}`)
	// Output:
	// {:text ":llm/voice heard: please, sing"}
	// :input/invalid: decode input: edn: decode: at [:model] sdk.Handle: read a handle: expected a map such as {:cap/ref :ns/name}, found :llm/voice
}

// A language model of the host is a model for agents and conversations. In this
// example a test host plays it.
func ExampleModel() {
	type question struct {
		Text  string     `edn:"text"`
		Model sdk.Handle `edn:"model"`
	}
	brief := sdk.Func("demo/brief", sdk.Intents("demo/brief"), func(ctx context.Context, q question) (string, error) {
		said, err := sdk.Model{Handle: q.Model}.Chat(ctx,
			conversation.Of(conversation.System("Answer in one word."), conversation.User(q.Text)),
			conversation.Options{MaxTokens: 10})
		return said.Text(), err
	})
	p := sdk.Plugin{Name: "brief", Version: "1.0.0", Features: []string{sdk.FeatureHostCalls}, Capabilities: []sdk.Capability{brief}}
	show(p, `{}`, "demo/brief", `{:text "How are you?" :model {:cap/ref :llm/voice}}`)
	// Output:
	// {:text "I read 2 messages."}
}

// An agent with the tools of its request. The host describes the capabilities to the
// model, and serves the calls of both.
func ExampleAgentFunc() {
	helper := sdk.AgentFunc("demo/helper", func(ctx context.Context, run *sdk.AgentRun) (conversation.Agent, error) {
		tools, err := run.Functions(ctx)
		if err != nil {
			return nil, err
		}
		a, err := agent.Tool(tools, run.Iterations(5))
		return agent.Instructed("Answer with what the tools return.", a), err
	})
	p := sdk.Plugin{Name: "helper", Version: "1.0.0", Features: []string{sdk.FeatureHostCalls}, Capabilities: []sdk.Capability{helper}}
	show(p, `{}`, "demo/helper", `{:messages [{:role :user :content "Hello"}] :tools [{:cap/ref :sat/solver}]}`)
	// Output:
	// delta {:kind :text :seq 1 :text "I read 2 messages."}
	// delta {:kind :message :message {:attribution {:agent/id "demo/helper" :finish :stop} :content "I read 2 messages." :role :assistant} :seq 2}
	// {:agent/stop :done :messages [{:attribution {:agent/id "demo/helper" :finish :stop} :content "I read 2 messages." :role :assistant}] :text "I read 2 messages."}
}

// An answer can be a plan that the host executes.
func ExamplePlanFunc() {
	type task struct {
		Topic string `edn:"topic"`
	}
	planner := sdk.PlanFunc("demo/planner", sdk.Intents("problem/solve"),
		func(_ context.Context, t task) (sdk.Plan, error) {
			return sdk.Plan{
				Plan:     edn.MustRead(`{:nodes [{:op :emit :input {:slot/id :topic}}]}`),
				Bindings: edn.MustMap(edn.K("topic"), edn.Text(t.Topic)),
			}, nil
		})
	p := sdk.Plugin{Name: "planner", Version: "1.0.0", Capabilities: []sdk.Capability{planner}}
	show(p, `{}`, "demo/planner", `{:topic "mate in two"}`)
	// Output:
	// {:nodes [{:input {:slot/id :topic} :op :emit}]} with {:topic "mate in two"}
}

// Raw reads and writes whole envelopes, for capabilities that serve intents of
// any shape or return more than one value.
func ExampleRaw() {
	mirror := sdk.Raw("demo/mirror", sdk.Intents("demo/reflect"),
		func(_ context.Context, request edn.Value, out *sdk.Stream) (edn.Value, error) {
			if err := out.Progress(edn.MustMap(edn.K("done"), edn.Int(1), edn.K("of"), edn.Int(2))); err != nil {
				return edn.Nil(), err // the caller is gone
			}
			result := edn.MustMap(edn.K("type"), edn.K("value"), edn.K("out"), request.Key("input"))
			return edn.MustMap(edn.K("result"), result), nil
		}, sdk.Description("answers what it is asked"))
	p := sdk.Plugin{Name: "mirror", Version: "1.0.0", Capabilities: []sdk.Capability{mirror}}
	show(p, `{}`, "demo/mirror", `{:any #{:shape 1.50M}}`)
	// Output:
	// progress {:done 1 :of 2}
	// {:any #{1.5M :shape}}
}

// A plugin with a backend reports the state of that backend. The host calls
// other candidates while the plugin is not ready, and does not restart it.
func ExamplePlugin_health() {
	server := make(chan bool) // results of pinging the backend
	p := sdk.Plugin{
		Name: "client", Version: "1.0.0",
		Capabilities: []sdk.Capability{
			sdk.Func("demo/fetch", sdk.Intents("demo/fetch"), func(context.Context, struct{}) (string, error) { return "fetched", nil }),
		},
		Health: func(ctx context.Context, report func(sdk.Status)) {
			report(sdk.NotReady("the server has not answered yet"))
			for {
				select {
				case <-ctx.Done():
					return // the plugin is ending
				case up := <-server:
					if up {
						report(sdk.Ready())
					} else {
						report(sdk.Degraded("the server is gone, answers come from the cache"))
					}
				}
			}
		},
	}
	ctx := context.Background()
	instance, err := conformance.InProcess(p).Start(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer instance.Stop()
	if _, err := instance.Client().Configure(ctx, wire.Setup{Config: edn.MustMap()}, nil); err != nil {
		fmt.Println(err)
		return
	}
	next := []bool{true, false}
	_ = instance.Client().Watch(ctx, func(h wire.Health) error {
		if h.State == wire.HealthStarting {
			return nil // until the hook has reported
		}
		fmt.Println(strings.TrimSpace(h.State.String() + " " + h.Reason))
		if len(next) == 0 {
			return errors.New("seen enough")
		}
		server <- next[0]
		next = next[1:]
		return nil
	})
	// Output:
	// not-ready the server has not answered yet
	// ready
	// degraded the server is gone, answers come from the cache
}

// Settings are a struct. The schema that validates the operator's configuration
// is derived from it; further problems are reported with the path of the
// setting.
func ExampleConfig() {
	type settings struct {
		Greeting string `edn:"greeting" doc:"what comes before the name"`
		Times    int    `edn:"times" min:"1" max:"3"`
	}
	type question struct {
		Name string `edn:"name"`
	}
	p := sdk.Plugin{
		Name: "greeter", Version: "1.1.0",
		Config: sdk.Config[settings]{
			Default: settings{Greeting: "Hello", Times: 1},
			Check: func(s settings) error {
				if strings.Contains(s.Greeting, "!") {
					return sdk.Problem("should not shout", edn.K("greeting"))
				}
				return nil
			},
		},
		Capabilities: []sdk.Capability{
			sdk.Func("demo/greeter", sdk.Intents("text/respond"), func(ctx context.Context, q question) (string, error) {
				s := sdk.ConfigFrom[settings](ctx)
				return strings.Repeat(s.Greeting+", "+q.Name+". ", s.Times), nil
			}),
		},
	}
	show(p, `{:times 2}`, "demo/greeter", `{:name "Ada"}`)
	show(p, `{:times 9 :greting "Hi"}`, "demo/greeter", `{:name "Ada"}`)
	show(p, `{:greeting "Hey!"}`, "demo/greeter", `{:name "Ada"}`)
	// Output:
	// {:text "Hello, Ada. Hello, Ada. "}
	// [:greting] unknown key; did you mean :greeting?
	// [:times] should be at most 3
	// [:greeting] should not shout
}

// A call can request another intent from the host, within its own budget,
// deadline and effects.
func ExampleHostFrom() {
	type text struct {
		Text string `edn:"text"`
	}
	summarise := sdk.Func("demo/title", sdk.Intents("demo/title"), func(ctx context.Context, in text) (string, error) {
		answer, err := sdk.HostFrom(ctx).Invoke(ctx, sdk.Ask{Intent: "context/summarize", Input: in})
		if errors.Is(err, contract.OfType("unsupported/intent")) {
			return strings.ToUpper(in.Text), nil // no other capability is available
		}
		if err != nil {
			return "", err
		}
		var got struct {
			Summary string `edn:"summary"`
		}
		return got.Summary, answer.Decode(&got)
	})
	p := sdk.Plugin{Name: "titles", Version: "1.0.0", Capabilities: []sdk.Capability{summarise}}
	show(p, `{}`, "demo/title", `{:text "a quiet host"}`)
	// Output:
	// {:text "A QUIET HOST"}
}

// show starts p in this process with a configuration, calls one capability and
// prints the outcome.
func show(p sdk.Plugin, config, capability, input string) {
	ctx := context.Background()
	instance, err := conformance.InProcess(p).Start(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer instance.Stop()
	host := &conformance.Host{}
	host.Answer("text/respond", func(_ context.Context, c wire.Call, _ *wire.Emitter) (edn.Value, error) {
		prompt, _ := c.Request.Key("input").Key("prompt").AsString()
		said := edn.MustMap(edn.K("text"), edn.Text(c.Request.Key("task").Key("cap/id").String()+" heard: "+prompt))
		return edn.MustMap(edn.K("result"), edn.MustMap(edn.K("type"), edn.K("value"), edn.K("out"), said)), nil
	})
	host.Answer("model/chat", func(_ context.Context, c wire.Call, _ *wire.Emitter) (edn.Value, error) {
		text := fmt.Sprintf("I read %d messages.", c.Request.Key("input").Key("messages").Len())
		return contract.ValueResult(edn.MustMap(edn.K("text"), edn.Text(text), edn.K("finish"), edn.K("stop"))), nil
	})
	d, err := instance.Client().Configure(ctx, wire.Setup{Config: edn.MustRead(config)}, host)
	if err != nil || len(d.Findings) > 0 {
		for _, f := range d.Findings {
			fmt.Println(edn.Vector(f.Path...), f.Message)
		}
		return
	}
	request := edn.MustMap(
		edn.K("proto"), edn.Int(1),
		edn.K("task"), edn.MustMap(edn.K("cap/id"), edn.K(capability)),
		edn.K("input"), edn.MustRead(input),
	)
	response, err := instance.Client().Invoke(ctx, wire.CallContext{}, request, func(e wire.Event) { fmt.Println(e.Kind, e.Value) })
	switch result := response.Key("result"); {
	case err != nil:
		fmt.Println(err)
	case result.HasKey("plan"):
		fmt.Println(result.Key("plan"), "with", result.Key("bindings"))
	default:
		fmt.Println(result.Key("out"))
	}
}
