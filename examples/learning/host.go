package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// config is the configuration of the example, from the root of the repository.
const config = "examples/learning/ferment.hcl"

// host runs ferment with the configuration of the example. Each run is a new process and does not
// know what an earlier run has learned. close removes the files.
type host struct {
	ferment, scratch string
	env              []string
}

func newHost(bin string) (*host, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	h := &host{ferment: filepath.Join(bin, "ferment")}
	if _, err := os.Stat(h.ferment); err != nil {
		return nil, fmt.Errorf("run it from the root of the repository after \"make build\": %w", err)
	}
	if h.scratch, err = os.MkdirTemp("", "ferment-learning-"); err != nil {
		return nil, err
	}
	h.env = append(os.Environ(), "FERMENT_EXAMPLE_BIN="+bin, "FERMENT_EXAMPLE_DATA="+filepath.Join(h.scratch, "data"))
	return h, nil
}

func (h *host) close() { _ = os.RemoveAll(h.scratch) }

// ask asks all questions in turn in one run and returns, for each question, the models that were
// asked, in order. order is cascade or learned.
func (h *host) ask(p portfolio, questions []question, order string) ([][]string, error) {
	file := filepath.Join(h.scratch, "plan.edn")
	if err := os.WriteFile(file, []byte(planOf(questions)), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(h.ferment, "run", file, "--deadline", "1h", "--transcript", "--config", config, "--json")
	cmd.Env = append(h.env[:len(h.env):len(h.env)], "ORDER="+order)
	for i, name := range models {
		cmd.Env = append(cmd.Env, fmt.Sprintf("USD_%s=%g", name, p.usd[i]))
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("ferment run: %w\n%s%s", err, errs.String(), out.String())
	}
	var response struct {
		Transcript []struct {
			Path  []any  `json:"path"`
			CapID string `json:"cap/id"`
		} `json:"transcript"`
	}
	if err := json.Unmarshal(out.Bytes(), &response); err != nil {
		return nil, fmt.Errorf("ferment run: the answer is not JSON: %w", err)
	}
	attempts := make([][]string, len(questions))
	for _, e := range response.Transcript {
		name, called := strings.CutPrefix(e.CapID, "demo/")
		if !called || len(e.Path) < 2 {
			continue
		}
		var i int
		item, _ := e.Path[1].(string) // [node item node]
		if _, err := fmt.Sscanf(item, "i%d", &i); err != nil || i < 0 || i >= len(attempts) {
			return nil, fmt.Errorf("ferment run: the transcript has an attempt at %v", e.Path)
		}
		attempts[i] = append(attempts[i], name)
	}
	return attempts, nil
}

// planOf returns the text of a plan that asks the questions one after the other.
func planOf(questions []question) string {
	list := make([]edn.Value, len(questions))
	for i, q := range questions {
		right := make([]edn.Value, len(q.right))
		for k, name := range q.right {
			right[k] = edn.Text(name)
		}
		list[i] = edn.MustMap(edn.K("right"), edn.Vector(right...))
	}
	return fmt.Sprintf(`{:bindings {:questions %s}
 :nodes [{:op :map :over {:slot/id :questions} :item :question :as :answers :max-parallel 1 :on-item-error :keep
          :body [{:op :call :id "ask" :intent :demo/answer :input {:slot/id :question} :as :answer}
                 {:op :emit :input :answer}]}
         {:op :emit :input {:slot/path [:answers :out]}}]}
`, edn.Vector(list...))
}
