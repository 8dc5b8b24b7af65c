package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// config is the configuration of the example, from the root of the repository.
const config = "examples/quality/ferment.hcl"

// host runs ferment with the configuration of the example. Each run is a new process and does not
// know what an earlier run has learned. close removes the files.
type host struct {
	ferment string
	env     []string
	scratch string
	config  string
}

func newHost(bin string) (*host, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	h := &host{ferment: filepath.Join(bin, "ferment"), config: config}
	if _, err := os.Stat(h.ferment); err != nil {
		return nil, fmt.Errorf("run it from the root of the repository after \"make build\": %w", err)
	}
	if h.scratch, err = os.MkdirTemp("", "ferment-quality-"); err != nil {
		return nil, err
	}
	h.env = append(os.Environ(), "FERMENT_EXAMPLE_BIN="+bin, "FERMENT_EXAMPLE_DATA="+filepath.Join(h.scratch, "data"))
	return h, nil
}

func (h *host) close() { _ = os.RemoveAll(h.scratch) }

// run runs a plan and parses its JSON response into into. It returns no error for a run in which
// some items failed.
func (h *host) run(into any, env []string, plan string) error {
	file := filepath.Join(h.scratch, "plan.edn")
	if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
		return err
	}
	cmd := exec.Command(h.ferment, "run", file, "--deadline", "1h", "--transcript", "--config", h.config, "--json")
	cmd.Env = append(slices.Clone(h.env), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ferment run: %w\n%s%s", err, errs.String(), out.String())
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return fmt.Errorf("ferment run: the answer is not JSON: %w", err)
	}
	return nil
}

// figures are the result of one run.
type figures struct {
	asked, accepted, attempts int

	usd   float64
	calls map[string]int // by capability
}

func (f figures) rate() float64 { return float64(f.accepted) / float64(max(1, f.asked)) }

// price is the cost of an accepted answer, in thousandths of a dollar.
func (f figures) price() float64 { return 1000 * f.usd / float64(max(1, f.accepted)) }

// ask asks all questions of a portfolio in turn, in one run with the order of a policy, and returns
// the figures.
func (h *host) ask(p portfolio, b policy, questions []question) (figures, error) {
	f := figures{asked: len(questions), calls: map[string]int{}}
	var env []string
	usd := map[string]float64{}
	for i, e := range p.engines {
		name := names[i]
		env = append(env, fmt.Sprintf("DEPTH_%s=%d", name, e.depth), fmt.Sprintf("USD_%s=%g", name, e.usd))
		usd["chess/"+name] = e.usd
	}
	var response struct {
		Transcript []struct {
			Path    []any  `json:"path"`
			CapID   string `json:"cap/id"`
			Failure string `json:"failure/type"`
		} `json:"transcript"`
	}
	if err := h.run(&response, env, planOf(questions, b)); err != nil {
		return f, err
	}
	accepted := map[string]bool{}
	for _, e := range response.Transcript {
		price, known := usd[e.CapID]
		if !known {
			continue
		}
		f.attempts++
		f.calls[e.CapID]++
		f.usd += price
		if e.Failure == "" {
			accepted[fmt.Sprint(e.Path)] = true
		}
	}
	f.accepted = len(accepted)
	return f, nil
}

// planOf returns the text of a plan that asks the questions one after the other.
func planOf(questions []question, b policy) string {
	list := make([]edn.Value, len(questions))
	for i, q := range questions {
		list[i] = edn.MustMap(edn.K("fen"), edn.Text(q.fen), edn.K("solution"), edn.Text(q.solution))
	}
	order := slices.Clone(names)
	if b.reversed {
		slices.Reverse(order)
	}
	return fmt.Sprintf(`{:bindings {:questions %s}
 :nodes [{:op :map :over {:slot/id :questions} :item :question :as :answers :max-parallel 1 :on-item-error :keep
          :body [{:op :call :id "ask" :intent :chess/best-move :input {:slot/id :question} :as :answer
                  :dispatch {:policy :%s :candidates [:chess/%s]}}
                 {:op :emit :input :answer}]}
         {:op :emit :input {:slot/path [:answers :out]}}]}
`, edn.Vector(list...), b.order, strings.Join(order, " :chess/"))
}
