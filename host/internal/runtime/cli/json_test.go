package cli_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// VAL-006: requests, inputs and plans in JSON are typed by the schemas of their intents, in this process and by a daemon.
func TestJSONOnTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("ferment.hcl", scripted("all")+"http {\n  listen = [\"127.0.0.1:0\"]\n}\n")
	w.write("all.edn", `{:capabilities
 {:t/chat {:intents #{:model/chat} :in-schema :req/chat :out-schema :res/chat
           :steps [{:template {:text "You said: {{input.messages.0.content}}" :finish :stop}}]}}}`)
	const input = `{"messages":[{"role":"user","content":"hello"}],
	  "tools":[{"tool/id":"fs/read","description":"reads","in-schema":["map",["path","string"]]}]}`
	w.write("input.json", input)
	w.write("request.json", `{"proto":1,"trace":{"id":"t"},"task":{"intent":"model/chat"},"input":`+input+`}`)
	w.write("wrong.json", `{"messages":[{"role":"robot","content":"hello"}]}`)
	w.write("plan.json", `{"nodes":[{"op":"call","intent":"model/chat","input":`+input+`,"as":"a"},{"op":"emit","input":{"slot/path":["a","text"]}}]}`)
	w.write("bad.json", `{"nodes":[{"op":"call","intent":"model/chatt","input":{},"as":"a"},{"op":"emit","input":":a"}]}`)
	w.mustLock()
	local := map[string]ended{}
	for _, daemon := range []bool{false, true} {
		if daemon {
			w.serve()
		}
		for _, args := range [][]string{
			{"act", "model/chat", "--input-file", "input.json"},
			{"act", "model/chat", input},
			{"act", "request.json"},
			{"run", "plan.json"},
		} {
			got := w.run(args...)
			assert.Equal(t, 0, got.code, "%v, daemon %t: %s", args, daemon, got.stderr)
			assert.Equal(t, "You said: hello\n", got.stdout, args)
		}
		for _, args := range [][]string{{"act", "model/chat", "--input-file", "wrong.json"}, {"run", "bad.json"}, {"run", "bad.json", "--edn"}} {
			got := w.run(args...)
			assert.NotZero(t, got.code, "%v, daemon %t", args, daemon)
			if !daemon {
				local[args[len(args)-1]] = got
				continue
			}
			assert.Equal(t, local[args[len(args)-1]].code, got.code, args)
			assert.Equal(t, local[args[len(args)-1]].stderr, got.stderr, args)
		}
	}
	assert.Equal(t, 0, w.run("check", "plan.json").code)
	checked := w.run("check", "bad.json")
	assert.Equal(t, 1, checked.code)
	assert.Contains(t, checked.stdout, "CHECK-011")
	assert.Equal(t, 0, w.run("graph", "plan.json").code)
}
