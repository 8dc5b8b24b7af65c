package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// rulesConfig configures a host with the plugin judge; PROGRAM stands for its path.
const rulesConfig = `ferment {
  data_dir = "var"
}

plugin "judge" {
  command = ["PROGRAM"]
}

# %[1]s
`

// rulesVerdict returns a request for a verdict by rules on an answer of 4 KiB.
func rulesVerdict() []byte {
	const head = `{:proto 1 :trace {:id "bench"} :task {:intent :eval/grade :cap/id :judge/rules}
 :input {:task/call {:input {:text "Say what the bridge is like."}} :task/env {:source "The bridge of 1932 is 503 metres long."}
         :rubric {:rules [{:rule :terms :weight 3 :all ["bridge" "river" "1932"]} {:rule :forbidden :any ["as an AI"]} {:rule :length :max 5000} {:rule :numbers}
                          {:rule :repetition} {:rule :pattern :refuse "(?i)todo"} {:rule :rouge-l :reference "The bridge was built in 1932 and crosses the river in one span of 503 metres."}]}
         :task/result {:out {:text "%s"}}}}`
	var b strings.Builder
	for i := 0; b.Len() < 4<<10; i++ {
		fmt.Fprintf(&b, "Part %d of the bridge crosses the river beside the old quay and was built in 1932. ", i)
	}
	return fmt.Appendf(nil, head, b.String()[:4<<10])
}

// judgeRules compares a verdict by rules with a bare echo of equal size (JDG-014).
func judgeRules(p pace) ([]row, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "judge")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/fermenthq/ferment/plugins/judge").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the judge: %w\n%s", err, out)
	}
	h, err := startHost(strings.ReplaceAll(rulesConfig, "PROGRAM", program))
	if err != nil {
		return nil, err
	}
	defer h.close()
	b, err := startBare()
	if err != nil {
		return nil, err
	}
	defer b.close()
	ctx, text := context.Background(), rulesVerdict()
	ours, theirs, err := oneByOne(p, p.calls, func() error { return h.call(ctx, text) }, func() error { return b.echo(ctx, text) })
	if err != nil {
		return nil, err
	}
	return []row{against("judge/rules on 4 KiB, p50", median(ours), "bare go-plugin", median(theirs), 10)}, nil
}
